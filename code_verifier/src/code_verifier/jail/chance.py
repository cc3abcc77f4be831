"""Which programs can reach a source of chance: entropy, clocks, the order of sets.

Two executions seldom distinguish such a program from a deterministic one, so that it gets sixteen.
The answer is an upper bound: a source that a program may reach counts as reached. A program is
quiet when

- all its modules, built-in names and attributes are known to be quiet;
- no set can arise: there are no set displays and, if `&`, `|`, `^` or `-` are used, every view of a
  dict is consumed on the spot, as by a loop, `sorted` or `in`.

Addresses in texts are not predicted: `addresses` reports that a program has seen one.
"""

import ast
import builtins
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType

from code_verifier.jail.imports import words
from code_verifier.syntax import DEFINITIONS, Nodes

_ALL = words("")
MEMBERS = dict.fromkeys(words("bisect cmath heapq itertools math numbers unicodedata"), _ALL) | {
    "__future__": words("annotations division generator_stop print_function"),
    "abc": words("ABC ABCMeta abstractmethod"),
    "collections": words("""
        ChainMap Counter OrderedDict UserDict UserList defaultdict deque namedtuple
        Callable Collection Container Generator Hashable Iterable Iterator Mapping MutableMapping
        MutableSequence Reversible Sequence Sized
    """),
    "copy": words("copy"),
    "fractions": words("Fraction"),
    "functools": words("""
        cache cached_property cmp_to_key lru_cache partial partialmethod reduce total_ordering
        update_wrapper wraps
    """),
    "re": words("""
        A ASCII DOTALL I IGNORECASE M MULTILINE Match Pattern S U UNICODE VERBOSE X compile error
        escape findall finditer fullmatch match search split sub subn
    """),
    "string": words("""
        ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable
        punctuation whitespace
    """),
    "typing": words("""
        Any Callable ClassVar Collection Container Counter DefaultDict Deque Dict Final Generator
        Generic Hashable Iterable Iterator List Literal Mapping Match MutableMapping MutableSequence
        NamedTuple NewType NoReturn Optional OrderedDict Pattern Protocol Reversible Sequence Sized
        SupportsFloat SupportsInt TYPE_CHECKING Tuple TypeAlias TypeVar TypedDict Union
        cast overload
    """),
}
"""The quiet members of modules: they are no modules, and all their members are quiet. Of a module
with plain functions and numbers only, all members are quiet."""
_NAMES = words("""
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format int isinstance issubclass iter len list map max min next oct
    hex ord pow print property range repr reversed round slice sorted staticmethod str sum super
    tuple zip Ellipsis NotImplemented __name__
""")
_EXCEPTIONS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_KINDS = (str, bytes, list, tuple, dict, int, float, complex, range, slice, Exception)
_OF_BUILT_IN = {name for kind in _KINDS for name in dir(kind) if not name.startswith("_")}
_SPECIAL = words("__name__ __doc__ __init__ __len__ __qualname__")
_FINALISERS = words("__del__ __hash__ __deepcopy__")
"""Methods that are called at a random moment, or receive an address."""
_INSIDE = {"obj"}.union(
    *map(dir, (FrameType, TracebackType, GeneratorType, CoroutineType, AsyncGeneratorType))
) - words("send throw close")
"""Attributes of built-in objects that may lead anywhere: of exceptions, and to frames."""
_ATTRIBUTES = words("""
    appendleft popleft extendleft rotate maxlen most_common elements subtract total move_to_end
    group groups groupdict start end span match search findall sub subn split fullmatch finditer
    from_iterable quantize limit_denominator as_integer_ratio default_factory cache_clear wraps
""").union(_OF_BUILT_IN, _SPECIAL)
_TEXTS = words("ascii format repr str")
_TEXT_ATTRIBUTES = words("format format_map vformat args")
"""Names and attributes that give texts of objects."""
_VIEWS = ("keys", "items")
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_FIRST = words("""
    all any bool dict enumerate iter len list map max min next reversed sorted sum tuple
""")
"""Built-in functions that keep nothing of their first argument but its items."""


