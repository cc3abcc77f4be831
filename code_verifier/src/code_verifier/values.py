"""Describe a returned value as data: its type's name, its JSON and its digest; and read the JSON.

The child describes a value without calling any method of the program. Subclasses of built-in types,
such as named tuples or counters, are described by their data, under their own type's name; keys and
items of a dict as sets; anything else has a name only. The digest is of a normal form that is the
same for values that are equal in Python (1, 1.0 and True), so that a value too large to send can
still be compared. A value that holds a NaN equals nothing.

Scalars and arrays of numpy are described by their `tolist`, decimals and fractions as the int or
float that they equal; without one, they are no data.
"""

import hashlib
import json
import marshal
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from typing import Any

from code_verifier.errors import LiteralError

_SCALARS = frozenset({bool, int, float, str, type(None)})
_SEQUENCES = (list, tuple)
_ROWS = frozenset(_SEQUENCES)
_CONTAINERS = frozenset({*_SEQUENCES, set, frozenset, dict})
_EXACT = _SCALARS | _CONTAINERS | {complex, bytes, bytearray}
_NORMAL = frozenset({int, str, bytes, type(None)})
_ZEROS: dict[type, Any] = {int: 0, float: 0.0, complex: 0j, str: ""}
"""Added to an instance of a subclass, it gives the plain number or text."""
_NO_ITEMS: dict[int, int] = {}
_VIEWS = (type(_NO_ITEMS.keys()), type(_NO_ITEMS.items()))
_MAX_DEPTH = 100
_MAX_DRAWN = 1_000_000
_MAX_DIGITS = 5000
_LONG_BITS = 14_280  # near the interpreter's limit of 4300 digits
_PART = 1 << 12
_HUGE = 3 << 20  # bytes of a normal form whose text is of no use
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_numerator = Fraction.__dict__["_numerator"].__get__
_denominator = Fraction.__dict__["_denominator"].__get__
_BASE_NAMES = frozenset(map(_name_of, _EXACT))

encode = json.JSONEncoder().encode


class Opaque(Exception):
    """A value, or a part of one, of a type that is not data."""


class Unequal(Exception):
    """A value that holds a NaN."""


def describe(value: Any, draw: bool = False) -> tuple[str, str, str | None, int, bool]:
    """Return type name, digest of the normal form ("" if it equals nothing), JSON, its length, and
    whether the value is a float or a sequence of floats only.

    draw: an iterator or view counts as a list of its items. For a value that is no data, the JSON
    is None and its length -1. If the normal form has over three million bytes, the JSON is None and
    its length the number of these bytes.
    """
    name = str(_name_of(type(value)))
    if type(value) not in _EXACT and name in _BASE_NAMES:
        name = f"another {name}"
    try:
        plain = _plain(_draw(value) if draw else value, _MAX_DEPTH)
        digest, size = _digest(plain)
        text = None if size >= _HUGE else encode(_tag(plain))
        parts = plain if type(plain) in _SEQUENCES else [plain]
        are_floats = set(map(type, parts)) == {float}
        return name, digest, text, size if text is None else len(text), are_floats
    except (Opaque, RecursionError, TypeError, ValueError):
        return name, "", None, -1, False


def _draw(value: Any) -> Any:
    if any(base in _EXACT for base in _mro_of(type(value))):
        return value
    try:
        return list(islice(iter(value), _MAX_DRAWN))
    except TypeError:
        return value


def _is_flat(container: Any) -> bool:
    """Whether an exact container holds numbers and texts only, or rows of them; sets of types find
    out ten times as fast as a loop."""
    items = [*container, *container.values()] if type(container) is dict else container
    kinds = set(map(type, items))
    if kinds <= _ROWS:
        kinds = set(map(type, chain.from_iterable(items)))
    return kinds <= _SCALARS


def _plain(value: Any, depth: int) -> Any:
    """The data of a value, in exact built-in types only. Raises Opaque."""
    kind = type(value)
    if depth <= 0:
        raise Opaque
    if kind in _SCALARS:
        return value
    if kind in _CONTAINERS and _is_flat(value):
        return value
    if kind is Decimal or kind is Fraction:
        return _equal_number(value)
    numpy: Any = sys.modules.get("numpy")
    bases: Any = (set,) if kind in _VIEWS else _mro_of(kind)
    for base in bases:
        if numpy is not None and (base is numpy.generic or base is numpy.ndarray):
            return _plain(base.tolist(value), depth - 1)
        if base is dict:
            return {_plain(k, depth - 1): _plain(x, depth - 1) for k, x in dict.items(value)}
        if base in _CONTAINERS:
            items = iter(value) if kind in _VIEWS else base.__iter__(value)
            return base([_plain(item, depth - 1) for item in items])
        if base is bytes or base is bytearray:
            return base(memoryview(value))
        if base in _ZEROS:
            return base.__add__(value, _ZEROS[base])
    raise Opaque


