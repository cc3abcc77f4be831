"""A returned value as data, described inside the child: its type's name, its text and its digest.

No method of the program's own is called. Values of built-in types are written as `repr` writes
them; subclasses of these, as named tuples or counters, by the data that they hold, under their own
type's name; keys and items of a dict as sets; numpy's values, decimals and fractions as `foreign`
says; anything else has a name only. The digest is
one of a normal form that is equal for values that Python holds equal (1, 1.0 and True), so that
a value too large to send can still be compared. A value that holds a NaN equals nothing.
"""

from __future__ import annotations

import hashlib
import marshal
from itertools import chain, islice
from math import isfinite
from operator import ne

from code_verifier.modules import foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_EXACT = frozenset({int, str, bytes, type(None)})
_REAL = frozenset({bool, int, float})
_SEQUENCES = (list, tuple)
_NORMAL = _EXACT | frozenset(_SEQUENCES)
_SETS = (set, frozenset)
_BASES = (bool, int, float, complex, str, bytes, bytearray, *_SEQUENCES, *_SETS, dict)
_MAX_DEPTH = 100
_MAX_DRAWN = 1_000_000
_HUGE = 1 << 22  # bytes of a normal form whose text nobody asks for
_PIECE = 4096  # members of a sequence that are written at a time
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__


class Opaque(Exception):
    """A value, or a part of one, of a type that is not data."""


def describe(value: Any, draw: bool = False) -> tuple[str, str, str | None, int, bool]:
    """Type name, digest of the normal form ("" when it equals nothing), text, its length, and
    whether the value is a float or a sequence of floats only.

    draw: an iterator or view counts as the list of what it yields, as under `set(value)`.
    The text is None for what is not data, of length -1; the name is then all there is. It is also
    None where the normal form has over four million bytes, whose number stands for its length.
    """
    kind = type(value)
    name = _named(kind)
    coded: str | None = None
    try:
        # Most values are no containers, and need no walk.
        plain = kind is int or kind is str or kind is bool or kind is float or kind is _NONE
        kinds = {kind} if plain else _kinds(value)
        if kinds is None:
            value = _drawn(value) if draw else value
            coded = _coded(value, _MAX_DEPTH)
            try:
                value = _plain(value, _MAX_DEPTH)
            except Opaque:
                return name, "", coded, -1 if coded is None else len(coded), False
            kinds = _kinds(value)
        if kinds is None:
            raise Opaque
        found, size = _digest(value, normal=kinds <= _NORMAL)
        text = coded or (_text(value) if size < _HUGE else None)
    except (Opaque, RecursionError, ValueError):
        return name, "", None, -1, False
    floats = type(value) is float or (
        type(value) in _SEQUENCES and set(map(type, value)) == {float}
    )
    if (float in kinds or complex in kinds) and _holds_nan(value):
        found = ""
    return name, found, text, size if text is None else len(text), floats


def _digest(value: Any, normal: bool) -> tuple[str, int]:
    """Hash and number of bytes of a value's normal form, made piece by piece.

    Format 2 of marshal has no references: equal values are equal bytes.
    """
    many = type(value) in _SEQUENCES and len(value) > _PIECE
    steps = range(0, len(value), _PIECE) if many else (0,)
    found, size = hashlib.sha256(), 0
    for start in steps:
        piece = value[start : start + _PIECE] if many else value
        data = marshal.dumps(piece if normal else _normal(piece), 2)
        found.update(data)
        size += len(data)
    return found.hexdigest()[:32], size


def _named(kind: type) -> str:
    """The name of a type; another type with the name of a built-in one gets one of its own."""
    name = str(_name_of(kind))
    if name not in _BASE_NAMES or kind is _NONE or any(kind is base for base in _BASES):
        return name
    return f"another {name}"


def _kinds(value: Any) -> set[type] | None:
    """All types in a value, or None when one is not a built-in type of data itself."""
    found: set[type] = set()
    for _, kinds in _levels(value):
        if not all(any(kind is base for base in _BASES) or kind is _NONE for kind in kinds):
            return None
        found |= kinds
    return found if kinds.isdisjoint(_CONTAINERS) else None


def _levels(value: Any) -> Iterator[tuple[list[Any], set[type]]]:
    """Containers by depth, at most 100 levels, and the types of what they hold: the work per
    member is done by the interpreter's own loops, and only containers are listed."""
    containers: list[Any] = [[value]]
    for _ in range(_MAX_DEPTH):
        kinds = set(map(type, chain.from_iterable(map(_members, containers))))
        yield containers, kinds
        if kinds.isdisjoint(_CONTAINERS):
            return
        inner = chain.from_iterable(map(_members, containers))
        containers = [member for member in inner if type(member) in _CONTAINERS]


def _members(container: Any) -> Iterable[Any]:
    return chain(container, container.values()) if type(container) is dict else container


_NONE = type(None)
_BASE_NAMES = frozenset([_name_of(base) for base in (*_BASES, _NONE)])
_CONTAINERS = frozenset((*_SEQUENCES, *_SETS, dict))