class Program:
    """The nodes of a program, and the meaning of its names."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        every = [node for group in nodes.values() for node in group]
        self.parents = {id(part): node for node in every for part in ast.iter_child_nodes(node)}
        tops = [(x.asname, x.name.partition(".")[0]) for n in nodes[ast.Import] for x in n.names]
        self.modules = {alias or top: top for alias, top in tops}
        self.names = {node.id for node in nodes[ast.Name]}
        self.attributes = {node.attr for node in nodes[ast.Attribute]}
        self.texts = {node.value for node in nodes[ast.Constant] if type(node.value) is str}
        named = (*DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
        bound = {node.name for kind in named for node in nodes[kind] if node.name}
        bound |= {node.id for node in nodes[ast.Name] if type(node.ctx) is not ast.Load}
        bound |= {x.asname or x.name for node in nodes[ast.ImportFrom] for x in node.names}
        self.bound = bound.union(self.modules, (node.arg for node in nodes[ast.arg]))
        """The names that it binds."""

    def has_quiet_members(self) -> bool:
        """Whether it uses quiet members of modules only, and modules for nothing else."""
        sources = self.nodes[ast.ImportFrom]
        used = [(str(n.module).partition(".")[0], x.name) for n in sources for x in n.names]
        for node in self.nodes[ast.Name]:
            if node.id in self.modules and type(node.ctx) is ast.Load:
                used.append((self.modules[node.id], getattr(self.parents[id(node)], "attr", "")))
        return all(_is_quiet(module, member) for module, member in used)

    def has_quiet_names(self) -> bool:
        """Whether it reads only names and attributes that are known to be quiet, or that it
        defines."""
        nodes = self.nodes
        if not self.names - _NAMES - _EXCEPTIONS <= self.bound - vars(builtins).keys():
            return False
        if any(name in text for name in _FINALISERS for text in self.texts | self.bound):
            return False
        names = self.own_attributes()
        for node in nodes[ast.Attribute]:
            if isinstance(node.value, ast.Name) and node.value.id in self.modules:
                continue
            special = node.attr.startswith("__") and node.attr not in _SPECIAL
            if special or (node.attr not in _ATTRIBUTES and node.attr not in names):
                return False
        return True

    def own_attributes(self) -> set[str]:
        """The attributes that it defines: in classes, by assignment, as keywords or as fields of a
        named tuple."""
        nodes = self.nodes
        attrs = {n.attr for n in nodes[ast.Attribute] if type(n.ctx) is ast.Store}
        attrs |= {item.arg for item in nodes[ast.keyword] if item.arg}
        for part in (part for node in nodes[ast.ClassDef] for part in node.body):
            names = [part] if isinstance(part, DEFINITIONS) else ast.walk(part)
            attrs |= {n.id for n in names if isinstance(n, ast.Name) and type(n.ctx) is ast.Store}
            attrs.add(getattr(part, "name", ""))
        for node in nodes[ast.Call]:
            if "namedtuple" in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
                texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
                attrs |= {word for x in texts for word in str(x).replace(",", " ").split()}
        return attrs - _INSIDE

    def may_make_a_set(self) -> bool:
        """Whether it uses the operators that make a set of two views of dicts, and may keep a view,
        not only consume it."""
        operations = (*self.nodes[ast.BinOp], *self.nodes[ast.AugAssign])
        if not any(isinstance(node.op, _ALGEBRA) for node in operations):
            return False
        views = [node for node in self.nodes[ast.Attribute] if node.attr in _VIEWS]
        calls = [(node, self.parents[id(node)]) for node in views]
        return not all(
            isinstance(call, ast.Call) and call.func is node and self.is_consumed(call)
            for node, call in calls
        )

    def is_consumed(self, node: ast.AST) -> bool:
        """Whether the value is used up where it stands: only its items remain, or whether it has
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
            case ast.Call(ast.Name(name), [first, *tail]) if name not in self.bound:
                one = name not in ("max", "min") or not tail
                return first is node and one and name in _FIRST - {"map"}
        return False


def makes_texts(nodes: Nodes) -> bool:
    """Whether a value that is no constant may be converted to text."""
    operations = (*nodes[ast.BinOp], *nodes[ast.AugAssign])
    divisors = [getattr(node, "right", None) for node in operations if isinstance(node.op, ast.Mod)]
    return (
        bool(nodes[ast.FormattedValue])
        or not all(map(_is_number, divisors))
        or any(node.id in _TEXTS for node in nodes[ast.Name])
        or any(node.attr in _TEXT_ATTRIBUTES for node in nodes[ast.Attribute])
        or any(node.arg in ("file", None) for node in nodes[ast.keyword])
    )


def _is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_quiet(module: str, member: str) -> bool:
    return member in MEMBERS[module] or (MEMBERS[module] is _ALL and member[:1] not in "_*")
