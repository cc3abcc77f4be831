"""A test that runs in the process of the program that it judges, because it looks at more than
data: objects, functions, generators, exceptions, changed arguments.

The program could change what the test uses. So the program gets copies of the built-in names and of
all modules, and classes and functions of libraries cannot be changed. Values that the test
compares, calculates with, tests for truth or passes to a function of a library are judged first:
data is converted to the built-in type that it extends, an object of the program compares by its
attributes, and an object of a library that may ask one of the program fails the test. A program is
refused if it has a name that leads from its frames to those of the test. docs/threat-model.md says
which holes remain.
"""

import array
import ast
import builtins
import gc
import operator
import re
import sys
from collections import Counter, OrderedDict, deque, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import chain, takewhile
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType, NoneType
from typing import Any

from code_verifier.jail import walls
from code_verifier.syntax import bound_names

_REACHING = re.compile(
    r"_getframe|_current_frames|\bf_(?:back|locals|globals|builtins)\b|\b(?:tb|gi|cr|ag)_frame\b"
    r"|get_referrers|get_referents|get_objects|settrace|setprofile|setitimer|addaudithook"
    r"|__subclasses__|__globals__|__self__|(?:^|import )(?:inspect|ctypes|bdb|pdb)(?:$|[.;\\n])"
)
"""Names that a program needs only to reach the test in its process."""
_COMPARING = str.split(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __sub__ __rsub__ __abs__ __xor__ __rxor__ __mod__ "
    "__rmod__ __floordiv__ __rfloordiv__ __truediv__ __rtruediv__ __bool__ __contains__ "
    "__array_function__ __array_ufunc__ __array__ __array_interface__"
)
"""Methods that may be handed an expected value."""
_ITERATING = ("__next__", "__iter__", "__getitem__")
_PLAIN: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j, str: "", bytes: b"", bytearray: b""}
_CONTAINERS = (list, tuple, set, frozenset, dict, deque)
_VIEWS = [type(getattr(kind(), n)()) for kind in (dict, OrderedDict) for n in ("keys", "items")]
_SOUND = (
    *(Decimal, date, datetime, time, timedelta, timezone, range),
    *(array.array, memoryview, re.Pattern, BuiltinFunctionType),
)
"""Types that ask no other object."""
_ASKING = str.split("isinstance issubclass callable hasattr getattr type id print")
_READING = str.split(
    "len list tuple dict iter next enumerate reversed str repr format hash vars dir append "
    "appendleft extend insert"
)
"""Functions and methods that compare nothing."""
_SEEKING = str.split(
    "count index remove discard isdisjoint issubset issuperset intersection difference"
)
"""Methods of containers that compare their items with an argument."""
_HARMLESS = {*dir(object), "__getnewargs__", "__class_getitem__"}.difference(
    _COMPARING, ("__hash__", "__format__", "__getattribute__")
)
"""Names that a class of data may have of its own."""
_JUDGED: dict[type, str] = dict.fromkeys((ast.Assert, ast.If, ast.While, ast.IfExp), "test") | {
    ast.AugAssign: "value",
    ast.BinOp: "left right",
    ast.BoolOp: "values",
    ast.Match: "subject",
    ast.Set: "elts",
    ast.UnaryOp: "operand",
    ast.comprehension: "ifs",
}
_READ: dict[type, str] = {ast.comprehension: "iter", ast.For: "iter", ast.FormattedValue: "value"}
"""Parts of a test that are judged, and those of which data is only read."""
_mro_of = type.__dict__["__mro__"].__get__
_space_of = type.__dict__["__dict__"].__get__
_field: Any = type(vars(namedtuple("_Pair", "a b"))["a"])
_MOST_DEEP = 1000
_TEST = "_test_"
_kinds: dict[int, type] = {}
"""The types before the program, by identity: a metaclass may define how its classes compare."""
_flags: list[Any] = []
_copies: dict[int, Any] = {}
"""What programs get in place of modules, by identity."""
_SETTLED = ("builtins", "io", "os", "resource", "time")
"""Modules in which each child has changed functions before its program runs."""


