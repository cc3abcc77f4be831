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

from code_verifier.jail.modules import words

Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a program by their type."""


_MODULES = words("""
    __future__ abc bisect cmath collections copy dataclasses decimal fractions functools heapq
    itertools json math numbers operator re statistics string textwrap typing unicodedata
""")
_MEMBERS = words("""
    KeysView ItemsView Set MutableSet methodcaller attrgetter UserString get_type_hints *
""")
"""What those modules have that is not quiet."""
_NAMES = words("""
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format int isinstance issubclass iter len list map max min next oct
    hex ord pow print property range repr reversed round slice sorted staticmethod str sum super
    tuple type zip Ellipsis NotImplemented __name__ getattr setattr hasattr delattr
""")
_EXCEPTIONS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_OF_BUILT_IN = {
    name
    for kind in (str, bytes, list, tuple, dict, int, float, complex, range, slice, Exception)
    for name in dir(kind)
    if not name.startswith("_")
}
_METHODS = _OF_BUILT_IN - words("real imag numerator denominator start stop step args")
_SPECIAL = words("__name__ __class__ __doc__ __init__ __len__ __qualname__")
_ATTRIBUTES = (
    _OF_BUILT_IN
    | _SPECIAL
    | words("""
    appendleft popleft extendleft rotate maxlen most_common elements subtract total move_to_end
    group groups groupdict start end span match search findall sub subn split fullmatch finditer
    from_iterable quantize limit_denominator as_integer_ratio default_factory cache_clear wraps
""")
)
_LOOKUPS = words("getattr setattr hasattr delattr")
_TEXTS = words("ascii format repr str")
_TEXT_NAMES = words("format format_map substitute safe_substitute dumps dump vformat args mod imod")
"""Attributes, and members of modules, that give texts of objects."""
_VIEWS = ("keys", "items")
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_ALGEBRA_NAMES = words("and_ or_ xor sub iand ior ixor isub")
_FIRST = words("""
    all any bool dict enumerate iter len list map max min next reversed sorted sum tuple
""")
"""Built-in functions that keep nothing of their first argument but its items."""
_MAKERS = words("map filter zip enumerate iter reversed property")
_DATA_MODULES = words("""
    math cmath collections copy decimal fractions operator statistics bisect textwrap typing re
    heapq json string unicodedata
""")
"""What their functions give has a text without an address."""
_DEEP = words("groupby tee fields classmethod staticmethod property")
"""What they give holds objects whose texts show addresses."""
_ITERATORS = (
    _MAKERS
    | _DEEP
    | words("""
    finditer scanner elements from_iterable merge Template Formatter JSONEncoder JSONDecoder
