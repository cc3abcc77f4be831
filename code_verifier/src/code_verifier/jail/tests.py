"""A test that runs in the process of the program that it judges, because it looks at more than
data: objects, functions, generators, exceptions, changed arguments.

The program could change the names that the test uses. So the test keeps its own built-in names, and
restores all modules after the program has been loaded. Values that the test compares, calculates
with, tests for truth or passes to a function of a library are judged first: data is converted to
the built-in type that it extends, and an object that compares by a method of the program fails the
test. A program is refused if it has a name that leads from its frames to those of the test.
docs/threat-model.md says which holes remain.
"""

from __future__ import annotations

import ast
import builtins
import gc
import operator
import re
import sys
from collections import deque
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from code_verifier.jail import walls

_REACHING = re.compile(
    r"_getframe|_current_frames|\bf_(?:back|locals|globals|builtins)\b|\b(?:tb|gi|cr|ag)_frame\b"
    r"|get_referrers|get_referents|get_objects|settrace|setprofile|setitimer|addaudithook"
    r"|__subclasses__|__globals__|(?:^|import )(?:inspect|ctypes|bdb|pdb)(?:$|[.;\n])"
)
"""Names that a program needs only to reach the test in its process."""
_COMPARING = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__sub__", "__rsub__", "__abs__"),
    *("__bool__", "__contains__", "__instancecheck__", "__subclasscheck__"),
    *("__array_function__", "__array_ufunc__", "__array__"),
)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque)
_ITERATORS = (GeneratorType, map, filter, zip)
_PLAIN: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j, str: "", bytes: b""}
_ASKING = ("isinstance", "issubclass", "callable", "hasattr", "getattr", "type", "id", "print")
_mro_of = type.__dict__["__mro__"].__get__
_space_of = type.__dict__["__dict__"].__get__
_MOST_DEEP = 50
_TEST = "_test_"
_known: set[type] = set()
_methods: dict[tuple[type, str], Any] = {}


def prepare() -> None:
    """Note how all types compare, once, before the fork."""
    _known.update(walls.all_types())
    for kind in _known:
        _note(kind)


def _note(kind: type) -> type:
    space = _space_of(kind)
    _methods.update({(kind, name): space[name] for name in _COMPARING if name in space})
    return kind


def own_function(function: Any, **names: Any) -> Any:
    """Return the function with only these global names, so that it does not lead to ours."""
    return FunctionType(function.__code__, names, None, function.__defaults__)


class Deceit(Exception):
    """A program tries to reach its test, or a value decides itself what it equals."""


class Test:
    """A module that defines `check`, made before the program. entry: the name of the candidate."""

    def __init__(self, text: str, entry: str) -> None:
        tree = ast.parse(text)
        self.code = compile(_Judging(tree).visit(tree), "<test>", "exec", dont_inherit=True)
        self.entry = entry
        self.builtins = dict(vars(builtins))
        self.loaded = {name: m for name, m in sys.modules.items() if isinstance(m, ModuleType)}
        self.modules = {id(m): (m, vars(m), dict(vars(m))) for m in self.loaded.values()}
        self.copies: dict[int, ModuleType] = {}
        self.note = _note
        _hide_frames()

    def run(self, entry: Any, program: dict[str, Any], prelude: dict[str, Any]) -> None:
        """Call `check` with the entry. program: its names, which the test may use unless they are
        built-in names or those of the prelude. prelude: the names before the program."""
        sys.modules.update(self.loaded)
        for module, space, before in self.modules.values():
            if type(module) not in _known:
                ModuleType.__setattr__(module, "__class__", ModuleType)
            space.update(before)
        names = {k: x for k, x in program.items() if k == self.entry or k not in self.builtins}
        names |= {name: value for name, value in prelude.items() if name != self.entry}
        names |= {"__name__": "test", "__builtins__": self.builtins, _TEST: self}
        exec(self.code, names)
        gc.freeze()
        names["check"](entry)

    def module(self, value: Any) -> Any:
        """A copy of a module as it was before the program; another value unchanged."""
        if id(value) not in self.modules:
            return value
        if id(value) not in self.copies:
            copy = self.copies[id(value)] = ModuleType("")
            vars(copy).update(self.modules[id(value)][-1])
        return self.copies[id(value)]

    def judged(self, value: Any, depth: int = _MOST_DEEP) -> Any:
        """The value, or the data of an instance of a subclass. Raises Deceit."""
        kind = type(value)
        if kind in _ITERATORS:
            return (self.judged(item) for item in value)
        mro = _mro_of(kind)
        for base, zero in _PLAIN.items():
            if base in mro:
                return value if kind is base or kind is bool else base.__add__(value, zero)
        for name in _COMPARING:
            owner = next((base for base in mro if name in _space_of(base)), object)
            if _space_of(owner).get(name) is not _methods.get((owner, name)):
                raise Deceit(f"a value has a method {name} of the program's own")
        for base in _CONTAINERS if depth > 0 else ():
            if base in mro:
                before = [*(dict.items(value) if base is dict else base.__iter__(value))]
                items = [self.judged(item, depth - 1) for item in before]
                if all(map(operator.is_, items, before)):
                    return value
                if kind is not list:
                    return base(items)
                value[:] = items
        return value


