"""Which programs cannot see where in memory their objects lie, and so not what ran before them.

Where a new object lies depends on what the process has made before. A program sees it in the text
of a function, an iterator, a bound method or a plain instance (`<function g at 0x7f...>`), and in
the order of a set of objects whose hash is their address. One that makes neither texts nor sets is
blind. In any other, whatever gives such an object has to stand where only a call or its items come
of it: called, looped over, unpacked, as the key of `sorted`, as what `sum` adds up, or bound to a
name of which the same is true. So none gets into a container, an argument or a result.
"""

import ast
import builtins
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator

from code_verifier.jail.separable import NAMED, Nodes

_TEXTS = frozenset({"args", "ascii", "format", "format_map", "repr", "str"})
_SETS = frozenset({"frozenset", "set"})
_DECORATORS = frozenset(
    {"cache", "cached_property", "classmethod", "lru_cache", "property", "staticmethod"}
)
_MAKING = """
    enumerate filter iter map memoryview reversed zip partial merge accumulate chain combinations
    combinations_with_replacement compress count cycle dropwhile filterfalse islice pairwise
    permutations product starmap takewhile zip_longest .from_iterable .elements
"""
_MAKERS = _DECORATORS | frozenset(_MAKING.split())
"""What returns an object whose text shows its address. A method begins with a dot."""
_LEAKING = frozenset({"cmp_to_key", "groupby", "repeat", "tee"})
"""What returns one that gives others of them."""
_FIRST = """
    Counter OrderedDict all any bytearray bytes deque dict enumerate frozenset iter list max min
    next reversed set sorted sum tuple islice cycle pairwise combinations permutations .difference
    .extend .extendleft .fromkeys .from_iterable .intersection .join .union .update
"""
_EVERY = """
    accumulate cache chain compress dropwhile filter filterfalse lru_cache map product starmap
    takewhile zip zip_longest
"""
_TAKEN = dict.fromkeys(_FIRST.split(), 1) | dict.fromkeys(_EVERY.split(), 99) | {"reduce": 2}
"""How many of its arguments each calls, or takes the items of, and does not give back."""
_KEYED = frozenset({"max", "min"})
_KEYS = frozenset(("key", name) for name in ("max", "min", "sorted", ".sort"))
_FIXED = _TEXTS | _MAKERS | frozenset(_TAKEN) | {".sort"}
_TYPES = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)}
_LIBRARY = (Counter, OrderedDict, defaultdict, deque, functools.partial, functools.cached_property)
_METHODS = frozenset(name for kind in (*_TYPES.values(), *_LIBRARY) for name in dir(kind))
_EXCEPTIONS = frozenset(n for n, kind in _TYPES.items() if issubclass(kind, BaseException))
_SHOWN = _EXCEPTIONS | {"Counter", "OrderedDict", "deque", "dict", "float", "int", "list", "str"}
_OF_FUNCTIONS = frozenset({"__name__", "cache_clear", "cache_info"})
_PLAIN = frozenset({"__name__", "imag", "real"})
_FLOATS = frozenset({"cmath", "complex", "float", "math", "pow"})


def is_blind(nodes: Nodes, sets: bool) -> bool:
    """Whether a separable program of these nodes cannot see addresses, whatever input it gets but
    sets and, where it makes `sets`, floats."""
    names = {node.id for node in nodes[ast.Name]}
    attributes = {node.attr for node in nodes[ast.Attribute]}
    if not (sets or _has_texts(nodes, names | attributes)):
        return True
    if sets and (
        nodes[ast.ClassDef] or _has_floats(nodes, names) or _keeps_hashes(nodes, names | attributes)
    ):
        return False
    if (
        nodes[ast.Yield]
        or nodes[ast.YieldFrom]
        or not all(map(_shows_content, nodes[ast.ClassDef]))
    ):
        return False
    return _keeps_in_place(nodes, _MAKERS | {".values"} if sets else _MAKERS)


def _operations(nodes: Nodes) -> Iterator[ast.BinOp | ast.AugAssign]:
    yield from nodes[ast.BinOp]
    yield from nodes[ast.AugAssign]


def makes_sets(nodes: Nodes) -> bool:
    """Whether a program of these nodes can make a set, of the views of a dictionary too."""
    if nodes[ast.Set] or nodes[ast.SetComp] or any(n.id in _SETS for n in nodes[ast.Name]):
        return True
    of_views = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
    return any(node.attr in ("items", "keys") for node in nodes[ast.Attribute]) and any(
        isinstance(node.op, of_views) for node in _operations(nodes)
    )


def _has_texts(nodes: Nodes, names: set[str]) -> bool:
    return (
        bool(nodes[ast.FormattedValue])
        or not _TEXTS.isdisjoint(names)
        or any(isinstance(node.op, ast.Mod) and not _counts(node) for node in _operations(nodes))
    )