def prepare() -> None:
    """Note all types, and copy all modules but `sys`, once, before the fork."""
    kinds = walls.all_types()
    _kinds.update((id(kind), kind) for kind in kinds)
    _flags.extend(walls.flags_of(kinds))
    modules = [m for m in sys.modules.values() if type(m) is ModuleType and m is not sys]
    _copies.update((id(module), ModuleType(module.__name__)) for module in modules)
    for module in modules:
        _copy_names(module)


def _copy_names(module: ModuleType) -> None:
    """Give the copy of a module the names of the module, and the copies that they stand for."""
    names = vars(module).items()
    vars(_copies[id(module)]).update((name, _copies.get(id(x), x)) for name, x in names)


def own_function(function: Any, **names: Any) -> Any:
    """Return the function with only these global names, so that it does not lead to ours."""
    return FunctionType(function.__code__, names, None, function.__defaults__)


class Deceit(Exception):
    """A program tries to reach its test, or a value decides itself what it equals."""


class Test:
    """A module that defines `check`, made before the program. entry: the name of the candidate.
    names: those of the prelude, in which the program will run."""

    def __init__(self, text: str, entry: str, names: dict[str, Any]) -> None:
        tree = ast.parse(text)
        judging = _Judging(tree, {*vars(builtins), *names} - {entry})
        tree = ast.fix_missing_locations(judging.visit(tree))
        self.code = compile(tree, "<test>", "exec", dont_inherit=True)
        self.entry = entry
        self.prelude = dict(names)
        self.candidate: Any = None
        self.modules = {k: m for k, m in sys.modules.items() if k not in ("__main__", "solution")}
        self.numpy: Any = self.modules.get("numpy")
        self.builtins = vars(builtins) | {"__import__": self.import_module}
        self._part_from(names)
        for flags in _flags:
            flags.value |= walls.IMMUTABLE
        _protect_functions({id(vars(m)) for m in self.modules.values() if type(m) is ModuleType})
        _hide_frames()

    def _part_from(self, names: dict[str, Any]) -> None:
        """Put the copies of modules in their place, in these names too, and keep the modules; of
        `sys` and `importlib` the test has the copy."""
        modules = {name: ModuleType(name) for name in ("sys", "importlib")}
        importing = {"import_module": lambda name: self.import_module(name, fromlist=(name,))}
        vars(modules["sys"]).update(vars(sys) | {"modules": self.modules})
        vars(modules["importlib"]).update(vars(sys.modules["importlib"]) | importing)
        self.modules |= modules
        for name in _SETTLED:
            _copy_names(sys.modules[name])
        for space in (sys.modules, names):
            space.update((k, _copies[id(x)]) for k, x in [*space.items()] if id(x) in _copies)
        names["__builtins__"] = vars(_copies[id(builtins)])

    def import_module(self, name: str, *_: Any, fromlist: Any = (), level: int = 0) -> Any:
        """A module for an `import` of the test, as it was before the program."""
        if level or name not in self.modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return self.modules[name if fromlist else name.partition(".")[0]]

    def run(self, entry: Any, program: dict[str, Any]) -> None:
        """Call `check` with the entry. program: its names, which the test may use unless they are
        built-in names, those of the prelude, or of numbers."""
        names = {k: x for k, x in program.items() if k not in self.builtins}
        names |= self.prelude | {"Decimal": Decimal, "Fraction": self.modules["fractions"].Fraction}
        names |= {"np": self.numpy, "numpy": self.numpy} if self.numpy else {}
        names |= {self.entry: program[self.entry]} if self.entry in program else {}
        names |= {"__name__": "test", "__builtins__": self.builtins, _TEST: self}
        self.candidate = entry
        exec(self.code, names)
        gc.freeze()
        names["check"](entry)

    def note(self, kind: type) -> type:
        """Trust a class of the test."""
        _ATOMS[id(kind)] = kind
        return kind

    def judge(self, value: Any, depth: int = _MOST_DEEP, each: bool = False) -> Any:
        """The value, the data of an instance of a subclass, or an object's record. each: an object
        that is iterated gives judged items. Raises Deceit."""
        kind = type(value)
        if id(kind) in _ATOMS:
            return value
        mro = _mro_of(kind)
        spaces = [_space_of(base) for base in mro]
        if (base := _base_of(mro, tuple(_PLAIN))) is not None:
            return base.__add__(value, _PLAIN[base])
        if self.numpy and _base_of(mro, (self.numpy.ndarray, self.numpy.generic)):
            return self._numbers(value, kind, depth)
        if (base := _base_of(mro, _CONTAINERS)) is not None:
            return self._items(value, mro, base, depth)
        methods = {}
        for name in _COMPARING:
            owner = next((b for b, space in zip(mro, spaces, strict=True) if name in space), object)
            if owner is not object:
                methods[id(owner)] = owner, _space_of(owner)[name]
        looping = _ITERATING if each and (id(kind) not in _kinds or not methods) else ("__next__",)
        if any(name in space for space in spaces for name in looping):
            return (self.judge(item, depth - 1) for item in value)
        if not any(key in _kinds for key in methods):
            return _Record(self, value) if methods else value
        for owner, method in methods.values():
            self._trust(value, mro, owner, method, depth)
        return value

    def _trust(self, value: Any, mro: Any, owner: Any, method: Any, depth: int) -> None:
        """Raise Deceit if a value that a library's class compares may ask the program's objects."""
        if id(owner) not in _kinds or _own_names(mro, owner):
            raise Deceit("a value has methods of the program's own")
        parts: list[Any] = []
        if isinstance(method, FunctionType):
            parts = list(_parts_of(value).values())
            is_sound = bool(parts)
        elif is_sound := _base_of((owner,), _VIEWS) is not None:
            parts = [*value]
        else:
            is_sound = _base_of((owner,), _SOUND) or (self.numpy and owner is self.numpy.dtype)
            is_sound = is_sound and id(type(getattr(value, "tzinfo", None))) in _kinds
        if not is_sound or not all(part is self.judge(part, depth - 1) for part in parts):
            raise Deceit("a value may ask another object what it equals")

    def _items(self, value: Any, mro: Any, base: Any, depth: int) -> Any:
        """A container of judged items, of the built-in type if its class has methods of its own."""
        before = [*(dict.items(value) if base is dict else base.__iter__(value))]
        kinds = map(type, chain.from_iterable(before) if base is dict else before)
        items = before
        if not _ATOMS.keys() >= set(map(id, kinds)):
            if depth <= 0:
                raise Deceit("a value is nested too deeply, or holds itself")
            items = [self.judge(item, depth - 1) for item in before]
        owner = next(kind for kind in mro if "__eq__" in _space_of(kind))
        is_plain = _base_of((owner,), (base, OrderedDict, Counter)) and not _own_names(mro, base)
        return value if is_plain and all(map(operator.is_, items, before)) else base(items)

    def _numbers(self, value: Any, kind: Any, depth: int) -> Any:
        """An array or a number of numpy, as an exact array or a number."""
        is_array = isinstance(value, self.numpy.ndarray)
        if not is_array and id(kind) not in _kinds:
            return self.judge(self.numpy.generic.item(value), depth - 1)
        base = self.numpy.ndarray if is_array else self.numpy.generic
        parts = base.ravel(value).tolist() if base.dtype.__get__(value).hasobject else []
        if not all(part is self.judge(part, depth - 1) for part in parts):
            raise Deceit("an array holds an object of the program")
        return base.view(value, base) if is_array and kind is not base else value

    def plain(self, value: Any) -> Any:
        """The value, or the data of an instance of a class that replaces methods of its base."""
        base = _base_of(_mro_of(type(value)), _DATA) if id(type(value)) not in _kinds else None
        return self.judge(value) if base and _own_names(_mro_of(type(value)), base) else value

    def owner(self, value: Any, name: str) -> Any:
        """The value whose attribute the test reads. Raises Deceit for a method of a base of data
        that the program replaced, unless the candidate is this class."""
        kind = type(value)
        if id(kind) in _ATOMS or (id(kind) in _kinds and name not in _SEEKING):
            return value
        if (base := _base_of(_mro_of(kind), _DATA)) is None:
            return value
        if id(kind) not in _kinds and (kind is not self.candidate or name in _SEEKING):
            names = _own_names(_mro_of(kind), base) | {*getattr(value, "__dict__", ())}
            if "__getattribute__" in names or (name in names and name in _space_of(base)):
                raise Deceit(f"a value has a method {name} of the program's own")
        return self.judge(value) if name in _SEEKING else value