def shown(plain: Any) -> str:
    """Return plain data as text for a reader; JSON if an integer has too many digits for `repr`."""
    try:
        return repr(plain)
    except ValueError:
        return encode(_tag(plain))


def _digest(plain: Any) -> tuple[str, int]:
    """Digest and size of the normal form, "" and 0 for a value that equals nothing. The form of a
    long sequence is made part by part, so that it is never in memory as a whole."""
    parts: Any = [plain]
    if type(plain) in _SEQUENCES and len(plain) > _PART:
        parts = (plain[start : start + _PART] for start in range(0, len(plain), _PART))
    total, size = hashlib.sha256(), 0
    try:
        for part in parts:
            form = _bytes(part)
            total.update(form)
            size += len(form)
    except Unequal:
        return "", 0
    return total.hexdigest()[:32], size


def _normal(value: Any) -> Any:
    """Plain data with equal bytes for equal values: whole numbers are integers, and sets and dicts
    have a form that no other value has. Raises Unequal."""
    kind = type(value)
    if kind in _NORMAL:
        return value
    if kind in _SEQUENCES:
        is_normal = set(map(type, value)) <= _NORMAL
        return value if is_normal else kind([_normal(item) for item in value])
    if kind is set or kind is frozenset:
        return {"set": sorted([_bytes(item) for item in value])}
    if kind is dict:
        return {"dict": sorted([(_bytes(key), _bytes(item)) for key, item in value.items()])}
    if kind is bytearray:
        return bytes(value)
    if value != value:
        raise Unequal
    if kind is complex:
        if value.imag:
            return complex(value.real + 0.0, value.imag)
        value = value.real
    return int(value) if kind is bool or value.is_integer() else value


def _bytes(value: Any) -> bytes:
    return marshal.dumps(_normal(value), 2)


def _equal_number(value: Any) -> int | float:
    """The int or float that a decimal or a fraction equals. Raises Opaque without one."""
    if type(value) is Fraction:
        top, bottom = _numerator(value), _denominator(value)
    elif not value.is_finite():
        return float(value)
    elif abs(value.adjusted()) >= _MAX_DIGITS:
        raise Opaque
    else:
        top, bottom = value.as_integer_ratio()
    if bottom == 1:
        return int(top)
    try:
        number = float(top / bottom)
    except ArithmeticError:
        raise Opaque from None
    if number.as_integer_ratio() != (top, bottom):
        raise Opaque
    return number


_WORDS: dict[str, Any] = {
    "tuple": tuple,
    "set": lambda items: set(_uncolliding(items)),
    "frozenset": lambda items: frozenset(_uncolliding(items)),
    "dict": lambda pairs: dict(pairs if _uncolliding([k for k, _ in pairs]) else ()),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": lambda parts: complex(*parts),
    "int": lambda text: int(text, 16),
}
"""Types that JSON lacks, by the only key of the object that stands for a value."""
_COLLIDING = 1000


def _tag(value: Any) -> Any:
    """Plain data as `encode` takes it."""
    kind = type(value)
    if kind is int and value.bit_length() > _LONG_BITS:
        return {"int": hex(value)}
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {"dict": [[_tag(k), _tag(x)] for k, x in value.items()]}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is bytes or kind is bytearray:
        return {kind.__name__: value.hex()}
    items = [_tag(item) for item in value]
    return items if kind is list else {kind.__name__: items}


def read_value(text: str) -> Any:
    """Return the value of a text that `describe` wrote; it may be forged. Raises LiteralError."""
    try:
        return json.loads(text, object_pairs_hook=_value_of)
    except (KeyError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise LiteralError(f"not the text of a value: {error}") from None


def _value_of(pairs: list[tuple[str, Any]]) -> Any:
    ((word, content),) = pairs
    return _WORDS[word](content)


def _uncolliding(items: list[Any]) -> list[Any]:
    """The items of a set; refused if many have the same hash, which would take quadratic time."""
    if len(items) > _COLLIDING and max(Counter(map(hash, items)).values()) > _COLLIDING:
        raise ValueError("too many members have one hash")
    return items