def _counts(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether one side of `%` is a number."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(isinstance(s, ast.Constant) and isinstance(s.value, int | float) for s in sides)


def _has_floats(nodes: Nodes, names: set[str]) -> bool:
    """Whether there could be a NaN, whose hash is its address."""
    return (
        not _FLOATS.isdisjoint(names)
        or any(node.module in _FLOATS for node in nodes[ast.ImportFrom])
        or any(item.name in _FLOATS for item in nodes[ast.alias])
        or any(isinstance(node.value, float | complex) for node in nodes[ast.Constant])
        or any(isinstance(node.op, ast.Div | ast.Pow) for node in _operations(nodes))
    )


def _keeps_hashes(nodes: Nodes, names: set[str]) -> bool:
    """Whether an exception or a type, whose hash is its address, could get into a set."""
    thrown = {id(part) for node in nodes[ast.Raise] for part in _callable(node.exc)}
    thrown |= {id(part) for node in nodes[ast.ExceptHandler] for part in _kinds(node)}
    return (
        "namedtuple" in names
        or any(node.name for node in nodes[ast.ExceptHandler])
        or any(node.id in _EXCEPTIONS and id(node) not in thrown for node in nodes[ast.Name])
    )


def _callable(node: ast.expr | None) -> list[ast.AST | None]:
    return [node, node.func] if isinstance(node, ast.Call) else [node]


def _kinds(node: ast.ExceptHandler) -> list[ast.AST]:
    return [] if node.type is None else list(ast.walk(node.type))


def _shows_content(node: ast.ClassDef) -> bool:
    """Whether the text of an instance does."""
    bases = {getattr(base, "id", "") for base in node.bases}
    own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return not node.decorator_list and ("__repr__" in own or not bases.isdisjoint(_SHOWN))


def _keeps_in_place(nodes: Nodes, makers: frozenset[str]) -> bool:
    """Whether what shows its address is used up where it is made, or bound to a name and then used
    up wherever that is read."""
    modules = {item.asname or item.name for node in nodes[ast.Import] for item in node.names}
    known = {item.name for node in nodes[ast.ImportFrom] for item in node.names} | set(
        dir(builtins)
    )
    functions = {node.name for node in nodes[ast.FunctionDef]}

    def called(node: ast.AST) -> str:
        match node:
            case ast.Call(ast.Name(name)):
                return name if name in known else ""
            case ast.Call(ast.Attribute(ast.Name(module), name)) if module in modules:
                return name
            case ast.Call(ast.Attribute(_, name)):
                return f".{name}"
        return ""

    def shows(node: ast.AST) -> bool:
        return isinstance(node, ast.Lambda | ast.GeneratorExp) or called(node) in makers

    heads: set[int] = set()
    used: set[int] = set()
    for node in nodes[ast.FunctionDef]:
        for part in node.decorator_list:
            name = part.id if isinstance(part, ast.Name) else called(part)
            if name not in _DECORATORS or (isinstance(part, ast.Name) and name not in known):
                return False
            heads.add(id(part))
    for node in nodes[ast.Call]:
        name, taken = called(node), node.args
        if not isinstance(node.func, ast.Call):
            heads.add(id(node.func))
        taken = taken[: _TAKEN.get(name, 0) if len(taken) == 1 or name not in _KEYED else 0]
        if not any(isinstance(part, ast.Starred) for part in taken):
            used.update(map(id, taken))
        used.update(id(item.value) for item in node.keywords if (item.arg, name) in _KEYS)
    for node in (*nodes[ast.For], *nodes[ast.comprehension]):
        used.add(id(node.iter))
    used.update(id(node.value) for node in nodes[ast.Starred])
    for node in nodes[ast.Assign]:
        kinds = set(map(type, node.targets))
        if kinds <= {ast.Tuple, ast.List} or (kinds == {ast.Name} and shows(node.value)):
            used.add(id(node.value))
            functions |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    stored = {node.attr for node in nodes[ast.Attribute] if type(node.ctx) is not ast.Load}
    bound = {node.id for node in nodes[ast.Name] if type(node.ctx) is ast.Store}
    for kind, field in NAMED:
        if (kind, field) not in ((ast.alias, "name"), (ast.keyword, "arg")):
            bound |= {getattr(node, field) for node in nodes[kind]}
    methods = stored | functions | (bound if nodes[ast.ClassDef] else set())
    if (
        not modules.isdisjoint(bound | functions)
        or not _FIXED.isdisjoint((bound | functions) & known)
        or not _FIXED.isdisjoint(f".{name}" for name in methods)
    ):
        return False
    data = (stored | bound) - functions - _METHODS
    for node in nodes[ast.Attribute]:
        if node.attr in data | _OF_FUNCTIONS or type(node.ctx) is not ast.Load:
            used.add(id(node.value))
        of_module = isinstance(node.value, ast.Name) and node.value.id in modules
        name = node.attr if of_module else f".{node.attr}"
        if name in _LEAKING or (name in makers and id(node) not in heads):
            return False
        if not (of_module or node.attr in data | _PLAIN or id(node) in used | heads):
            return False
    for node in nodes[ast.Name]:
        if type(node.ctx) is ast.Load and (
            (node.id in makers & known and id(node) not in heads)
            or (node.id in functions and id(node) not in used | heads)
            or (node.id in _LEAKING & known)
        ):
            return False
    shown = (*nodes[ast.Lambda], *nodes[ast.GeneratorExp], *filter(shows, nodes[ast.Call]))
    return all(id(node) in used | heads for node in shown)
