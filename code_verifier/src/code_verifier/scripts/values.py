"""A returned value as data: its type's name, its text and its digest; and its text read back.

Described inside the child, without calling a method of the program's own. Values of built-in types
are written as `repr` writes them; subclasses of these, as named tuples or counters, by the data
that they hold, under their own type's name; keys and items of a dict as sets; anything else has a
name only. The digest is one of a normal form that is equal for values that Python holds equal (1,
1.0 and True), so that a value too large to send can still be compared. A value that holds a NaN
equals nothing.

Values of numpy, decimals and fractions count as the plain number that they equal, for the digest,
and have a text that names the type, since numpy compares by rules of its own. `read_value` makes
the same value of such a text, which may be forged.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import math
import sys
from array import array
from contextlib import suppress
from decimal import Decimal, DecimalException
from fractions import Fraction
from itertools import chain, islice
from operator import eq, ne

from code_verifier.errors import LiteralError
from code_verifier.syntax import parse_expression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARKS = ("numpy(", "Decimal(", "Fraction(")
"""What the text of a value of these types, or of a container with one, has in it."""
_NONE = type(None)
_SCALARS = frozenset({bool, int, float, str, _NONE})
_SEQUENCES = (list, tuple)
_LISTED = frozenset(_SEQUENCES)
_SETS = (set, frozenset)
_CONTAINERS = frozenset((*_SEQUENCES, *_SETS, dict))
_BASES = (bool, int, float, complex, str, bytes, bytearray, *_SEQUENCES, *_SETS, dict)
_NORMAL = frozenset({int, str, bytes, _NONE})
_UNCHANGED = frozenset({int, bytes, _NONE})
_REAL = frozenset({bool, int, float})
_NO_ITEMS: dict[int, int] = {}
_VIEWS = (type(_NO_ITEMS.keys()), type(_NO_ITEMS.items()))
_MAX_DEPTH = 100
_MAX_DRAWN = 1_000_000
_MAX_DIGITS = 5000
_PART = 1 << 12
_MINUS_ZERO = array("d", [-0.0]).tobytes()
_HUGE = 3 << 20  # bytes of a normal form whose text is of no use
_MAX_ARRAY = 1 << 28
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_numerator = Fraction.__dict__["_numerator"].__get__
_denominator = Fraction.__dict__["_denominator"].__get__
_EXACT = frozenset((*_BASES, _NONE))
_BASE_NAMES = frozenset(map(_name_of, _EXACT))


class Opaque(Exception):
    """A value, or a part of one, of a type that is not data."""


class Unequal(Exception):
    """A value that holds a NaN, and so equals nothing."""


def describe(value: Any, draw: bool = False) -> tuple[str, str, str | None, int, bool]:
    """Type name, digest of the normal form ("" when it equals nothing), text, its length, and
    whether the value is a float or a sequence of floats only.

    draw: an iterator or view counts as the list of what it yields, as under `set(value)`.
    The text is None for what is not data, of length -1; the name is then all there is. It is also
    None where the normal form has over three million bytes, whose number is its length.
    """
    name, found, size, floats = _named(type(value)), "", 0, False
    try:
        value = _drawn(value) if draw else value
        try:
            floats = _is_floats(value)
            found, size = _digest(value)
        except Unequal:
            pass
        except Opaque:  # but perhaps a value of numpy, a decimal or a fraction
            floats = False
        if size >= _HUGE:
            return name, found, None, size, floats
        text = _text(value, _MAX_DEPTH)
        return name, found, text, len(text), floats
    except (Opaque, RecursionError, ValueError):
        return name, "", None, -1, False


def _digest(value: Any) -> tuple[str, int]:
    """Digest and size of the normal form; that of a long sequence is made part by part, so that
    it never lies in memory as a whole. Raises Opaque, Unequal."""
    if type(value) not in _EXACT:
        value = _plain(value, _MAX_DEPTH)
    if type(value) not in _SEQUENCES or len(value) <= _PART:
        form = marshal.dumps(_normal(value, _MAX_DEPTH), 2)
        return hashlib.sha256(form).hexdigest()[:32], len(form)
    total, size = hashlib.sha256(), 0
    for start in range(0, len(value), _PART):
        part = value[start : start + _PART]
        normal = _doubles(part) or _normal(part, _MAX_DEPTH)
        form = marshal.dumps(_doubles(normal) or normal, 2)
        total.update(form)
        size += len(form)
    return total.hexdigest()[:32], size


def _doubles(numbers: Any) -> dict[str, bytes] | None:
    """A form of a list or tuple whose items are numbers that equal a float, or None."""
    if not set(map(type, numbers)) <= _REAL:
        return None
    try:
        doubles = array("d", numbers)
    except OverflowError:
        return None
    if not all(map(eq, doubles, numbers)):  # too many digits, or a NaN
        return None
    form = doubles.tobytes()
    if _MINUS_ZERO in form:
        form = array("d", [number + 0.0 for number in doubles]).tobytes()
    return {_name_of(type(numbers)): form}


def _named(kind: type) -> str:
    """The name of a type; another type with the name of a built-in one gets one of its own."""
    name = str(_name_of(kind))
    return name if kind in _EXACT or name not in _BASE_NAMES else f"another {name}"


def _is_floats(value: Any) -> bool:
    """Whether it is a float, or a list or tuple of floats only, by its data. Raises Opaque."""
    if type(value) not in _EXACT:
        value = _plain(value, _MAX_DEPTH)
    if type(value) not in _SEQUENCES:
        return type(value) is float
    if not value or (type(value[0]) is not float and type(value[0]) in _EXACT):
        return False
    kinds = set(map(type, value))
    if not kinds <= _EXACT:
        kinds = {type(_plain(item, _MAX_DEPTH)) for item in value}
    return kinds == {float}


def _is_flat(container: Any) -> bool:
    """Whether an exact container holds numbers and texts only, seen by the interpreter's loops."""
    items = chain(container, container.values()) if type(container) is dict else container
    return set(map(type, items)) <= _SCALARS


