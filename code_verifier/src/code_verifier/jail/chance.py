"""Which programs can reach a source of chance: entropy, clocks, the order of sets, addresses.

Two executions seldom distinguish such a program from a deterministic one, so that it gets sixteen.
The answer is an upper bound: a source that a program may reach counts as reached. A program is
quiet when

- all its modules, built-in names and attributes are known to be quiet;
- no set can arise: there are no set displays and, if `&`, `|`, `^` or `-` are used, every view of a
  dict is consumed on the spot, as by a loop, `sorted` or `in`;
- no text can show an address: no value is converted to text; or every function, iterator and method
  is called or consumed on the spot, and every instance of a class without a text of its own stays
  in variables and attributes, and only its attributes are used.
"""

import ast
import builtins
import re
from collections.abc import Mapping, Sequence
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType
from typing import Any

from code_verifier.jail.imports import words

Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a program by their type."""


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
_OF_BUILT_IN = {
    name
    for kind in (str, bytes, list, tuple, dict, int, float, complex, range, slice, Exception)
    for name in dir(kind)
    if not name.startswith("_")
}
_METHODS = _OF_BUILT_IN - words("real imag numerator denominator start stop step args")
_SPECIAL = words("__name__ __doc__ __init__ __len__ __qualname__")
_FINALISERS = words("__del__ __hash__ __deepcopy__")
"""Methods that are called at a random moment, or receive an address."""
_INSIDE = {"obj"}.union(
    *map(dir, (FrameType, TracebackType, GeneratorType, CoroutineType, AsyncGeneratorType))
) - words("send throw close")
"""Attributes of built-in objects that may lead anywhere: of exceptions, and to frames."""
_ATTRIBUTES = (
    _OF_BUILT_IN
    | _SPECIAL
    | words("""
    appendleft popleft extendleft rotate maxlen most_common elements subtract total move_to_end
    group groups groupdict start end span match search findall sub subn split fullmatch finditer
    from_iterable quantize limit_denominator as_integer_ratio default_factory cache_clear wraps
""")
)
_TEXTS = words("ascii format repr str")
_TEXT_NAMES = words("format format_map vformat args")
"""Attributes that give texts of objects."""
_VIEWS = ("keys", "items")
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_FIRST = words("""
    all any bool dict enumerate iter len list map max min next reversed sorted sum tuple
""")
"""Built-in functions that keep nothing of their first argument but its items."""
_MAKERS = words("map filter zip enumerate iter reversed property")
_DATA_MODULES = words("""
    math cmath collections copy fractions bisect typing re heapq string unicodedata
