"""Values of types that are no built-in ones but compare with them: numpy's, decimals, fractions.

As a plain number where that is what they equal, for the digest, and as a text that names the type,
since numpy compares by rules of its own: a scalar with the members of a list, a single-precision
number with a Python float after rounding that too. `reading` makes the same value of the text.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MARKS = ("numpy(", "Decimal(", "Fraction(")
"""What the text of such a value, or of a container with one, has in it."""
_NO_ITEMS: dict[int, int] = {}
_VIEWS = (type(_NO_ITEMS.keys()), type(_NO_ITEMS.items()))
_WHOLE_DIGITS = 5000
_mro_of = type.__dict__["__mro__"].__get__
_numerator = Fraction.__dict__["_numerator"].__get__
_denominator = Fraction.__dict__["_denominator"].__get__


def is_foreign(value: Any) -> bool:
    """Whether the value itself is of such a type."""
    kind = type(value)
    return kind is Decimal or kind is Fraction or is_numpy(kind)


def is_view(value: Any) -> bool:
    """Whether it is a dict's keys or items, which equal sets."""
    return type(value) in _VIEWS


def is_numpy(kind: type) -> bool:
    """Whether values of the type are numpy's scalars or arrays."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and any(
        base is numpy.generic or base is numpy.ndarray for base in _mro_of(kind)
    )


def plain_number(value: Any) -> Any:
    """The built-in value that it equals, exactly; NotImplemented where there is none.

    An array of one element counts as that element, as a comparison of it has a truth value.
    """
    kind = type(value)
    if kind is Fraction:
        return _number_of(_numerator(value), _denominator(value))
    if kind is Decimal:
        if not value.is_finite():
            return NotImplemented if value.is_nan() else float(value)
        small = abs(value.adjusted()) < _WHOLE_DIGITS
        return _number_of(*value.as_integer_ratio()) if small else NotImplemented
    array = sys.modules["numpy"].asarray(value)
    if array.dtype.kind not in "biufcUS" or array.size != 1:
        return NotImplemented
    item = array.reshape(-1).tolist()[0]
    return NotImplemented if is_numpy(type(item)) else item


def foreign_text(value: Any, write: Callable[[Any], str]) -> str | None:
    """A text of it for `reading`, None where there is none. write: for members of an array."""
    kind = type(value)
    if kind is Fraction:
        return f"Fraction({_numerator(value)}, {_denominator(value)})"
    if kind is Decimal:
        return f"Decimal({str(value)!r})"
    numpy = sys.modules["numpy"]
    array = numpy.asarray(value)
    if array.dtype.kind not in "biufcUSO":
        return None
    items = array.reshape(-1).tolist()
    if items and is_numpy(type(items[0])):  # wider than a Python float
        items = [complex(item) if array.dtype.kind == "c" else str(item) for item in items]
        if not bool((numpy.array(items, array.dtype) == array.reshape(-1)).all()):
            return None
    shape = array.shape if isinstance(value, numpy.ndarray) else None
    return f"numpy({array.dtype.str!r}, {shape!r}, {write(items)})"


def _number_of(numerator: int, denominator: int) -> Any:
    if denominator == 1:
        return numerator
    try:
        number = numerator / denominator
    except OverflowError:
        return NotImplemented
    return number if number.as_integer_ratio() == (numerator, denominator) else NotImplemented