""")
)
_DEFINED: tuple[type[ast.AST], ...] = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def has_chance(nodes: Nodes, imported: set[str]) -> bool:
    """Whether a program of these nodes and imports may reach entropy, clocks, the order of sets, or
    hashes and addresses of objects."""
    if not imported <= _MODULES:
        return True
    if nodes[ast.Set] or nodes[ast.SetComp] or nodes[ast.MatchClass]:
        return True
    program = _Program(nodes)
    if program.members & _MEMBERS or not program.has_quiet_names():
        return True
    if program.has_algebra() and program.keeps_a_view():
        return True
    return program.makes_texts() and program.keeps_an_address()


class _Program:
    """The nodes of a program, and what its names are bound to."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        every = [node for group in nodes.values() for node in group]
        self.parents = {id(part): node for node in every for part in ast.iter_child_nodes(node)}
        self.modules = {
            item.asname or item.name.partition(".")[0]: item.name.partition(".")[0]
            for node in nodes[ast.Import]
            for item in node.names
        }
        imports = [(node, item) for node in nodes[ast.ImportFrom] for item in node.names]
        self.members = {item.name for _, item in imports}
        self.sources = {
            item.asname or item.name: str(node.module).partition(".")[0] for node, item in imports
        }
        self.names = {node.id for node in nodes[ast.Name]}
        self.attributes = {node.attr for node in nodes[ast.Attribute]}
        self.texts = {node.value for node in nodes[ast.Constant] if type(node.value) is str}
        self.bound = _bound(nodes) | self.modules.keys() | self.sources.keys()

    def has_quiet_names(self) -> bool:
        """Whether it reads only names and attributes that are known to be quiet, or its own."""
        nodes = self.nodes
        if not self.names - _NAMES - _EXCEPTIONS <= self.bound - vars(builtins).keys():
            return False
        if {node.name for node in nodes[ast.FunctionDef]} & {"__del__", "__hash__"}:
            return False
        looked = sum(map(_looks_up_quietly, nodes[ast.Call]))
        if looked != sum(node.id in _LOOKUPS for node in nodes[ast.Name]):
            return False
        names = self.bound | {n.attr for n in nodes[ast.Attribute] if type(n.ctx) is ast.Store}
        names |= {item.arg for item in nodes[ast.keyword] if item.arg}
        for node in nodes[ast.Attribute]:
            of_module = isinstance(node.value, ast.Name) and node.value.id in self.modules
            if of_module and node.attr not in _MEMBERS and node.attr[:1] != "_":
                continue
            special = node.attr.startswith("__") and node.attr not in _SPECIAL
            if special or (node.attr not in _ATTRIBUTES and node.attr not in names):
                return False
        return True

    def has_algebra(self) -> bool:
        operations = (*self.nodes[ast.BinOp], *self.nodes[ast.AugAssign])
        return any(isinstance(node.op, _ALGEBRA) for node in operations) or bool(
            _ALGEBRA_NAMES & (self.members | self.attributes | self.texts)
        )

    def keeps_a_view(self) -> bool:
        """Whether a view of a dict may be anywhere but where it is consumed."""
        for node in self.nodes[ast.Attribute]:
            if node.attr in _VIEWS:
                call = self.parents[id(node)]
                called = isinstance(call, ast.Call) and call.func is node
                if not called or not self.is_consumed(call):
                    return True
        return False

    def is_consumed(self, node: ast.AST) -> bool:
        """Whether nothing remains of the value where it stands but its items, or whether it has
        any."""
        match self.parents[id(node)]:
            case ast.For(iter=part) | ast.AsyncFor(iter=part) | ast.comprehension(iter=part):
                return part is node
            case ast.Compare() | ast.Starred() | ast.Expr() | ast.YieldFrom():
                return True
            case ast.Call(ast.Attribute(attr="join" | "extend"), [part]):
                return part is node and not self.bound & {"join", "extend"}
            case ast.Call(ast.Name("zip"), args) if node in args:
                return "zip" not in self.bound
            case ast.Call(ast.Name(name), [first, *others]) if name not in self.bound:
                one = name not in ("max", "min") or not others
                return first is node and one and name in _FIRST - {"map"}
        return False

    def makes_texts(self) -> bool:
        """Whether the text of anything but a constant may be made."""
        nodes = self.nodes
        return (
            bool(nodes[ast.FormattedValue] or self.names & _TEXTS)
            or bool(_TEXT_NAMES & (self.attributes | self.members))
            or any(node.arg == "file" for node in nodes[ast.keyword])
            or any(isinstance(n.op, ast.Mod) and not _is_number(n) for n in nodes[ast.BinOp])
            or any(isinstance(node.op, ast.Mod) for node in nodes[ast.AugAssign])
        )

    def keeps_an_address(self) -> bool:
        """Whether a function, an iterator, a method or an object whose text shows its address may
        be kept anywhere."""
        nodes = self.nodes
        if self.names & _DEEP or any(n.decorator_list for kind in _DEFINED for n in nodes[kind]):
            return True  # a decorator may keep what it is given
        if nodes[ast.Yield] or nodes[ast.YieldFrom] or nodes[ast.AsyncFunctionDef]:
            return True
        if not all(map(_says_its_text, nodes[ast.ClassDef])):
            return True
        makers = [*filter(self.makes_iterator, nodes[ast.Call]), *nodes[ast.GeneratorExp]]
        return not all(map(self.is_called, self.functions())) or not all(
            map(self.is_consumed, makers)
        )

    def functions(self) -> list[ast.AST]:
        """Where functions, methods and built-in functions that make iterators are read."""
        names = {node.name for node in self.nodes[ast.FunctionDef]} | _MAKERS
        names |= {name for name, source in self.sources.items() if source != "typing"}
        read: list[ast.AST] = [*self.nodes[ast.Lambda]]
        read += [n for n in self.nodes[ast.Name] if n.id in names and type(n.ctx) is ast.Load]
        names |= _METHODS
        read += [
            n for n in self.nodes[ast.Attribute] if n.attr in names and type(n.ctx) is ast.Load
        ]
        return read

    def makes_iterator(self, node: ast.Call) -> bool:
        """Whether a call may give an iterator, or another object whose text shows its address."""
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        source = self.sources.get(name, "")
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            source = self.modules.get(node.func.value.id, "")
        return name in _ITERATORS or (source != "" and source not in _DATA_MODULES)

    def is_called(self, node: ast.AST) -> bool:
        """Whether a function is called where it stands, or given to what only calls it."""
        match parent := self.parents[id(node)]:
            case ast.Call(func) if func is node:
                return True
            case ast.keyword(arg="key"):
                match self.parents[id(parent)]:
                    case ast.Call(ast.Name("sorted" | "max" | "min" as name)):
                        return name not in self.bound
                    case ast.Call(ast.Attribute(attr="sort")):
                        return "sort" not in self.bound
            case ast.Attribute() | ast.Compare() | ast.FunctionDef() | ast.arg():
                return True  # also a decorator or an annotation
            case ast.Call(ast.Name("map" | "filter" | "reduce" as name), [first, *_]):
                real = name not in self.bound or self.sources.get(name) == "functools"
                return first is node and real and isinstance(node, ast.Lambda)
        return False


def _bound(nodes: Nodes) -> set[str]:
    """The names that anything but an import binds."""
    names = {node.id for node in nodes[ast.Name] if type(node.ctx) is not ast.Load}
    named = (*_DEFINED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
    names |= {node.name for kind in named for node in nodes[kind]} - {None}
    return names | {node.arg for node in nodes[ast.arg]}


def _looks_up_quietly(node: ast.Call) -> bool:
    match node:
        case ast.Call(ast.Name(name), [_, ast.Constant(str(attribute)), *_]) if name in _LOOKUPS:
            return attribute not in _VIEWS and attribute[:2] != "__"
    return False


def _is_number(node: ast.BinOp) -> bool:
    """Whether `left % right` is no text, as far as one can see."""
    sides = (node.left, node.right)
    return any(isinstance(x, ast.Constant) and type(x.value) in (int, float) for x in sides)


def _says_its_text(node: ast.ClassDef) -> bool:
    return any(isinstance(x, ast.FunctionDef) and x.name == "__repr__" for x in node.body)