def _drawn(value: Any) -> Any:
    if any(base in _BASES for base in _mro_of(type(value))):
        return value
    try:
        return list(islice(iter(value), _MAX_DRAWN))
    except TypeError:
        return value


def _plain(value: Any, depth: int) -> Any:
    """The data of a value, in built-in types only. Raises Opaque."""
    kind = type(value)
    if depth <= 0:
        raise Opaque
    if kind in _SCALARS or (kind in _CONTAINERS and _is_flat(value)):
        return value
    if _is_number_of_library(kind):
        return _plain_number(value)
    for base in (set,) if kind in _VIEWS else _mro_of(kind):
        if base in _SETS:
            items = iter(value) if kind in _VIEWS else base.__iter__(value)
            try:
                return base([_plain(item, depth - 1) for item in items])
            except TypeError:  # a tuple with a list in it, of a view
                raise Opaque from None
        if base in _SEQUENCES:
            return base(_plain(item, depth - 1) for item in base.__iter__(value))
        if base is dict:
            pairs = dict.items(value)
            return {_plain(key, depth - 1): _plain(item, depth - 1) for key, item in pairs}
        if base is bytes or base is bytearray:
            return base(memoryview(value))
        for number, zero in ((int, 0), (float, 0.0), (complex, 0j), (str, "")):
            if base is number:
                return number.__add__(value, zero)
    raise Opaque


