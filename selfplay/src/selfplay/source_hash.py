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
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

SCRIPT = ("", "__main__", "__mp_main__")
"""Names of modules that are another one in every process."""
_OURS = ("selfplay", "lora_evo", "code_verifier", "league", "evals")
_DEPTH = 16
"""Objects within objects that are read; of those below, only the types are."""
_LONG = 200
_TENSOR = 1 << 16
"""Numbers of a tensor that are read."""
_MADE = ("delattr", "eq", "ge", "gt", "hash", "init", "le", "lt", "replace", "repr", "setattr")
"""Methods that `dataclass` writes."""
_NEW = copyreg.__newobj__  # type: ignore[attr-defined]


def mark_of(thing: Any) -> str:
    """Return `(numbers)#code-values` of a function or object, without values `#code`."""
    reading = _Reading()
    reading.read(thing, "")
    numbers = ", ".join(reading.numbers)
    shown = f"({numbers})" if numbers and len(numbers) <= 60 else ""
    values = f"-{_digest(reading.values)[:8]}" if reading.values else ""
    return f"{shown}#{_digest(reading.code)[:8]}{values}"


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


class _Reading:
    """What a thing is made of, as far as it is found: source, values, and numbers to show."""

    def __init__(self) -> None:
        self.code: list[str] = []
        self.values: list[str] = []
        self.numbers: list[str] = []
        self._seen: dict[int, tuple[int, object]] = {}
        self._depth = 0

    def read(self, value: Any, path: str) -> None:
        """Add a value that is found at a path of names."""
        if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes):
            self._add(path, repr(value))
            if path.isidentifier() and type(value) in (bool, int, float):
                self.numbers.append(f"{path}={value!r}")
            return
        if id(value) in self._seen:
            self.code.append(f"again {self._seen[id(value)][0]}")
            return
        if self._depth == _DEPTH:
            self._add(path, _type_name(type(value)))
            return
        self._seen[id(value)] = len(self._seen), value  # kept, so that no other gets its id
        self._depth += 1
        self._read_whole(value, path)
        self._depth -= 1

    def _add(self, path: str, text: str) -> None:
        long = len(text) > _LONG
        self.values.append(f"{path}={_digest([text]) if long else text}")

    def _read_whole(self, value: Any, path: str) -> None:
        if isinstance(value, FunctionType):
            self._read_function(value, path)
        elif isinstance(value, MethodType):
            self.read(value.__func__, path)
            self.read(value.__self__, path)
        elif isinstance(value, partial):
            self.code.append("partial")
            self.read(value.func, path)
            for i, argument in enumerate(value.args):
                self.read(argument, f"{path}[{i}]")
            for name, argument in sorted(value.keywords.items()):
                self.read(argument, _join(path, name))
        elif isinstance(value, type):
            self._read_class(value, path)
        elif isinstance(value, ModuleType):
            self.code.append(f"module {value.__name__}")
        elif isinstance(value, BuiltinFunctionType):
            self.code.append(_type_name(value))
            if not isinstance(value.__self__, ModuleType | type(None)):
                self.read(value.__self__, path)
        elif isinstance(value, staticmethod | classmethod):
            self.read(value.__func__, path)
        elif isinstance(value, property):
            for part in (value.fget, value.fset):
                self.read(part, path)
        elif type(value) in (list, tuple):
            self._add(path, f"{type(value).__name__} of {len(value)}")
            for i, item in enumerate(value):
                self.read(item, f"{path}[{i}]")
        elif type(value) is dict:
            self._add(path, f"dict of {len(value)}")
            for key, item in sorted(value.items(), key=lambda pair: _text(pair[0])):
                self.read(item, f"{path}[{_text(key)}]")
        elif type(value) in (set, frozenset):
            self._add(path, f"{type(value).__name__} of {', '.join(sorted(map(_text, value)))}")
        else:
            self._read_object(value, path)

    def _read_function(self, function: FunctionType, path: str) -> None:
        code, names = function.__code__, function.__globals__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                self.read(cell.cell_contents, _join(path, name))
            except ValueError:
                self.code.append(f"{name} is empty")
        defaults = function.__defaults__ or ()
        arguments = code.co_varnames[: code.co_argcount]
        for name, default in zip(
            arguments[len(arguments) - len(defaults) :], defaults, strict=True
        ):
            self.read(default, _join(path, name))
        for name, default in sorted((function.__kwdefaults__ or {}).items()):
            self.read(default, _join(path, name))
        for name, attribute in sorted(vars(function).items()):
            self.read(attribute, _join(path, name.strip("_") or name))
        if self._depth > 1 and _is_library(str(names.get("__name__"))):
            self.code.append(_type_name(function))
            return
        self.code.append(_shape(code))
        global_names, attributes = _used(code)
        for name in sorted(global_names & names.keys()):
            self.read(names[name], _join(path, name))
            module = names[name]
            if isinstance(module, ModuleType) and not _is_library(module.__name__):
                for inner in sorted(attributes & vars(module).keys()):
                    self.read(vars(module)[inner], _join(path, f"{name}.{inner}"))

    def _read_class(self, kind: type, path: str) -> None:
        if _is_library(kind.__module__):
            self.code.append(_type_name(kind))
            return
        self.code.append(f"class {kind.__name__}")
        for base in kind.__bases__:
            self.read(base, path)
        for name, attribute in sorted(vars(kind).items()):
            inner = getattr(attribute, "__func__", attribute)
            if name.startswith(("_abc_", "_is_protocol", "_is_runtime", "__annot")):
                continue
            if not isinstance(inner, FunctionType) and name.startswith("__"):
                continue
            if (
                name.strip("_") in _MADE
                and "__dataclass_fields__" in vars(kind)
                and not _lines(inner)
            ):
                continue
            self.code.append(f"attribute {name}")
            self.read(attribute, f"{path}.{kind.__name__}.{name}")

    def _read_object(self, value: Any, path: str) -> None:
        """Read an object by its class and what a copy of it would be made of."""
        self.read(type(value), path)
        if "__wrapped__" in getattr(value, "__dict__", {}):  # such as of functools.cache
            self.read(value.__wrapped__, path)
            return
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numel"):
            self._read_tensor(value, path)
            return
        try:
            copied = value.__reduce_ex__(4)
        except Exception:  # a lock, a file, or what does not want to be copied
            copied = (_NEW, (type(value),), getattr(value, "__dict__", None))
        if isinstance(copied, str):
            self.code.append(copied)
            return
        make, arguments, *states = copied
        self.read(make, path)
        for i, argument in enumerate(arguments):
            if argument is not type(value):
                self.read(argument, f"{path}[{i}]")
        for state in states:
            for part in state if isinstance(state, tuple) and make is _NEW else (state,):
                if type(part) is dict:
                    for name, item in sorted(part.items(), key=lambda pair: _text(pair[0])):
                        self.read(item, _join(path, str(name)))
                elif isinstance(part, Iterator):
                    self.read(list(part), path)
                elif part is not None:
                    self.read(part, path)

    def _read_tensor(self, tensor: Any, path: str) -> None:
        numbers = tensor.detach().reshape(-1)[:_TENSOR].cpu().contiguous()
        content = hashlib.sha256(numbers.view(sys.modules["torch"].uint8).numpy())
        self._add(path, f"{tensor.dtype} {tuple(tensor.shape)} {content.hexdigest()}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"


def _text(value: object) -> str:
    """Return a key as text that is the same in every process."""
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))})"
    plain = type(value) in (bool, int, float, complex, str, bytes, type(None))
    return repr(value) if plain else f"{_type_name(type(value))} {getattr(value, 'name', '')}"