class _Judging(ast.NodeTransformer):
    """Makes a test judge the values that it compares, calculates with, tests for truth and passes
    to functions that are built in or of a library."""

    def __init__(self, tree: ast.AST) -> None:
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        self.known = {alias.asname or alias.name for node in imports for alias in node.names}
        self.known |= vars(builtins).keys() - set(_ASKING)

    def visit(self, node: ast.AST) -> Any:
        """The node, changed so that the values it uses are judged."""
        self.generic_visit(node)
        match node:
            case ast.Compare() if not all(isinstance(x, ast.Is | ast.IsNot) for x in node.ops):
                node.left = _call_of("judged", node.left)
                node.comparators = [_call_of("judged", item) for item in node.comparators]
            case ast.BinOp():
                node.left, node.right = (
                    _call_of("judged", node.left),
                    _call_of("judged", node.right),
                )
            case ast.BoolOp():
                node.values = [_call_of("judged", item) for item in node.values]
            case ast.UnaryOp():
                node.operand = _call_of("judged", node.operand)
            case ast.Assert() | ast.If() | ast.While() | ast.IfExp():
                node.test = _call_of("judged", node.test)
            case ast.comprehension():
                node.ifs = [_call_of("judged", item) for item in node.ifs]
            case ast.Match():
                node.subject = _call_of("judged", node.subject)
            case ast.Call() if self.is_known(node.func):
                node.args = [_call_of("judged", item) for item in node.args]
                for keyword in node.keywords:
                    keyword.value = _call_of("judged", keyword.value)
            case ast.Attribute(ctx=ast.Load(), value=ast.Name() | ast.Attribute()):
                node.value = _call_of("module", node.value)
            case ast.ClassDef():
                node.decorator_list.append(_of_test("note", node))
        return node

    def is_known(self, function: ast.expr) -> bool:
        return getattr(function, "id", "") in self.known or isinstance(function, ast.Attribute)


def _call_of(method: str, node: ast.expr) -> ast.expr:
    """A call of a method of the test with the value of a node."""
    if isinstance(node, ast.Constant):
        return node
    if isinstance(node, ast.Starred):
        node.value = _call_of(method, node.value)
        return node
    return ast.copy_location(ast.Call(_of_test(method, node), [node], []), node)


def _of_test(method: str, node: ast.AST) -> ast.expr:
    name = ast.copy_location(ast.Name(_TEST, ast.Load()), node)
    return ast.copy_location(ast.Attribute(name, method, ast.Load()), node)


def refuse_reaching(code: CodeType) -> None:
    """Raise Deceit for a program with a name that leads to its test."""
    for word in _words(code):
        if match := _REACHING.search(word):
            raise Deceit(f"the program uses {match[0]!r}, which reaches for its test")


def _words(code: Any) -> Iterator[str]:
    """The names and texts of a compiled program."""
    if isinstance(code, CodeType):
        yield from (*code.co_names, *code.co_varnames)
        code = code.co_consts
    for item in code:
        if isinstance(item, str):
            yield item
        elif isinstance(item, CodeType | tuple | frozenset):
            yield from _words(item)


def _hide_frames() -> None:
    """Close the ways from a program's frames to those outside."""
    sys._getframe = own_function(lambda depth=0: None)
    sys._current_frames = dict
    space: Any = gc.get_referents(FrameType.__dict__)[0]
    space["f_back"] = None
    walls.changed(FrameType)
    gc.freeze()  # which the collector's lists leave out