class _Record:
    """An object of the program in a comparison: equal to one of its class with equal attributes."""

    def __init__(self, test: Test, value: Any) -> None:
        self.test, self.value = test, value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Record) or type(self.value) is not type(other.value):
            return False
        parts = [self.test.judge(_parts_of(record.value)) for record in (self, other)]
        return bool(parts[0] == parts[1])

    def __hash__(self) -> int:
        return id(type(self.value))


_ATOMS = {id(k): k for k in (*_PLAIN, bool, NoneType, type(...), FunctionType, _Record)}
"""Types whose values need no judgement, by identity; classes of the test too."""
_DATA = (*_PLAIN, *_CONTAINERS, *_SOUND)


def _base_of(mro: Any, bases: Any) -> Any:
    """The first of some bases that a class has; None without one. By identity, see `_kinds`."""
    kinds = set(map(id, mro))
    return next((base for base in bases if id(base) in kinds), None)


def _own_names(mro: Any, base: Any) -> set[str]:
    """Names of a library's class that classes of the program before it replace."""
    before = takewhile(lambda kind: kind is not base, mro)
    spaces = [_space_of(kind) for kind in before if id(kind) not in _kinds]
    names = {k for space in spaces for k, x in space.items() if type(x) is not _field}
    return (names & {*_space_of(base), *_space_of(object)}) - _HARMLESS


