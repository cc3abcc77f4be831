"""Write values of exact built-in types in one canonical form.

None, Ellipsis, bool, int, float, complex, str, bytes, list, tuple, set and dict. No method of a
subclass or of a metaclass is ever called. Two values are the same exactly when their canonical
texts are equal: 1, True and 1.0 differ, and so do 0.0 and -0.0. The order in sets and dicts depends
only on their members. The module also runs in the confined child, and so imports almost nothing.
"""

from typing import Any

from code_verifier.errors import LiteralError

MAX_CHARS = 100_000
MAX_DEPTH = 64
NOT_FINITE = "a float that is not finite has no literal"
_TYPES = "None, bool, int, float, complex, str, bytes, list, tuple, set or dict"
MAX_INT_BITS = 14_280  # a little under 4300 decimal digits, Python's own default limit
LONG_INTEGER = "an integer of more than 4298 digits"
_NAME_CHARS = 80
_INFINITY = float("inf")


def canonical(value: object, max_chars: int = MAX_CHARS) -> str:
    """Return the canonical literal of `value`, at most `max_chars` characters.

    Raises LiteralError with status `not_literal` (another type, a float that is not finite,
    nesting deeper than 64 levels, a cycle) or `too_long`.

        >>> canonical({"b": {3, 1}, "a": 1.0})
        "{'a': 1.0, 'b': {1, 3}}"
    """
    budget = [max_chars]
    text = _write(value, MAX_DEPTH, budget)
    if len(text) > max_chars:
        raise LiteralError(f"longer than {max_chars} characters", "too_long")
    return text


def _write(value: object, depth: int, budget: list[int]) -> str:
    """The literal of one value. Types are compared by identity only: `==`, `in` and `hash` on a
    type would call its metaclass, which the program may have written."""
    kind = type(value)
    if kind is list or kind is tuple or kind is dict or kind is set:
        if depth <= 0:
            raise LiteralError("nested too deeply, or a cycle")
        _spend(budget, 2)
        return _container(value, kind, depth - 1, budget)
    text = _atom(value, kind, budget[0])
    _spend(budget, len(text))
    return text


def _spend(budget: list[int], chars: int) -> None:
    budget[0] -= chars
    if budget[0] < 0:
        raise LiteralError("longer than the output limit", "too_long")


def _atom(value: Any, kind: type, room: int) -> str:
    if kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise LiteralError(LONG_INTEGER, "too_long")
    elif kind is str or kind is bytes:
        if len(value) > room:
            raise LiteralError("longer than the output limit", "too_long")
    elif kind is float:
        if not -_INFINITY < value < _INFINITY:
            raise LiteralError(NOT_FINITE)
    elif kind is complex:
        real, imag = value.real, value.imag
        if not (-_INFINITY < real < _INFINITY and -_INFINITY < imag < _INFINITY):
            raise LiteralError(NOT_FINITE)
        sign = "-" if repr(imag)[0] == "-" else "+"
        return f"({real!r}{sign}{abs(imag)!r}j)"
    elif value is ...:
        return "..."
    elif kind is not bool and value is not None:
        name = type.__dict__["__name__"].__get__(kind)[:_NAME_CHARS]
        raise LiteralError(f"a value of type {name!r} is not a literal; expected {_TYPES}")
    return repr(value)


def _container(value: Any, kind: type, depth: int, budget: list[int]) -> str:
    _spend(budget, 2 * max(len(value) - 1, 0))
    if kind is list or kind is tuple:
        inner = ", ".join([_write(item, depth, budget) for item in value])
        if kind is list:
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is set and not value:
        return "set()"
    _spend(budget, 2 * len(value) if kind is dict else 0)
    members = []
    for key, item in zip(value, value.values() if kind is dict else value, strict=True):
        text = _write(key, depth, budget)
        more = f": {_write(item, depth, budget)}" if kind is dict else ""
        members.append((order(key, text), text + more))
    members.sort(key=lambda member: member[0])
    return "{" + ", ".join([text for _, text in members]) + "}"


def order(value: Any, text: str) -> tuple[int, Any, str]:
    """Return the sort key of a set member or dict key: numbers by value, texts, then others."""
    kind = type(value)
    if kind is int or kind is bool or kind is float:
        return (0, value, text)
    if kind is str:
        return (1, value, text)
    return (2, text, text)
