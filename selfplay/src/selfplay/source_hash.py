"""What a function or object of a user's own is made of, as two hashes that any process repeats.

The first is of the source, without comments and docstrings: its own, and that of the functions and
classes of a user's own that it uses. The second is of the values that it captures, has by default,
as attributes or as globals. Code of installed packages counts by its name.
"""

import ast
import copyreg
import dis
import hashlib
import linecache
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

SCRIPT = ("", "__main__", "__mp_main__")
"""Names of modules that are another one in every process."""
_OURS = ("selfplay", "lora_evo", "code_verifier", "league", "evals")
_DEPTH = 16
"""Objects within objects that are read; of those below, only the types are."""
_TENSOR = 1 << 16
"""Numbers of a tensor that are read."""
_GENERATED = ("delattr", "eq", "ge", "gt", "hash", "init", "le", "lt", "replace", "repr", "setattr")
"""Methods that `dataclass` writes."""
_NEW = copyreg.__newobj__  # type: ignore[attr-defined]
Parts: TypeAlias = Iterator[tuple[str, Any]]
"""Paths of names, and what is found there."""


def mark_of(thing: Any) -> str:
    """Return `(numbers)#code-values` of a function or object, without values `#code`."""
    reading = _Reading()
    reading.read("", thing)
    numbers = ", ".join(reading.numbers)
    shown = f"({numbers})" if numbers and len(numbers) <= 60 else ""
    values = f"-{_digest(reading.values)}" if reading.values else ""
    return f"{shown}#{_digest(reading.code)}{values}"


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:8]


class _Reading:
    """What a thing is made of, as far as it was read: source, values, and numbers to show."""

    def __init__(self) -> None:
        self.code: list[str] = []
        self.values: list[str] = []
        self.numbers: list[str] = []
        self._seen: dict[int, tuple[int, object]] = {}
        self._depth = 0

    def read(self, path: str, value: Any) -> None:
        """Add a value, and what it is made of."""
        if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes):
            self.values.append(f"{path}={value!r}")
            if path.isidentifier() and type(value) in (bool, int, float):
                self.numbers.append(f"{path}={value!r}")
        elif id(value) in self._seen:
            self.code.append(f"again {self._seen[id(value)][0]}")
        elif self._depth == _DEPTH:
            self.values.append(f"{path}={_type_name(type(value))}")
        else:
            self._seen[id(value)] = len(self._seen), value  # kept, so that no other gets its id
            self._depth += 1
            for part in self._parts(path, value):
                self.read(*part)
            self._depth -= 1

    def _parts(self, path: str, value: Any) -> Parts:
        """Yield what a value is made of; add what it is itself."""
        kind = type(value)
        if isinstance(value, FunctionType):
            yield from self._of_function(path, value)
        elif isinstance(value, type):
            yield from self._of_class(path, value)
        elif isinstance(value, ModuleType):
            self.code.append(f"module {value.__name__}")
        elif isinstance(value, BuiltinFunctionType):
            self.code.append(_type_name(value))
            if not isinstance(value.__self__, ModuleType | type(None)):
                yield path, value.__self__
        elif isinstance(value, MethodType | staticmethod | classmethod):
            yield path, value.__func__
            yield path, getattr(value, "__self__", ...)
        elif isinstance(value, property):
            yield from ((path, value.fget), (path, value.fset))
        elif isinstance(value, partial):
            self.code.append("partial")
            yield path, value.func
            yield from (*_numbered(path, value.args), *_named(path, value.keywords))
        elif kind in (list, tuple):
            self.values.append(f"{path}={kind.__name__} of {len(value)}")
            yield from _numbered(path, value)
        elif kind is dict:
            self.values.append(f"{path}=dict of {len(value)}")
            by_text = sorted(value.items(), key=lambda pair: _text(pair[0]))
            yield from ((f"{path}[{_text(key)}]", item) for key, item in by_text)
        elif kind in (set, frozenset):
            self.values.append(f"{path}={kind.__name__} of {', '.join(sorted(map(_text, value)))}")
        else:
            yield from self._of_object(path, value)

    def _of_function(self, path: str, function: FunctionType) -> Parts:
        code, names = function.__code__, function.__globals__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty one
                yield _join(path, name), cell.cell_contents
        defaults = function.__defaults__ or ()
        first = code.co_argcount - len(defaults)
        arguments = code.co_varnames[first : code.co_argcount]
        yield from ((_join(path, n), d) for n, d in zip(arguments, defaults, strict=True))
        yield from _named(path, function.__kwdefaults__ or {})
        yield from _named(path, {n.strip("_") or n: v for n, v in vars(function).items()})
        if self._depth > 1 and _is_library(str(names.get("__name__"))):
            self.code.append(_type_name(function))
            return
        self.code.append(_shape(code))
        global_names, attributes = _used(code)
        for name in sorted(global_names & names.keys()):
            value = names[name]
            yield _join(path, name), value
            if isinstance(value, ModuleType) and not _is_library(value.__name__):
                inner = {n: v for n, v in vars(value).items() if n in attributes}
                yield from _named(_join(path, name), inner)

    def _of_class(self, path: str, kind: type) -> Parts:
        if _is_library(kind.__module__):
            self.code.append(_type_name(kind))
            return
        self.code.append(f"class {kind.__name__}")
        yield from ((path, base) for base in kind.__bases__)
        is_dataclass = "__dataclass_fields__" in vars(kind)
        for name, attribute in sorted(vars(kind).items()):
            function = getattr(attribute, "__func__", attribute)
            if isinstance(function, FunctionType) and not name.startswith("__annot"):
                made = is_dataclass and name.strip("_") in _GENERATED
                skipped = made and function.__code__.co_filename == "<string>"
            else:
                skipped = name.startswith(("__", "_abc_", "_is_protocol", "_is_runtime"))
            if not skipped:
                self.code.append(f"attribute {name}")
                yield f"{path}.{kind.__name__}.{name}", attribute

    def _of_object(self, path: str, value: Any) -> Parts:
        """Yield the class of an object, and what a copy of it would be made of."""
        yield path, type(value)
        if "__wrapped__" in getattr(value, "__dict__", {}):  # such as of functools.cache
            yield path, value.__wrapped__
            return
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numel"):
            numbers = value.detach().reshape(-1)[:_TENSOR].cpu().contiguous()
            content = hashlib.sha256(numbers.view(sys.modules["torch"].uint8).numpy()).hexdigest()
            self.values.append(f"{path}={value.dtype} {tuple(value.shape)} {content}")
            return
        try:
            reduce: Any = copyreg.dispatch_table.get(type(value), lambda v: v.__reduce_ex__(4))
            copied = reduce(value)
        except Exception:  # a lock, a file, or what does not want to be copied
            copied = (_NEW, (type(value),), getattr(value, "__dict__", None))
        if isinstance(copied, str):
            self.code.append(copied)
            return
        make, arguments, *states = copied
        yield path, make
        yield from (part for part in _numbered(path, arguments) if part[1] is not type(value))
        for state in states:
            for part in state if isinstance(state, tuple) and make is _NEW else (state,):
                if type(part) is dict:
                    yield from _named(path, {str(name): item for name, item in part.items()})
                elif part is not None:
                    yield path, list(part) if isinstance(part, Iterator) else part


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named(path: str, values: Mapping[str, Any]) -> Parts:
    return ((_join(path, name), value) for name, value in sorted(values.items()))