def _parts_of(value: Any) -> dict[str, Any]:
    """The attributes of an object."""
    slots = [_space_of(kind).get("__slots__", ()) for kind in _mro_of(type(value))]
    names = chain.from_iterable((s,) if isinstance(s, str) else s for s in slots)
    parts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return parts | dict(getattr(value, "__dict__", {}))


def _protect_functions(spaces: set[int]) -> None:
    """Refuse changes of functions whose global names are of these."""
    space: Any = gc.get_referents(FunctionType.__dict__)[0]
    for name in ("__code__", "__defaults__", "__kwdefaults__"):

        def put(f: Any, value: Any, put: Any = space[name].__set__, spaces: Any = spaces) -> None:
            if id(f.__globals__) in spaces:
                raise TypeError("a function of a library cannot be changed")
            put(f, value)

        space[name] = property(space[name].__get__, own_function(put))
    walls.mark_changed(FunctionType)


class _Judging(ast.NodeTransformer):
    """Makes a test judge the values that it compares, calculates with, tests for truth and passes
    to functions that are built in or of a library."""

    def __init__(self, tree: ast.AST, names: set[str]) -> None:
        nodes = [*ast.walk(tree)]
        imports = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
        bound = bound_names(tree, everywhere=True)
        self.names = {alias.asname or alias.name for node in imports for alias in node.names}
        self.names |= names - bound - set(_ASKING)
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and "range" in self.names]
        self.counters = set(chain.from_iterable(map(_counters_of, functions)))

    def visit(self, node: ast.AST) -> Any:
        """The node, changed so that the values it uses are judged."""
        self.generic_visit(node)
        for method, fields in (("judge", _JUDGED), ("plain", _READ)):
            for field in fields.get(type(node), "").split():
                part = getattr(node, field)
                is_list = isinstance(part, list)
                calls = [self._call_of(method, item) for item in (part if is_list else [part])]
                setattr(node, field, calls if is_list else calls[0])
        match node:
            case ast.Compare() if not all(isinstance(x, ast.Is | ast.IsNot) for x in node.ops):
                node.left = self._call_of("judge", node.left)
                node.comparators = [
                    self._call_of("judge", item, each=isinstance(operation, ast.In | ast.NotIn))
                    for operation, item in zip(node.ops, node.comparators, strict=True)
                ]
            case ast.Subscript():
                if isinstance(node.ctx, ast.Load):
                    node.value = self._call_of("plain", node.value)
                if not isinstance(node.slice, ast.Slice):
                    node.slice = self._call_of("judge", node.slice)
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name) as function) if (
                name in self.names or isinstance(function, ast.Attribute)
            ):
                is_reading = name in _READING or any(x.arg == "key" for x in node.keywords)
                method = "plain" if is_reading else "judge"
                node.args = [self._call_of(method, item, each=not is_reading) for item in node.args]
                for keyword in node.keywords:
                    keyword.value = self._call_of(method, keyword.value)
            case ast.Attribute(ctx=ast.Load()):
                node.value = ast.Call(_of_test("owner"), [node.value, ast.Constant(node.attr)], [])
            case ast.ClassDef():
                node.decorator_list.append(_of_test("note"))
        return node

    def _call_of(self, method: str, node: ast.expr, each: bool = False) -> ast.expr:
        """A call of a method of the test with the value of a node that needs it."""
        if self._is_plain(node):
            return node
        if isinstance(node, ast.Starred):
            node.value = self._call_of(method, node.value)
            return node
        keywords = [ast.keyword("each", ast.Constant(True))] if each else []
        return ast.Call(_of_test(method), [node], keywords)

    def _is_plain(self, node: ast.expr) -> bool:
        """Whether a value cannot come from the program: constants, counters and what is calculated
        from them, and what judged values give when they are compared."""
        match node:
            case ast.BinOp(left, _, right):
                return self._is_plain(left) and self._is_plain(right)
            case ast.UnaryOp(operation, operand):
                return isinstance(operation, ast.Not) or self._is_plain(operand)
        return isinstance(node, ast.Constant | ast.Compare) or id(node) in self.counters