""")
"""Modules whose functions return values with a text without an address."""
_OF_PYTHON = words("copy functools heapq re typing")
"""Modules with functions whose texts show addresses; the names of all else are not lower case."""
_DEEP = words("groupby tee classmethod staticmethod property")
"""Functions that return objects whose texts show addresses."""
_ITERATORS = _MAKERS | _DEEP | words("finditer scanner elements from_iterable merge")
_PLAIN = words("dict list tuple str int float")
"""Built-in classes whose text shows no address, as that of exceptions."""
_MOST_ROUNDS = 32
_DEFINED: tuple[type[ast.AST], ...] = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Program:
    """The nodes of a program, and the meaning of its names."""

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
        self.members = {item.asname or item.name: item.name for _, item in imports}
        self.sources = {
            item.asname or item.name: str(node.module).partition(".")[0] for node, item in imports
        }
        self.names = {node.id for node in nodes[ast.Name]}
        self.attributes = {node.attr for node in nodes[ast.Attribute]}
        self.texts = {node.value for node in nodes[ast.Constant] if type(node.value) is str}
        self.bindings = [*_bindings(nodes), *self.modules, *self.sources]
        """The names that it binds, each as often as it is bound."""
        self.bound = set(self.bindings)
        self.own = {node.name for node in nodes[ast.FunctionDef]}

    def has_quiet_members(self) -> bool:
        """Whether it uses quiet members of modules only, and modules for nothing else."""
        for node in self.nodes[ast.ImportFrom]:
            module = str(node.module).partition(".")[0]
            if not all(_is_quiet(module, item.name) for item in node.names):
                return False
        for node in self.nodes[ast.Name]:
            if node.id in self.modules and type(node.ctx) is ast.Load:
                parent = self.parents[id(node)]
                member = getattr(parent, "attr", "")
                if not member or not _is_quiet(self.modules[node.id], member):
                    return False
        return True

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
        own = {n.attr for n in nodes[ast.Attribute] if type(n.ctx) is ast.Store}
        own |= {item.arg for item in nodes[ast.keyword] if item.arg}
        for part in (part for node in nodes[ast.ClassDef] for part in node.body):
            names = [part] if isinstance(part, _DEFINED) else ast.walk(part)
            own |= {n.id for n in names if isinstance(n, ast.Name) and type(n.ctx) is ast.Store}
            own.add(getattr(part, "name", ""))
        for node in nodes[ast.Call]:
            if "namedtuple" in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
                texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
                own |= {word for x in texts for word in str(x).replace(",", " ").split()}
        return own - _INSIDE

    def has_algebra(self) -> bool:
        """Whether it uses the operators that make a set of two views of dicts."""
        operations = (*self.nodes[ast.BinOp], *self.nodes[ast.AugAssign])
        return any(isinstance(node.op, _ALGEBRA) for node in operations)

    def keeps_a_view(self) -> bool:
        """Whether a view of a dict may be kept, not only consumed."""
        for node in self.nodes[ast.Attribute]:
            if node.attr in _VIEWS:
                call = self.parents[id(node)]
                called = isinstance(call, ast.Call) and call.func is node
                if not called or not self.is_consumed(call):
                    return True
        return False

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
            case ast.Call(ast.Name(name), [first, *others]) if name not in self.bound:
                one = name not in ("max", "min") or not others
                return first is node and one and name in _FIRST - {"map"}
        return False

    def makes_texts(self) -> bool:
        """Whether a value that is no constant may be converted to text."""
        nodes = self.nodes
        return (
            bool(nodes[ast.FormattedValue] or self.names & _TEXTS)
            or bool(_TEXT_NAMES & self.attributes)
            or any(node.arg == "file" for node in nodes[ast.keyword])
            or any(isinstance(n.op, ast.Mod) for n in (*nodes[ast.BinOp], *nodes[ast.AugAssign]))
        )

    def keeps_an_address(self) -> bool:
        """Whether a function, an iterator or a method, whose text shows its address, may be kept
        anywhere but in variables and attributes that no text is made of."""
        nodes = self.nodes
        if self.names & _DEEP or any(n.decorator_list for kind in _DEFINED for n in nodes[kind]):
            return True  # a decorator may keep its argument
        if any(map(_looks_into, nodes[ast.Attribute])):
            return True
        if nodes[ast.Yield] or nodes[ast.YieldFrom] or nodes[ast.AsyncFunctionDef]:
            return True
        makers = [*filter(self.makes_iterator, nodes[ast.Call]), *nodes[ast.GeneratorExp]]
        if not all(map(self.is_consumed, makers)):
            return True
        functions = self.functions()
        return not all(map(self.is_called, functions))

    def functions(self) -> list[ast.AST]:
        """The nodes that read functions, methods and built-in functions that make iterators."""
        names = self.own | _MAKERS
        names |= {name for name, source in self.sources.items() if source != "typing"}
        read: list[ast.AST] = [*self.nodes[ast.Lambda]]
        read += [n for n in self.nodes[ast.Name] if n.id in names and type(n.ctx) is ast.Load]
        names |= _METHODS
        read += [
            n
            for n in self.nodes[ast.Attribute]
            if type(n.ctx) is ast.Load and (n.attr in names or self.is_of_library(n))
        ]
        return read

    def is_of_library(self, node: ast.Attribute) -> bool:
        """Whether an attribute is a function of a module that is written in Python."""
        module = self.modules.get(getattr(node.value, "id", ""), "")
        return (module in _OF_PYTHON and node.attr.islower()) or (
            module != "" and node.attr in ("capwords", "namedtuple")
        )

    def makes_iterator(self, node: ast.Call) -> bool:
        """Whether a call may give an iterator, or another object whose text shows its address."""
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        source = self.sources.get(name, "")
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            source = self.modules.get(node.func.value.id, "")
        return name in _ITERATORS or (source != "" and source not in _DATA_MODULES)

    def is_called(self, node: ast.AST) -> bool:
        """Whether a function is called where it stands, or passed to a function that only calls
        it."""
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

    def keeps_an_instance(self) -> bool:
        """Whether an instance of a class without a text of its own, whose text shows its address,
        may be used other than in variables and attributes, and for its attributes. Instances are
        followed by name, from their creation; for programs without decorators and generators."""
        nodes = self.nodes
        classes = {n.name for n in nodes[ast.ClassDef] if not _says_its_text(n)}
        if not classes:
            return False
        if any(self.bindings.count(name) > 1 for name in classes):
            return True
        if any(node.keywords for node in nodes[ast.ClassDef]):
            return True  # a metaclass
        parts = (part for node in nodes[ast.ClassDef] for part in node.body)
        methods = [part for part in parts if isinstance(part, ast.FunctionDef)]
        if any(method.args.vararg for method in methods):
            return True  # it holds the instance
        holders = {name for method in methods for name in _given(method)}
        reads = [n for n in (*nodes[ast.Name], *nodes[ast.Attribute]) if type(n.ctx) is ast.Load]
        for _ in range(_MOST_ROUNDS):
            known = len(holders)
            for node in reads:
                name = getattr(node, "id", getattr(node, "attr", ""))
                value: ast.AST = node
                if name in classes and name not in holders:
                    parent = self.parents[id(node)]
                    value = parent if isinstance(parent, ast.Call) and parent.func is node else node
                elif name not in holders:
                    continue
                if not self.is_held(value, holders):
                    return True
            if len(holders) == known:
                return False
        return True

    def is_held(self, node: ast.AST, holders: set[str]) -> bool:
        """Whether an instance goes nowhere from here but into variables and attributes, whose names
        are added to `holders`."""
        match self.parents[id(node)]:
            case ast.Attribute() | ast.If() | ast.While() | ast.UnaryOp(ast.Not()) | ast.ClassDef():
                return True
            case ast.Assign(targets) if all(
                isinstance(x, ast.Name | ast.Attribute) for x in targets
            ):
                holders |= {getattr(x, "id", getattr(x, "attr", "")) for x in targets}
                return True
        return self.is_consumed(node)


def _says_its_text(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return bool(bases & (_EXCEPTIONS | _PLAIN)) or "__repr__" in methods


def _given(method: ast.FunctionDef) -> list[str]:
    """The parameters that may be an instance: the first, and all those of an operator."""
    names = [item.arg for item in (*method.args.posonlyargs, *method.args.args)]
    special = method.name[:2] == "__" != method.name and method.name != "__init__"
    return names if special else names[:1]


def _is_quiet(module: str, member: str) -> bool:
    return member in MEMBERS[module] or (MEMBERS[module] is _ALL and member[:1] not in "_*")


def _bindings(nodes: Nodes) -> list[str]:
    """The names that anything but an import binds."""
    names = [node.id for node in nodes[ast.Name] if type(node.ctx) is not ast.Load]
    named = (*_DEFINED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
    names += [node.name for kind in named for node in nodes[kind] if node.name]
    return names + [node.arg for node in nodes[ast.arg]]


def _looks_into(node: ast.Attribute) -> bool:
    """Whether a format may give the text of an attribute: `"{0.append}".format([])`."""
    if node.attr not in ("format", "format_map"):
        return False
    text = getattr(node.value, "value", None)
    return type(text) is not str or re.search(r"\{[^{}:!]*\.", text) is not None