def _text(value: Any, depth: int) -> str:
    """As `repr` of the data, but long integers in base 16 (base 10 takes the square of their
    length), and values of numpy, decimals and fractions as they are. Raises Opaque."""
    kind = type(value)
    if depth <= 0:
        raise Opaque
    if kind not in _CONTAINERS:
        if kind not in _SCALARS:
            if _is_number_of_library(kind):
                return _library_text(value, depth)
            value = _plain(value, depth)
            if type(value) in _CONTAINERS:
                return _text(value, depth)
        try:
            return repr(value)
        except ValueError:  # more digits than the interpreter's limit
            return hex(value)
    if _is_flat(value):
        with suppress(ValueError):
            return repr(value)
    if kind is dict:
        pairs = [f"{_text(k, depth - 1)}: {_text(v, depth - 1)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    inner = ", ".join([_text(item, depth - 1) for item in value])
    if kind is list:
        return f"[{inner}]"
    if kind is tuple:
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not value:
        return f"{kind.__name__}()"
    return f"frozenset({{{inner}}})" if kind is frozenset else f"{{{inner}}}"


def _normal(value: Any, depth: int) -> Any:
    """Data with equal bytes for equal values; sets, dicts and sequences of texts in a form that no
    other value has. Raises Opaque, and Unequal for a NaN."""
    kind = type(value)
    if depth <= 0:
        raise Opaque
    if kind is list or kind is tuple:
        kinds = set(map(type, value))
        if kinds <= _NORMAL:
            return value
        if not kinds <= _EXACT:
            return _normal(_plain(value, depth), depth)
        if kinds <= _REAL:
            if any(map(ne, value, value)):
                raise Unequal
            return kind(
                [
                    int(x) if type(x) is bool or (type(x) is float and x.is_integer()) else x
                    for x in value
                ]
            )
        if kinds <= _LISTED:
            if all(map(_UNCHANGED.__contains__, map(type, chain.from_iterable(value)))):
                return value
            if len(kinds) == 1 and (joined := _joined(value)):
                return joined
        return kind([_normal(item, depth - 1) for item in value])
    if kind in _NORMAL:
        return value
    if kind is float or kind is bool:
        if value != value:
            raise Unequal
        return _whole(value)
    if kind is complex:
        if value != value:
            raise Unequal
        return complex(value.real + 0.0, value.imag) if value.imag else _whole(value.real)
    if kind is bytearray:
        return bytes(value)
    if kind is set or kind is frozenset:
        return {"set": sorted([_text(_normal(item, depth - 1), _MAX_DEPTH) for item in value])}
    if kind is dict:
        pairs = [[_text(_normal(x, depth - 1), _MAX_DEPTH) for x in y] for y in value.items()]
        return {"dict": sorted(pairs)}
    return _normal(_plain(value, depth), depth)


def _joined(rows: Any) -> dict[str, list[str]] | None:
    """A form of lists, or of tuples, of texts; None where one is empty or a text has a NUL."""
    try:
        texts = list(map("\0".join, rows))
    except TypeError:
        return None
    if not all(rows) or "\0".join(texts).count("\0") != sum(map(len, rows)) - 1:
        return None
    return {f"{_name_of(type(rows))} of {_name_of(type(rows[0]))}": texts}


def _whole(number: Any) -> Any:
    """An integer for a number that equals one."""
    kind = type(number)
    return number if kind is int or not (kind is bool or number.is_integer()) else int(number)


def _is_number_of_library(kind: type) -> bool:
    """Whether values of the type are decimals, fractions, or numpy's scalars or arrays."""
    if kind is Decimal or kind is Fraction:
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and any(
        base is numpy.generic or base is numpy.ndarray for base in _mro_of(kind)
    )


def _plain_number(value: Any) -> Any:
    """The built-in value that it equals, exactly; an array of one element counts as that element,
    as a comparison of it has a truth value. Raises Opaque where there is none."""
    kind = type(value)
    if kind is Decimal and value.is_infinite():
        return float(value)
    if kind is Decimal and (value.is_nan() or abs(value.adjusted()) >= _MAX_DIGITS):
        raise Opaque
    if kind is Fraction or kind is Decimal:
        exact = Fraction(value) if kind is Decimal else value
        top, bottom = _numerator(exact), _denominator(exact)
        if bottom != 1 and abs(top) >= bottom << 1023:
            raise Opaque
        number = top if bottom == 1 else top / bottom
        if number != exact:
            raise Opaque
        return number
    array = sys.modules["numpy"].asarray(value)
    item = array.reshape(-1).tolist()[0] if array.size == 1 else value
    if array.dtype.kind not in "biufcUS" or _is_number_of_library(type(item)):
        raise Opaque
    return item


def _library_text(value: Any, depth: int) -> str:
    """A text of it for `read_value`. Raises Opaque where there is none."""
    kind = type(value)
    if kind is Fraction:
        return f"Fraction({_numerator(value)}, {_denominator(value)})"
    if kind is Decimal:
        return f"Decimal({str(value)!r})"
    numpy = sys.modules["numpy"]
    array = numpy.asarray(value)
    if array.dtype.kind not in "biufcUSO":
        raise Opaque
    items = array.reshape(-1).tolist()
    if items and array.dtype.kind != "O" and _is_number_of_library(type(items[0])):  # a wide float
        items = [complex(item) if array.dtype.kind == "c" else str(item) for item in items]
        if not bool((numpy.array(items, array.dtype) == array.reshape(-1)).all()):
            raise Opaque
    shape = array.shape if isinstance(value, numpy.ndarray) else None
    return f"numpy({array.dtype.str!r}, {shape!r}, {_text(items, depth - 1)})"


def read_value(text: str) -> Any:
    """Return the value of a text that `describe` wrote; it may be forged. Raises LiteralError."""
    try:
        return _read(parse_expression(text))
    except (SyntaxError, TypeError, ValueError, RecursionError, ImportError) as error:
        raise LiteralError(f"not the text of a value: {error}") from None
    except (ArithmeticError, DecimalException) as error:
        raise LiteralError(f"not the text of a value: {error!r}") from None


def _read(node: Any) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.List(items):
            return [_read(item) for item in items]
        case ast.Tuple(items):
            return tuple([_read(item) for item in items])
        case ast.Set(items):
            return {_read(item) for item in items}
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return {_read(key): _read(item) for key, item in pairs}
        case ast.Name(name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_number(operand)
        case ast.BinOp(left, ast.Add(), right):
            return _number(left) + _number(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _number(left) - _number(right)
        case ast.Call(ast.Name(name), arguments, []) if name in _MAKERS:
            return _MAKERS[name](*map(_read, arguments))
    raise ValueError(f"{type(node).__name__} is an expression")


def _number(node: Any) -> Any:
    value = _read(node)
    if not isinstance(value, int | float | complex):
        raise TypeError("an operator applied to no number")
    return value


def _make_numpy(dtype: str, shape: tuple[int, ...] | None, items: list[Any]) -> Any:
    """An array, or the scalar without a shape."""
    import numpy

    kind = numpy.dtype(dtype)
    whole = (1,) if shape is None else shape
    if kind.kind not in "biufcUSO" or math.prod(whole) != len(items):
        raise ValueError("no array of numbers or texts")
    if kind.itemsize * len(items) > _MAX_ARRAY:
        raise ValueError("an array of too many bytes")
    array = numpy.empty(len(items), kind)
    for place, item in enumerate(items):
        array[place] = item
    narrow = kind.kind in "fc" and kind.itemsize < (8 if kind.kind == "f" else 16)
    if narrow and not numpy.isfinite(array).all():
        raise ValueError("an infinity that every large number is rounded to")
    return array[0] if shape is None else array.reshape(shape)


def _make_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError("a number that takes too long to compute with")
    return value


def _make_fraction(*parts: int) -> Fraction:
    if [type(part) for part in parts] != [int, int]:
        raise TypeError("a fraction of no integers")
    return Fraction(*parts)


_CONSTANTS: dict[str, Any] = {"nan": float("nan"), "inf": float("inf")}
_CONSTANTS |= {f"{name}j": complex(0.0, value) for name, value in _CONSTANTS.items()}
_MAKERS: dict[str, Any] = {
    "set": set,
    "frozenset": frozenset,
    "bytearray": bytearray,
    "numpy": _make_numpy,
    "Decimal": _make_decimal,
    "Fraction": _make_fraction,
}