@cache
def _library_places() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = sysconfig.get_paths()
    return tuple(Path(paths[name]).resolve() for name in names)


def _is_library(name: str) -> bool:
    """Return whether a module is Python's, installed, or ours."""
    module = sys.modules.get(name)
    if name.partition(".")[0] in _OURS or name in sys.builtin_module_names:
        return True
    file = getattr(module, "__file__", None)
    if name in SCRIPT or file is None:
        return False
    path = Path(file).resolve()
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(installed) or any(path.is_relative_to(place) for place in _library_places())


@lru_cache(maxsize=256)
def _used(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the globals that a function uses, and all names; those of functions in it, too."""
    global_names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    names = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            inner_globals, inner_names = _used(part)
            global_names, names = global_names | inner_globals, names | inner_names
    return global_names, names


def _lines(function: Any) -> list[str]:
    file = function.__code__.co_filename
    linecache.checkcache(file)
    return linecache.getlines(file)


@lru_cache(maxsize=256)
def _shape(code: CodeType) -> str:
    """Return a function's syntax tree; its instructions where its source is not at hand.

    What the file holds by now counts as the source only where it compiles to this very function.
    """
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
        compiled = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return _instructions(code)
    node = _node(tree, code) if code in _all_codes(compiled) else None
    return _instructions(code) if node is None else repr(_plain_tree(node))


def _all_codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [code, *(found for part in inner for found in _all_codes(part))]


def _node(tree: ast.Module, code: CodeType) -> ast.AST | None:
    """Return the part of a syntax tree that a function was made of."""
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    lambdas: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            if (node.name, first) == (code.co_name, code.co_firstlineno):
                return node
        elif isinstance(node, ast.Lambda) and (code.co_name, code.co_firstlineno) == (
            "<lambda>",
            node.lineno,
        ):
            start = (node.body.lineno, node.body.col_offset)
            end = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
            if all(start <= place <= end for place in places):
                lambdas.append(node)
    return min(lambdas, key=lambda node: len(ast.dump(node)), default=None)


def _plain_tree(node: Any) -> Any:
    """Return a syntax tree without comments, places and docstrings, for every Python the same."""
    if isinstance(node, list):
        return [_plain_tree(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    parts = dict(ast.iter_fields(node))
    body = parts.get("body")
    if isinstance(body, list) and not isinstance(node, ast.Module) and body:
        first = getattr(body[0], "value", None)
        if isinstance(body[0], ast.Expr) and isinstance(getattr(first, "value", None), str):
            parts["body"] = body[1:]
    kept = {
        name: part for name, part in parts.items() if name not in ("ctx", "kind", "type_comment")
    }
    return type(node).__name__, [
        (name, _plain_tree(part)) for name, part in kept.items() if part not in (None, [])
    ]


def _instructions(code: CodeType) -> str:
    parts = [
        _instructions(part) if isinstance(part, CodeType) else _text(part)
        for part in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} [{', '.join(parts)}]"
