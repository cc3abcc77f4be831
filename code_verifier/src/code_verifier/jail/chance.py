"""Which programs can reach a source of chance: entropy, clocks, the order of sets, addresses.

Two executions seldom tell such a program from a deterministic one, so that it gets sixteen. The
answer is an upper bound: what decides is what a program can reach, and where that cannot be told it
counts as reached. A program is quiet when

- it imports modules, reads built-in names and looks up attributes only that are known to be quiet;
- no set can arise: there are no set displays and, where `&`, `|`, `^` or `-` are used, every view
  of a dict is consumed on the spot, as by a loop, `sorted` or `in`;
- no text can show an address: there is no text of anything, or every function, iterator and method
  is called or consumed on the spot, and every class says what its text is.
"""

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Any

Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a program by their type."""

_MODULES = str.split("""
    __future__ abc bisect cmath collections copy dataclasses decimal fractions functools heapq
    itertools json math numbers operator re statistics string textwrap typing unicodedata
""")
_CLOCKS = {"random", "secrets", "datetime", "time", "calendar", "uuid"}
_MEMBERS = set(
    str.split(
        "KeysView ItemsView Set MutableSet methodcaller attrgetter UserString get_type_hints *"
    )
)
"""What those modules have that is not quiet."""
_NAMES = str.split("""
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format int isinstance issubclass iter len list map max min next oct
    hex ord pow print property range repr reversed round slice sorted staticmethod str sum super
    tuple type zip Ellipsis NotImplemented __name__ getattr setattr hasattr delattr
""")
_BUILT_IN = {
    name
    for name, value in vars(builtins).items()
    if not (isinstance(value, type) and issubclass(value, BaseException))
}
_LOUD = _BUILT_IN.difference(_NAMES)
_EXCEPTIONS = set(vars(builtins)) - _BUILT_IN
_OF_BUILT_IN = {
    name
    for kind in (str, bytes, list, tuple, dict, int, float, complex, range, slice, Exception)
    for name in dir(kind)
    if not name.startswith("_")
}
_METHODS = _OF_BUILT_IN - set(
    str.split("""
    real imag numerator denominator start stop step args
""")
)
_SPECIAL = {"__name__", "__class__", "__doc__", "__init__", "__len__", "__qualname__"}
_OF_MODULES = str.split("""
    appendleft popleft extendleft rotate maxlen most_common elements subtract total move_to_end
    group groups groupdict start end span match search findall sub subn split fullmatch finditer
    from_iterable quantize limit_denominator as_integer_ratio default_factory cache_clear wraps
""")
_ATTRIBUTES = _OF_BUILT_IN.union(_SPECIAL, _OF_MODULES)
_LOOKUPS = {"getattr", "setattr", "hasattr", "delattr"}
_TEXTS = {"ascii", "format", "repr", "str"}
_TEXT_NAMES = set(
    str.split("format format_map substitute safe_substitute dumps dump vformat args mod imod")
)
"""Attributes, and members of modules, that give texts of objects."""
_VIEWS = {"keys", "items"}
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_ALGEBRA_NAMES = set(
    str.split("""
    and_ or_ xor sub iand ior ixor isub
""")
)
_FIRST = str.split("""
    all any bool dict enumerate iter len list map max min next reversed sorted sum tuple
""")
"""Built-in functions that keep nothing of their first argument but its items."""
_MAKERS = {"map", "filter", "zip", "enumerate", "iter", "reversed", "property"}
_DATA_MODULES = str.split("""
    math cmath collections copy decimal fractions operator statistics bisect textwrap typing re
    heapq json string unicodedata
