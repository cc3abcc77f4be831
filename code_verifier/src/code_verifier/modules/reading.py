"""Reading the text of a value, which may be forged: literals, `nan`, `inf` and `foreign` values."""

import ast
import math
from decimal import Decimal, DecimalException
from fractions import Fraction
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.literals.syntax import parse_expression

_FLOATS = {"nan": float("nan"), "inf": float("inf")}
_IMAGINARY = {f"{name}j": complex(0.0, value) for name, value in _FLOATS.items()}
_MOST_BYTES = 1 << 28
_MOST_DIGITS = 5000


def read_value(text: str) -> Any:
    """The value of a text that `values.describe` wrote. Raises LiteralError."""
    try:
        return _value(parse_expression(text))
    except (SyntaxError, TypeError, ValueError, RecursionError, *_FOREIGN) as error:
        raise LiteralError(f"not the text of a value: {error}") from None


def _value(node: Any) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple([_value(item) for item in node.elts])
    if isinstance(node, ast.Set):
        return {_value(item) for item in node.elts}
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_value(key): _value(item) for key, item in pairs}
    if isinstance(node, ast.Name) and node.id in _FLOATS:
        return _FLOATS[node.id]
    if isinstance(node, ast.Name) and node.id in _IMAGINARY:
        return _IMAGINARY[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _number(node.left), _number(node.right)
        return left + right if isinstance(node.op, ast.Add) else left - right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        make = _MAKERS.get(node.func.id)
        if make is not None and not node.keywords:
            return make(*map(_value, node.args))
    raise ValueError(f"{type(node).__name__} is an expression")


def _number(node: Any) -> Any:
    value = _value(node)
    if not isinstance(value, int | float | complex):
        raise TypeError("an operator applied to no number")
    return value


def _numpy(dtype: str, shape: tuple[int, ...] | None, items: list[Any]) -> Any:
    """An array, or the scalar without a shape."""
    import numpy

    kind = numpy.dtype(dtype)
    whole = (1,) if shape is None else shape
    if kind.kind not in "biufcUSO" or math.prod(whole) != len(items):
        raise ValueError("no array of numbers or texts")
    if kind.itemsize * len(items) > _MOST_BYTES:
        raise ValueError("an array of too many bytes")
    array = numpy.empty(len(items), kind)
    for place, item in enumerate(items):
        array[place] = item
    narrow = kind.kind in "fc" and kind.itemsize < (8 if kind.kind == "f" else 16)
    if narrow and not numpy.isfinite(array).all():
        raise ValueError("an infinity that every large number is rounded to")
    return array[0] if shape is None else array.reshape(shape)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _MOST_DIGITS:
        raise ValueError("a number that takes too long to compute with")
    return value


def _fraction(numerator: int, denominator: int) -> Fraction:
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("a fraction of no integers")
    return Fraction(numerator, denominator)


_MAKERS: dict[str, Any] = {
    "set": set,
    "frozenset": frozenset,
    "bytearray": bytearray,
    "numpy": _numpy,
    "Decimal": _decimal,
    "Fraction": _fraction,
}
_FOREIGN = (DecimalException, ZeroDivisionError, OverflowError, ImportError)
