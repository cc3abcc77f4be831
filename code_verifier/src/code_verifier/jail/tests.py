"""A test that runs in the process of the program that it judges, since what it looks at is no data:
objects, functions, generators, exceptions, changed arguments.

The program could change what the test uses, so the test keeps what there was before: built-in
names of its own, and the contents of the modules that tests use, which it puts back when the
program has been loaded. Returned values of classes of the program's own may not say themselves what
they equal: data is handed on as the built-in type that it extends, and an object that compares by
a method of the program's fails the test. What remains open is said in docs/threat-model.md.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

_COMPARING = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__bool__", "__instancecheck__", "__subclasscheck__"),
)
_CONTAINERS = (list, tuple, set, frozenset, dict)
_PLAIN: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j, str: "", bytes: b""}
_mro_of = type.__dict__["__mro__"].__get__
_space_of = type.__dict__["__dict__"].__get__
_MOST_DEEP = 50


class Deceit(Exception):
    """A returned value says itself what it equals."""


class Test:
    """A module that defines `check`, made before the program."""

    def __init__(self, text: str) -> None:
        self.code = compile(text, "<test>", "exec", dont_inherit=True)
        self.builtins = dict(vars(builtins))
        loaded = [m for m in sys.modules.values() if isinstance(m, ModuleType)]
        self.modules = [(vars(m), dict(vars(m))) for m in loaded if m.__name__ != "__main__"]
        self.types = _all_types()

    def run(self, entry: Any, program: dict[str, Any]) -> None:
        """Call `check` with the entry. program: its names, which the test may use, too."""
        for space, before in self.modules:
            if space is not program:
                space.update(before)
        names = {key: self.fair(value) for key, value in program.items()}
        names |= {"__name__": "test", "__builtins__": self.builtins}
        exec(self.code, names)
        names["check"](self.fair(entry))

    def fair(self, value: Any) -> Any:
        """A function, or a class with its methods, that gives what `judged` lets pass; other values
        as they are."""
        if isinstance(value, type) and value not in self.types:
            for name, method in list(_space_of(value).items()):
                if type(method) is FunctionType and name[:2] != "__":
                    setattr(value, name, self.fair(method))
        if type(value) not in (FunctionType, MethodType):
            return value

        @functools.wraps(value)
        def candidate(*args: Any, **named: Any) -> Any:
            return self.judged(value(*args, **named), _MOST_DEEP)

        return candidate

    def judged(self, value: Any, depth: int) -> Any:
        """The value, or the data that instances of subclasses hold. Raises Deceit."""
        kind = type(value)
        if kind in _CONTAINERS and depth > 0:
            items = [self.judged(x, depth - 1) for x in (value.items() if kind is dict else value)]
            same = kind is dict or all(map(operator.is_, items, value))
            if kind is list and not same:
                value[:] = items
            return value if (same and kind is not dict) or kind is list else kind(items)
        if kind is GeneratorType:
            return (self.judged(item, _MOST_DEEP) for item in value)
        if kind in self.types:
            return self.fair(value)
        mro = _mro_of(kind)
        for base, zero in _PLAIN.items():
            if base in mro:
                return base.__add__(value, zero)
        if type(kind) not in self.types:
            raise Deceit("the class of a returned value has a class of the program's own")
        for name in _COMPARING:
            owner = next((base for base in mro if name in _space_of(base)), object)
            if owner not in self.types:
                raise Deceit(f"a returned value has a method {name} of the program's own")
        return value


def _all_types() -> set[type]:
    known: set[type] = set()
    rest: list[type] = [object]
    while rest:
        kind = rest.pop()
        if kind not in known:
            known.add(kind)
            rest += type.__subclasses__(kind)
    return known