def _numbered(path: str, values: Sequence[Any]) -> Parts:
    return ((f"{path}[{i}]", value) for i, value in enumerate(values))


def _type_name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"


def _text(value: object) -> str:
    """Return a key as text that is the same in every process."""
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))})"
    plain = type(value) in (bool, int, float, complex, str, bytes, type(None))
    return repr(value) if plain else f"{_type_name(type(value))} {getattr(value, 'name', '')}"


@cache
def _is_library(name: str) -> bool:
    """Return whether a module is Python's, installed, or ours."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if name.partition(".")[0] in _OURS or name in sys.builtin_module_names:
        return True
    if name in SCRIPT or file is None:
        return False
    path, stdlib = Path(file).resolve(), Path(sysconfig.get_path("stdlib")).resolve()
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(installed) or path.is_relative_to(stdlib)


@lru_cache(maxsize=256)
def _used(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the globals that a function uses, and all names; those of functions in it, too."""
    codes, loads = _all_codes(code), ("LOAD_GLOBAL", "LOAD_NAME")
    used = {i.argval for c in codes for i in dis.get_instructions(c) if i.opname in loads}
    return used, {name for c in codes for name in c.co_names}


@lru_cache(maxsize=256)
def _shape(code: CodeType) -> str:
    """Return a function's syntax tree; its instructions where its source is not at hand.

    What the file holds by now counts as the source only where it compiles to this very function.
    """
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
        compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return _instructions(code)
    nodes = [node for node in ast.walk(tree) if _is_around(node, code)]
    if not nodes or code not in _all_codes(compiled):
        return _instructions(code)
    shape = min(nodes, key=lambda node: len(ast.dump(node)))
    for node in ast.walk(shape):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            has_docstring = ast.get_docstring(node) is not None
            node.body = node.body[has_docstring:] or [ast.Pass()]
    return ast.unparse(shape)


def _is_around(node: ast.AST, code: CodeType) -> bool:
    """Return whether a node is a function of this name around all that the code stands for."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    begin, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return getattr(node, "name", "<lambda>") == code.co_name and (
        begin <= min(places, default=begin) <= max(places, default=end) <= end
    )


def _all_codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [code, *(deeper for part in inner for deeper in _all_codes(part))]


def _instructions(code: CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} " + ", ".join(
        _instructions(part) if isinstance(part, CodeType) else _text(part)
        for part in code.co_consts
    )