def _counters_of(function: ast.AST) -> set[int]:
    """The nodes, by identity, that read NAME inside `for NAME in range(...)`, where nothing else
    in the function binds NAME."""
    nodes = [*ast.walk(function)]
    loops = []
    for node in nodes:
        match node:
            case ast.For(ast.Name(), ast.Call(ast.Name("range"))):
                loops.append(node)
    targets: list[Any] = [loop.target for loop in loops]
    for target in targets:
        target.ctx = ast.Load()
    bound = bound_names(function, everywhere=True)
    bound.update(*(n.names for n in nodes if isinstance(n, ast.Global)))
    for target in targets:
        target.ctx = ast.Store()
    reading: set[int] = set()
    for loop, target in zip(loops, targets, strict=True):
        parts = chain.from_iterable(map(ast.walk, loop.body))
        names = (n for n in parts if isinstance(n, ast.Name) and n.id == target.id)
        reading.update(id(n) for n in names if target.id not in bound)
    return reading


def _of_test(method: str) -> ast.expr:
    return ast.Attribute(ast.Name(_TEST, ast.Load()), method, ast.Load())


def refuse_reaching(code: CodeType) -> None:
    """Raise Deceit for a program with a name or a text that leads to its test."""
    stack: list[Any] = [code]
    while stack:
        match stack.pop():
            case CodeType() as part:
                stack += (*part.co_names, *part.co_varnames, *part.co_consts)
            case tuple() | frozenset() as items:
                stack += items
            case str(word) if match := _REACHING.search(word):
                raise Deceit(f"the program uses {match[0]!r}, which reaches for its test")


def _hide_frames() -> None:
    """Close the ways from a program's frames to those outside."""
    sys._getframe = own_function(lambda depth=0: None)
    sys._current_frames = dict
    space: Any = gc.get_referents(FrameType.__dict__)[0]
    space["f_back"] = None
    walls.mark_changed(FrameType)
    gc.freeze()  # which the collector's lists leave out
