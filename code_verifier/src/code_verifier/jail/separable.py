"""Which programs can take several inputs in one process, because nothing passes between them.

Every input starts with names, values and built-in names of its own: the module is executed again
and the arguments are read again. What they share is the interpreter: built-in and imported objects,
the constants of the code, caches, and memory. A program is separable when it is written in the
grammar below, in which nothing of these can be changed, and no change of them be seen. Names and
attributes count wherever they stand, bound by the program or not, so that no rule of scope is
needed. `docs/threat-model.md` argues each construct.
"""

import ast
import builtins
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from code_verifier.jail.modules import BANNED_NAMES

_TYPES = """
    Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If Raise Try
    Assert Import ImportFrom Global Nonlocal Expr Pass Break Continue BoolOp NamedExpr BinOp UnaryOp
    Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp Yield YieldFrom Compare Call
    FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice
    comprehension ExceptHandler arguments arg keyword alias Match match_case MatchValue
    MatchSingleton MatchSequence MatchMapping MatchStar MatchAs MatchOr
"""
_GRAMMAR = frozenset(getattr(ast, name) for name in _TYPES.split()) | {
    kind
    for family in (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
    for kind in family.__subclasses__()
}
_EXCEPTIONS = """
    ArithmeticError AssertionError AttributeError IndexError KeyError LookupError NameError
    NotImplementedError OverflowError RecursionError RuntimeError StopIteration TypeError
    UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError ZeroDivisionError
"""
_BUILTINS = """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format frozenset hasattr hex int isinstance issubclass iter len list map
    max memoryview min next oct ord pow print property range repr reversed round set slice sorted
    staticmethod str sum super tuple type zip NotImplemented Ellipsis Exception
"""
_CAUGHT = frozenset(_EXCEPTIONS.split())
_REFUSED = frozenset(vars(builtins)) - _CAUGHT - BANNED_NAMES - frozenset(_BUILTINS.split())
_HOOKS = """
    init eq ne lt le gt ge hash repr str bool len iter next reversed contains getitem setitem
    delitem missing call int float index complex abs neg pos invert round trunc floor ceil add sub
    mul truediv floordiv mod divmod pow matmul and or xor lshift rshift radd rsub rmul rtruediv
    rfloordiv rmod rpow rand ror rxor rlshift rrshift iadd isub imul itruediv ifloordiv imod ipow
    iand ior ixor ilshift irshift post_init slots
"""
_DEFINED = frozenset(f"__{name}__" for name in _HOOKS.split())
_READ = frozenset({"__init__", "__name__"})
_OWN = frozenset({"__name__"})
_NONE: frozenset[str] = frozenset()
_SETS = frozenset({"set", "frozenset"})
NAMED = (  # other places for names
    *((ast.ClassDef, "name"), (ast.arg, "arg"), (ast.alias, "name"), (ast.alias, "asname")),
    *((ast.keyword, "arg"), (ast.ExceptHandler, "name"), (ast.MatchAs, "name")),
    *((ast.MatchStar, "name"), (ast.MatchMapping, "rest")),
)
_FRAMES = re.compile(r"(gi|cr|ag|tb|f|co)_\w+|mro|register")
_LIBRARY = {
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce",
}
_WHOLE = ("bisect", "cmath", "heapq", "itertools", "math")
_FIELD = re.compile(r"\{\w*[.\[]")
_PLAIN_NOTE = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant, ast.Load),
    *(ast.BinOp, ast.BitOr),
)


Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a program by their type; types that it has not are absent or empty."""


def is_separable(nodes: Nodes) -> bool:
    """Whether a program of these nodes is in the grammar."""
    if not nodes.keys() <= _GRAMMAR:
        return False
    if nodes[ast.Try] and (nodes[ast.Yield] or nodes[ast.YieldFrom]):
        return False  # a suspended generator's last words come at any time
    names = [node.id for node in nodes[ast.Name]]
    if nodes[ast.ClassDef] and (
        nodes[ast.Set] or nodes[ast.SetComp] or not _SETS.isdisjoint(names)
    ):
        return False  # such sets can be ordered by addresses
    modules, typing, imported = _imported(nodes)
    if not imported or not _REFUSED.isdisjoint(names) or _has_special_names(nodes):
        return False
    if typing and not _only_annotates(nodes, typing):
        return False
    loose = {"type", *modules}
    if not loose.isdisjoint(names):
        fit = _fitting(nodes, modules)
        if any(node.id in loose and id(node) not in fit for node in nodes[ast.Name]):
            return False
    imports = bool(nodes[ast.Import] or nodes[ast.ImportFrom])
    return not (
        any(node.keywords for node in nodes[ast.ClassDef])
        or any(_reaches(node, imports) for node in nodes[ast.Attribute])
        or any(map(_sees_identity, nodes[ast.Compare]))
        or (nodes[ast.Try] and _sees_memory(nodes))
    )


def _imported(nodes: Nodes) -> tuple[dict[str, str], set[str], bool]:
    """The names of imported modules, those of `typing`, and whether all imports are admitted."""
    modules: dict[str, str] = {}
    typing: set[str] = set()
    for item in (item for node in nodes[ast.Import] for item in node.names):
        if item.name == "typing":
            typing.add(item.asname or item.name)
        elif item.name in _LIBRARY or item.name in _WHOLE:
            modules[item.asname or item.name] = item.name
        else:
            return modules, typing, False
    for node in nodes[ast.ImportFrom]:
        names = {item.name for item in node.names}
        if node.module == "typing" and "*" not in names:
            typing |= {item.asname or item.name for item in node.names}
        elif node.module != "__future__" and not all(_offers(node.module, name) for name in names):
            return modules, typing, False
    return modules, typing, True


def _offers(module: str, name: str) -> bool:
    if module in _WHOLE:
        return not name.startswith(("_", "*"))
    return name in _LIBRARY.get(module, "").split()


def _only_annotates(nodes: Nodes, names: set[str]) -> bool:
    """Whether what comes from `typing` occurs in annotations only, and no class of the program's
    own, which the caches of `typing` would compare with those of earlier inputs."""
    if nodes[ast.ClassDef] or any(node.id == "type" for node in nodes[ast.Name]):
        return False
    notes = [node.annotation for kind in (ast.arg, ast.AnnAssign) for node in nodes[kind]]
    notes += [node.returns for node in nodes[ast.FunctionDef]]
    parts = [part for note in notes if note is not None for part in ast.walk(note)]
    noted = set(map(id, parts))
    return all(isinstance(part, _PLAIN_NOTE) for part in parts) and not any(
        node.id in names and id(node) not in noted for node in nodes[ast.Name]
    )


def _fitting(nodes: Nodes, modules: dict[str, str]) -> set[int]:
    """The names whose place makes them harmless: `type` in `type(x)` that is only named or, where
    no class of the program's own could get hold of it so, compared; modules of which an offered
    name is read."""
    fit: set[int] = set()

    def fits(node: ast.AST) -> None:
        match node:
            case ast.Call(ast.Name("type"), [argument], []) if type(argument) is not ast.Starred:
                fit.add(id(node.func))
            case ast.Tuple(parts) | ast.List(parts):
                for part in parts:
                    fits(part)
            case ast.Name("type"):
                fit.add(id(node))

    for node in nodes[ast.Compare] if not nodes[ast.ClassDef] else ():
        for side in (node.left, *node.comparators):
            fits(side)
    for node in nodes[ast.Attribute]:
        match node.value:
            case ast.Call() as call if node.attr == "__name__":
                fits(call)
            case ast.Name(name) if name in modules and _offers(modules[name], node.attr):
                fit.add(id(node.value))
    return fit


def _has_special_names(nodes: Nodes) -> bool:
    """Whether a dunder name stands where none is admitted."""
    own = [(node.name, _DEFINED) for node in nodes[ast.FunctionDef]]
    own += [
        (node.id, _DEFINED if type(node.ctx) is ast.Store else _OWN)
        for node in nodes[ast.Name]
        if node.id.startswith("__")
    ]
    own += [(node.attr, _READ) for node in nodes[ast.Attribute] if node.attr.startswith("__")]
    for kind, field in NAMED:
        own += [(getattr(node, field), _NONE) for node in nodes[kind]]
    for node in (*nodes[ast.Global], *nodes[ast.Nonlocal]):
        own += [(name, _NONE) for name in node.names]
    return any(name is not None and _is_special(name) and name not in fine for name, fine in own)


def _is_special(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def _reaches(node: ast.Attribute, imports: bool) -> bool:
    """Whether the attribute could be one of something shared, other than to call or read it."""
    if node.attr in ("format", "format_map"):  # reads attributes that a text names
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        return not isinstance(text, str) or _FIELD.search(text) is not None
    if imports and (type(node.ctx) is not ast.Load or node.attr.startswith("_")):
        return type(node.ctx) is not ast.Load or node.attr not in _READ
    return _FRAMES.fullmatch(node.attr) is not None


def _sees_identity(node: ast.Compare) -> bool:
    """`is` between two values: whether texts and numbers are one depends on what ran before."""
    sides = pairwise((node.left, *node.comparators))
    return any(
        isinstance(operator, ast.Is | ast.IsNot) and not any(map(_is_singleton, pair))
        for operator, pair in zip(node.ops, sides, strict=True)
    )


def _is_singleton(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _sees_memory(nodes: Nodes) -> bool:
    """Whether it could go on after a MemoryError: how much is left depends on what ran before. A
    handler has to name what it catches: built-in exceptions, or a class that is bound once."""
    leaves = (ast.Return, ast.Break, ast.Continue)
    for node in nodes[ast.Try]:
        if any(isinstance(part, leaves) for line in node.finalbody for part in ast.walk(line)):
            return True
    others = [node.id for node in nodes[ast.Name] if type(node.ctx) is not ast.Load]
    others += [node.name for node in nodes[ast.FunctionDef]]
    others += [item.asname or item.name.partition(".")[0] for item in nodes[ast.alias]]
    for kind, field in NAMED[1:]:
        others += [getattr(node, field) for node in nodes[kind]]
    classes = [node.name for node in nodes[ast.ClassDef]]
    own = {name for name in classes if classes.count(name) == 1} - set(dir(builtins))
    fine = (own | (_CAUGHT - set(classes))) - set(others)
    for handler in nodes[ast.ExceptHandler]:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not all(isinstance(kind, ast.Name) and kind.id in fine for kind in kinds):
            return True
    return False