def _drawn(value: Any) -> Any:
    kind = type(value)
    if any(base in _BASES for base in _mro_of(kind)):
        return value
    try:
        return list(islice(iter(value), _MAX_DRAWN))
    except TypeError:
        return value


def _plain(value: Any, depth: int) -> Any:
    """The data of a value, in built-in types only. Raises Opaque."""
    kind = type(value)
    if kind is _NONE or kind is bool:
        return value
    if depth <= 0:
        raise Opaque
    if foreign.is_foreign(value):
        value = foreign.plain_number(value)
        if value is NotImplemented:
            raise Opaque
        return value
    if foreign.is_view(value):
        return _plain_set(set, value, depth)
    for base in _mro_of(kind):
        if base in _SETS:
            return _plain_set(base, base.__iter__(value), depth)
        if base in _SEQUENCES:
            return base(_plain(item, depth - 1) for item in base.__iter__(value))
        if base is dict:
            pairs = dict.items(value)
            return {_plain(key, depth - 1): _plain(item, depth - 1) for key, item in pairs}
        if base is str:
            return str.__str__(value)
        if base is bytes or base is bytearray:
            return base(memoryview(value))
        if base is complex:
            return complex(complex.__add__(value, 0j))
        if base is int:
            return int.__add__(value, 0)
        if base is float:
            return float.__add__(value, 0.0)
    raise Opaque


def _plain_set(make: Any, items: Any, depth: int) -> Any:
    try:
        return make([_plain(item, depth - 1) for item in items])
    except TypeError:  # a tuple with a list in it, of a view
        raise Opaque from None


def _coded(value: Any, depth: int) -> str | None:
    """A text with the foreign values as they are, None where there are none. Raises Opaque."""
    if not _holds_foreign(value, depth):
        return None
    return _code(value, depth)


def _holds_foreign(value: Any, depth: int) -> bool:
    if foreign.is_foreign(value):
        return True
    kind = type(value)
    if kind is dict:
        return any(_holds_foreign(item, depth - 1) for item in value.values())
    inner = depth > 0 and kind in _CONTAINERS
    return inner and any(_holds_foreign(item, depth - 1) for item in value)


def _code(value: Any, depth: int) -> str:
    kind = type(value)
    if depth <= 0:
        raise Opaque
    if foreign.is_foreign(value):
        text = foreign.foreign_text(value, lambda items: _code(items, depth - 1))
        if text is None:
            raise Opaque
        return text
    if kind is dict:
        pairs = [
            f"{_code(key, depth - 1)}: {_code(item, depth - 1)}" for key, item in value.items()
        ]
        return "{" + ", ".join(pairs) + "}"
    if kind not in _CONTAINERS:
        return _text(_plain(value, depth))
    inner = ", ".join([_code(item, depth - 1) for item in value])
    return _bracketed(kind, inner, len(value))


def _text(value: Any) -> str:
    """As `repr`, but long integers in base 16: base 10 takes the square of their length."""
    try:
        return repr(value)
    except ValueError:  # more digits than the interpreter's limit
        return _written(value)


def _written(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return hex(value)
    if kind is dict:
        pairs = [f"{_text(key)}: {_text(item)}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    return _bracketed(kind, ", ".join(map(_text, value)), len(value))


def _bracketed(kind: type, inner: str, count: int) -> str:
    if kind is list:
        return f"[{inner}]"
    if kind is tuple:
        return f"({inner},)" if count else "()"
    if not count:
        return f"{kind.__name__}()"
    return f"frozenset({{{inner}}})" if kind is frozenset else f"{{{inner}}}"


def _normal(value: Any) -> Any:
    """Equal texts for equal values; sets and dicts as sorted texts, which no value equals."""
    kind = type(value)
    if kind is bool:
        return int(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is complex:
        return complex(value.real + 0.0, value.imag) if value.imag else _normal(value.real)
    if kind is bytearray:
        return bytes(value)
    if kind is list or kind is tuple:
        return kind(
            [
                item
                if type(item) is int
                else (int(item) if item.is_integer() else item)
                if type(item) is float
                else _normal(item)
                for item in value
            ]
        )
    if kind is set or kind is frozenset:
        return {"set": sorted([_text(_normal(item)) for item in value])}
    if kind is dict:
        pairs = [(_text(_normal(key)), _text(_normal(item))) for key, item in value.items()]
        return {"dict": sorted(pairs)}
    return value


def _holds_nan(value: Any) -> bool:
    """Whether some number in it differs from itself; containers are equal to themselves."""
    for containers, kinds in _levels(value):
        if float in kinds or complex in kinds:
            one, two, three = (chain.from_iterable(map(_members, containers)) for _ in range(3))
            if not (kinds <= _REAL and _sums_up(one)) and any(map(ne, two, three)):
                return True
    return False


def _sums_up(numbers: Iterable[float]) -> bool:
    """Whether their sum is finite, so that no NaN is among them: sooner seen than each of them."""
    try:
        return isfinite(sum(numbers, 0.0))
    except OverflowError:
        return False