""")
"""What their functions give has a text without an address."""
_ITERATORS = _MAKERS | set(
    str.split(
        "finditer scanner elements from_iterable merge Template Formatter JSONEncoder JSONDecoder"
    )
)
_DECORATORS = set(str.split("cache lru_cache wraps dataclass total_ordering abstractmethod"))
_DEEP = {"groupby", "tee", "fields", "classmethod", "staticmethod", "property"}
"""What they give holds objects whose texts show addresses."""
_DEFINED: tuple[type[ast.AST], ...] = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Parents = Mapping[int, ast.AST]


def has_chance(nodes: Nodes, imported: set[str], addresses: bool = False) -> bool:
    """Whether a program of these nodes and imports may reach entropy, clocks, the order of sets, or
    hashes and addresses of objects. addresses: only the latter count, and the order of sets, which
    hangs on them."""
    bound = _bound(nodes)
    modules = {
        item.asname or item.name.partition(".")[0]: item.name
        for node in nodes[ast.Import]
        for item in node.names
    }
    members = {item.name for node in nodes[ast.ImportFrom] for item in node.names}
    if not imported <= {*_MODULES, *(_CLOCKS if addresses else ())} or members & _MEMBERS:
        return True
    if nodes[ast.Set] or nodes[ast.SetComp] or not _are_names_quiet(nodes, bound):
        return True
    if not _are_attributes_quiet(nodes, bound, modules):
        return True
    every = [node for group in nodes.values() for node in group]
    parents = {id(part): node for node in every for part in ast.iter_child_nodes(node)}
    if _has_algebra(nodes, members) and _keeps_a_view(nodes, parents, bound):
        return True
    return _has_text(nodes) and _keeps_an_address(nodes, parents, bound, modules)


def _bound(nodes: Nodes) -> set[str]:
    """The names that the program itself gives something."""
    names = {node.id for node in nodes[ast.Name] if type(node.ctx) is not ast.Load}
    names |= {node.arg for node in nodes[ast.arg]}
    named = (*_DEFINED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
    names |= {node.name for kind in named for node in nodes[kind]}
    aliases = [
        item for kind in (ast.Import, ast.ImportFrom) for node in nodes[kind] for item in node.names
    ]
    names |= {item.asname or item.name.partition(".")[0] for item in aliases}
    return names - {None}


def _are_names_quiet(nodes: Nodes, bound: set[str]) -> bool:
    names = {node.id for node in nodes[ast.Name]}
    if names & _LOUD or not names <= bound | _BUILT_IN | _EXCEPTIONS:
        return False
    if {node.name for node in nodes[ast.FunctionDef]} & {"__del__", "__hash__"}:
        return False
    looked = [node.func for node in nodes[ast.Call] if _looks_up_quietly(node)]
    return len(looked) == sum(node.id in _LOOKUPS for node in nodes[ast.Name])


def _looks_up_quietly(node: ast.Call) -> bool:
    match node:
        case ast.Call(ast.Name(name), [_, ast.Constant(str(attribute)), *_]) if name in _LOOKUPS:
            return attribute not in _VIEWS and attribute[:2] != "__"
    return False


def _are_attributes_quiet(nodes: Nodes, bound: set[str], modules: Mapping[str, str]) -> bool:
    names = bound | {node.attr for node in nodes[ast.Attribute] if type(node.ctx) is ast.Store}
    names |= {item.arg for item in nodes[ast.keyword] if item.arg}
    names |= {  # fields of named tuples, and looked up
        name
        for node in nodes[ast.Constant]
        if type(node.value) is str
        for name in node.value.replace(",", " ").split()[:50]
    }
    for node in nodes[ast.Attribute]:
        of_module = isinstance(node.value, ast.Name) and node.value.id in modules
        if of_module and node.attr not in _MEMBERS and node.attr[:1] != "_":
            continue
        special = node.attr.startswith("__") and node.attr not in _SPECIAL
        if special or (node.attr not in _ATTRIBUTES and node.attr not in names):
            return False
    return not nodes[ast.MatchClass]


def _has_algebra(nodes: Nodes, members: set[str]) -> bool:
    operations = (*nodes[ast.BinOp], *nodes[ast.AugAssign])
    looked = {node.attr for node in nodes[ast.Attribute]}
    looked |= {node.value for node in nodes[ast.Constant] if type(node.value) is str}
    return any(isinstance(node.op, _ALGEBRA) for node in operations) or bool(
        _ALGEBRA_NAMES & (members | looked)
    )


def _keeps_a_view(nodes: Nodes, parents: _Parents, bound: set[str]) -> bool:
    for node in nodes[ast.Attribute]:
        if node.attr in _VIEWS:
            call = parents[id(node)]
            called = isinstance(call, ast.Call) and call.func is node
            if not called or not _is_consumed(call, parents, bound):
                return True
    return False


def _is_consumed(node: ast.AST, parents: _Parents, bound: set[str]) -> bool:
    """Whether nothing of the value remains where it stands but its items, or whether it has any."""
    match parents[id(node)]:
        case ast.For(iter=part) | ast.AsyncFor(iter=part) | ast.comprehension(iter=part):
            return part is node
        case ast.Compare() | ast.Starred() | ast.Expr() | ast.YieldFrom() | ast.UnaryOp(ast.Not()):
            return True
        case ast.Attribute() | ast.Subscript(slice=ast.Constant() | ast.Slice()):
            return True
        case ast.If(test=part) | ast.While(test=part) | ast.IfExp(test=part):
            return part is node
        case ast.Assign(targets):
            return all(isinstance(target, ast.Tuple | ast.List) for target in targets)
        case ast.Call(ast.Attribute(attr="join" | "extend"), [part]):
            return part is node and not bound & {"join", "extend"}
        case ast.Call(ast.Name(name), args) if name not in bound and node in args:
            if name in ("zip", "map", "filter"):
                return name == "zip" or args[0] is not node
            return (
                args[0] is node
                and (name not in ("max", "min") or len(args) == 1)
                and name in _FIRST
            )
    return False


def _has_text(nodes: Nodes) -> bool:
    """Whether the text of anything but a constant may be made."""
    return (
        bool(nodes[ast.FormattedValue])
        or any(node.id in _TEXTS for node in nodes[ast.Name])
        or any(node.attr in _TEXT_NAMES for node in nodes[ast.Attribute])
        or any(item.name in _TEXT_NAMES for node in nodes[ast.ImportFrom] for item in node.names)
        or any(node.arg == "file" for node in nodes[ast.keyword])
        or any(isinstance(node.op, ast.Mod) and not _is_number(node) for node in nodes[ast.BinOp])
        or any(isinstance(node.op, ast.Mod) for node in nodes[ast.AugAssign])
    )


def _is_number(node: ast.BinOp) -> bool:
    """Whether `left % right` is no text, as far as one can see."""
    sides = (node.left, node.right)
    numbers = (isinstance(x, ast.Constant) and type(x.value) in (int, float) for x in sides)
    return any(numbers) or (
        isinstance(node.left, ast.BinOp) and not isinstance(node.left.op, ast.Add)
    )


def _keeps_an_address(
    nodes: Nodes, parents: _Parents, bound: set[str], modules: Mapping[str, str]
) -> bool:
    """Whether a function, an iterator, a method or an object whose text shows its address may be
    kept anywhere."""
    kinds = (ast.Yield, ast.YieldFrom, ast.AsyncFunctionDef)
    decorators = [item for kind in _DEFINED for node in nodes[kind] for item in node.decorator_list]
    if not {_name_of(item) for item in decorators} <= _DECORATORS:
        return True  # they may keep what they are given
    if any(map(nodes.__getitem__, kinds)) or any(map(_shows_address, nodes[ast.ClassDef])):
        return True
    if not all(_is_called(node, parents, bound, nodes) for node in _functions(nodes)):
        return True
    if any(node.id in _DEEP for node in nodes[ast.Name]):
        return True
    makers = [node for node in nodes[ast.Call] if _makes_iterator(node, nodes, modules)]
    makers += nodes[ast.GeneratorExp]
    return not all(_is_consumed(node, parents, bound) for node in makers)


def _functions(nodes: Nodes) -> list[ast.AST]:
    """Where functions, methods and built-in functions that make iterators are read."""
    functions = {node.name for node in nodes[ast.FunctionDef]} | _MAKERS
    for node in nodes[ast.ImportFrom]:
        functions |= {item.asname or item.name for item in node.names if node.module != "typing"}
    loose: list[ast.AST] = [
        node for node in nodes[ast.Name] if node.id in functions and _is_read(node)
    ]
    loose += nodes[ast.Lambda]
    loose += [
        node
        for node in nodes[ast.Attribute]
        if node.attr in _METHODS | functions and _is_read(node)
    ]
    return loose


def _name_of(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _makes_iterator(node: ast.Call, nodes: Nodes, modules: Mapping[str, str]) -> bool:
    """Whether a call may give an iterator, or another object whose text shows its address."""
    name = _name_of(node)
    source = _module_of(name, nodes) or ""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        source = modules.get(node.func.value.id, "").partition(".")[0]
    return name in _ITERATORS | _DEEP or (source != "" and source not in _DATA_MODULES)


def _is_read(node: Any) -> bool:
    return type(node.ctx) is ast.Load


def _module_of(name: str, nodes: Nodes) -> str | None:
    """The top-level module that a name was imported from."""
    for node in nodes[ast.ImportFrom]:
        if any((item.asname or item.name) == name for item in node.names):
            return str(node.module).partition(".")[0]
    return None


def _is_called(node: ast.AST, parents: _Parents, bound: set[str], nodes: Nodes) -> bool:
    """Whether a function is called where it stands, or given to what only calls it."""
    match parent := parents[id(node)]:
        case ast.Call(func) if func is node:
            return True
        case ast.keyword(arg="key"):
            match parents[id(parent)]:
                case ast.Call(ast.Name("sorted" | "max" | "min" as name)):
                    return name not in bound
                case ast.Call(ast.Attribute(attr="sort")):
                    return "sort" not in bound
        case ast.Attribute() | ast.Compare() | ast.FunctionDef() | ast.arg():
            return True  # also a decorator or an annotation
        case ast.Call(ast.Name("map" | "filter" | "reduce" as name), [first, *_]) if first is node:
            real = name not in bound or _module_of(name, nodes) == "functools"
            return real and _gives_data(node, nodes)
        case ast.Call(ast.Attribute(ast.Name("functools"), "reduce"), [first, *_]):
            return first is node and _gives_data(node, nodes)
    return False


def _gives_data(node: ast.AST, nodes: Nodes) -> bool:
    """Whether a function that is called by another gives no iterator by itself."""
    match node:
        case ast.Attribute(ast.Name(name)):
            return name in _NAMES
        case ast.Name(name):
            return name not in _MAKERS and (_module_of(name, nodes) or "math") in _DATA_MODULES
    return isinstance(node, ast.Lambda)


def _shows_address(node: ast.ClassDef) -> bool:
    """Whether the text of an instance shows its address, as far as one can see."""
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    parts = [part for item in (*node.decorator_list, *node.bases) for part in ast.walk(item)]
    names = ("id", "attr", "arg")
    used = {getattr(part, name, "") for part in parts for name in names}
    shown = used & ({"dataclass", "NamedTuple"} | _EXCEPTIONS) and "repr" not in used
    return not shown and "__repr__" not in methods
