"""The cheap look at a program before it runs: imports, names that only an escape needs, and more.

This is no boundary (the kernel is). It gives a clear reason early, tells which programs deserve
more executions, and which ones can take several inputs in one process.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from code_verifier.jail.modules import (
    BANNED_ATTRIBUTES,
    BANNED_NAMES,
    SYS_NAMES,
    may_import,
    reason,
    tier,
)

_LOOKUPS = frozenset({"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller"})
_HASHING_NAMES = frozenset({"hash", "id", "object", "vars", "globals", "dir"})
_UNSTABLE_NAMES = frozenset({"set", "frozenset"})
_OUTSIDE_MODULES = """
    os sys posix builtins subprocess socket threading importlib inspect signal shutil
"""
_OUTSIDE = frozenset(_OUTSIDE_MODULES.split())
_SYS_READABLE = SYS_NAMES | {"stdin", "stdout", "stderr", "argv", "path"}
_UNSTABLE_MODULES = frozenset(
    {"random", "time", "datetime", "uuid", "weakref", "secrets", "timeit", "sys", "queue"}
)


@dataclass(frozen=True)
class Examination:
    """What the look found."""

    refusal: str | None
    """Why the program is banned."""
    unstable: bool = False
    """The result could depend on the order of sets, clocks or entropy."""
    hashing: bool = False
    """The result could depend on single bits of hashes or addresses, on which two executions
    agree half of the time, so that such a program gets more of them."""
    separable: bool = False
    """See `is_separable`."""
    tier: int = 0
    """Of the fork server that it needs, see `modules`."""


def examine(tree: ast.Module) -> Examination:
    """Look at a program."""
    bound: set[str] = set()
    banned: list[tuple[int, str]] = []
    imported: set[str] = set()
    unstable = hashing = False
    modules: dict[str, str] = {}
    attributes: list[tuple[str, ast.Attribute]] = []
    nodes = list(walk(tree, _main_guards(tree)))
    for node in nodes:
        if isinstance(node, ast.Name):
            if type(node.ctx) is not ast.Load:
                bound.add(node.id)
            elif node.id in BANNED_NAMES:
                banned.append((node.lineno, node.id))
            elif node.id in _UNSTABLE_NAMES:
                unstable = True
            elif node.id in _HASHING_NAMES:
                hashing = True
        elif type(node) in _QUIET:
            continue
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        else:
            found = _refused(node, imported)
            if found is not None:
                return Examination(f"{found} (line {getattr(node, 'lineno', 0)})")
            unstable = unstable or _is_unstable(node)
            hashing = hashing or _is_hashing(node)
            bound |= _binds(node)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    modules[alias.asname or alias.name.partition(".")[0]] = alias.name
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                attributes.append((node.value.id, node))
    for line, name in banned:
        if name not in bound:
            return Examination(f"use of {name!r} (line {line})")
    for name, item in attributes:
        found = _outside(modules.get(name, ""), item.attr)
        if found is not None:
            return Examination(f"{found} (line {item.lineno})")
    unstable = unstable or not imported.isdisjoint(_UNSTABLE_MODULES)
    separable = not hashing and is_separable(nodes, imported)
    return Examination(None, unstable, hashing, separable, _tier(nodes, imported))


def _outside(module: str, attribute: str) -> str | None:
    """Why a program may not use this attribute of an imported module."""
    if not module:
        return None
    if module == "sys" and attribute not in _SYS_READABLE and not attribute.startswith("__"):
        return f"use of 'sys.{attribute}'"
    private = attribute.startswith("_") and not attribute.startswith("__")
    if private or attribute in _OUTSIDE:
        return f"use of {module + '.' + attribute!r}, which is not part of that module"
    return None


def walk(tree: ast.AST, guards: frozenset[int] = frozenset()) -> Iterator[ast.AST]:
    """All nodes that can run, parents before their children. guards: the `id` of every If whose
    body never runs."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in guards:
            stack.extend(node.orelse)  # type: ignore[attr-defined]
            continue
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST) and type(value) not in _MARKS:
                stack.append(value)


_MARKS = frozenset({ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__()})
_QUIET = frozenset({ast.Constant, ast.Expr, ast.Assign, ast.Compare, ast.Return, ast.Subscript})


def _main_guards(tree: ast.Module) -> frozenset[int]:
    """The `if __name__ == "__main__"` of the module: a program has another name. None when the
    program could give itself that name."""
    guards = [node for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node.test)]
    for node in walk(tree) if guards else ():
        if isinstance(node, ast.Name):
            renamed = node.id in ("globals", "vars", "locals", "setattr")
            if renamed or (node.id == "__name__" and not isinstance(node.ctx, ast.Load)):
                return frozenset()
        else:
            fields = (
                getattr(node, name, None) for name in ("name", "asname", "arg", "rest", "attr")
            )
            if "__name__" in (*getattr(node, "names", ()), *fields):
                return frozenset()
    return frozenset(map(id, guards))


def _is_main_guard(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]):
            return True
    return False


def _tier(nodes: list[ast.AST], imported: set[str]) -> int:
    """Codecs live in modules of their own, which only the last tier holds."""
    for node in nodes:
        match node:
            case ast.Attribute(attr="encode" | "decode") | ast.Name("bytes" | "bytearray"):
                return tier({"codecs"})
    return tier(imported)


def _is_unstable(node: ast.AST) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub(), right):
            return _is_view(left) or _is_view(right)  # keys() & keys() is a set
    return False


def _is_view(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ("keys", "items")


def _is_hashing(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="__hash__" | "__dict__" | "__repr__"):
            return True
        case ast.Call(ast.Name("getattr" | "attrgetter"), args):
            return not all(isinstance(item, ast.Constant) for item in args[1:2])
    return False


def _binds(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names) | ast.ImportFrom(names=names):
            return {(item.asname or item.name).partition(".")[0] for item in names}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return {name}
        case ast.MatchStar(str(name)):
            return {name}
    return set()


def _refused(node: ast.AST, imported: set[str]) -> str | None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            imported.add(alias.name.partition(".")[0])
            if not may_import(alias.name):
                return reason(alias.name)
    elif isinstance(node, ast.ImportFrom):
        if node.level or node.module is None:
            return "relative import"
        for alias in node.names:
            outside = _outside(node.module, alias.name)
            if outside is not None and alias.name != "*":
                return outside
        imported.add(node.module.partition(".")[0])
        if not may_import(node.module):
            return reason(node.module)
        if node.module == "urllib" and any(alias.name != "parse" for alias in node.names):
            return reason(f"urllib.{node.names[0].name}")
    elif isinstance(node, ast.Attribute):
        return _banned_attribute([node.attr])
    elif isinstance(node, ast.MatchClass):
        return _banned_attribute(node.kwd_attrs)
    elif isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name in _LOOKUPS:
            return _banned_attribute(x.value for x in node.args if isinstance(x, ast.Constant))
    return None


def _banned_attribute(names: Iterable[object]) -> str | None:
    return next((f"use of attribute {name!r}" for name in names if name in BANNED_ATTRIBUTES), None)


# Which programs can take several inputs in one process, because nothing is carried over.
#
# Every input starts with names and values of its own: the module is executed again, and the
# arguments are read again. What is left is what lies outside of the program: imported modules and
# classes, and the caches behind them. A program is separable when it imports only modules without
# any of these, has no means of changing what it imports, and cannot see what a cache or the memory
# of an earlier input would show. Everything else gets a process per input.

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
