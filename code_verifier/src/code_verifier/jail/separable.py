"""Which programs can take several inputs in one process, because nothing is carried over.

Every input starts with names and values of its own: the module is executed again, and the
arguments are read again. What is left is what lies outside of the program: imported modules and
classes, and the caches behind them. A program is separable when it imports only modules without
any of these, has no means of changing what it imports, and cannot see what a cache or the memory
of an earlier input would show. Everything else gets a process per input.
"""

import ast
from itertools import pairwise

_PURE_MODULES = "__future__ bisect cmath collections functools heapq itertools math"
_CHANGING_NAMES = """
    setattr delattr getattr vars globals locals dir id attrgetter methodcaller register wraps
    update_wrapper total_ordering get_cache_token abc UserDict UserList UserString ChainMap
    __import__ __del__
"""
_PURE = frozenset(_PURE_MODULES.split())
_CHANGING = frozenset(_CHANGING_NAMES.split())
_HARMLESS = frozenset({"__init__", "__name__"})
_PLAIN_NOTE = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant, ast.Load),
    *(ast.BinOp, ast.BitOr),
)


def is_separable(nodes: list[ast.AST], imported: set[str]) -> bool:
    """Whether the program of these nodes cannot carry anything from one input to the next."""
    if not imported - {"typing"} <= _PURE:
        return False
    if "typing" in imported and not _only_annotates(nodes):
        return False
    generators = guarded = False
    for node in nodes:
        if _carries(node, bool(imported)):
            return False
        generators = generators or isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)
        guarded = guarded or isinstance(node, ast.Try | ast.TryStar | ast.With)
    return not (generators and guarded)  # a suspended generator's last words come at any time


def _carries(node: ast.AST, imports: bool) -> bool:
    """Whether this node could change what is shared, or see a change."""
    match node:
        case ast.Name(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
            return name in _CHANGING
        case ast.Attribute(attr=name):
            private = name.startswith("_") and name not in _HARMLESS
            if name in _CHANGING or (private and name.startswith("__")):
                return True
            return imports and (private or not isinstance(node.ctx, ast.Load))
        case ast.ImportFrom(module, names):
            return "." in (module or "") or any(item.name.startswith(("*", "_")) for item in names)
        case ast.alias(name):
            return not _CHANGING.isdisjoint(name.split("."))
        case ast.Compare():  # interned or not: that depends on what ran before
            sides = pairwise((node.left, *node.comparators))
            return any(
                isinstance(operator, ast.Is | ast.IsNot)
                and not any(isinstance(side, ast.Constant) for side in pair)
                for operator, pair in zip(node.ops, sides, strict=True)
            )
        case ast.Call(ast.Name("type"), args):  # a class made by hand can have a finaliser
            return len(args) != 1
    return isinstance(node, ast.MatchClass)  # reads attributes by names of the program's choice


def _only_annotates(nodes: list[ast.AST]) -> bool:
    """Whether what comes from `typing` occurs in annotations only, and no class of the program's
    own, which the caches of `typing` would compare with those of earlier inputs."""
    names: set[str] = set()
    notes: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.Name) and node.id == "type"):
            return False
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found = (item for item in node.names if item.name.partition(".")[0] == "typing")
            names.update((item.asname or item.name).partition(".")[0] for item in found)
        note = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(note, ast.AST):
            parts = list(ast.walk(note))
            if not all(isinstance(part, _PLAIN_NOTE) for part in parts):
                return False
            notes.update(map(id, parts))
    return not any(
        isinstance(node, ast.Name) and node.id in names and id(node) not in notes for node in nodes
    )
