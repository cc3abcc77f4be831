"""The value of a tree at a point: an exact fraction where it can be, else a complex number."""

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from evals.math.formulas.expressions import Tree
from evals.math.formulas.guards import MAX_BITS, MAX_EXPONENT, MAX_FACTORIAL, TooLarge

Value: TypeAlias = Fraction | complex
Point: TypeAlias = Mapping[str, Value]


class Undefined(ValueError):
    """A formula has no finite value at a point."""


_CONSTANTS: dict[str, Value] = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j}
_FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "cot": lambda x: 1 / cmath.tan(x),
    "sec": lambda x: 1 / cmath.cos(x),
    "csc": lambda x: 1 / cmath.sin(x),
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "exp": cmath.exp,
    "ln": cmath.log,
    "log": cmath.log,
    "log10": cmath.log10,
}


def value(tree: Tree, point: Point) -> Value:
    """The value at a point. Raises Undefined or TooLarge."""
    try:
        found = _value(tree, point)
    except (ZeroDivisionError, OverflowError, ValueError, KeyError) as error:
        if isinstance(error, TooLarge):
            raise
        raise Undefined(str(error)) from None
    if isinstance(found, complex) and not cmath.isfinite(found):
        raise Undefined("not finite")
    return found


def _value(tree: Tree, point: Point) -> Value:
    kind = str(tree[0])
    if kind == "number":
        assert isinstance(tree[1], Fraction)
        return tree[1]
    if kind == "variable":
        return point[str(tree[1])]
    if kind == "constant":
        return _CONSTANTS[str(tree[1])]
    parts = [_value(part, point) for part in tree[1:] if isinstance(part, tuple)]
    if kind in _FUNCTIONS:
        return _function(kind, parts[0])
    return _OPERATIONS[kind](*parts)


def _function(name: str, argument: Value) -> Value:
    if argument == 0 and name in ("exp", "cos", "cosh"):
        return Fraction(1)
    if argument == 1 and name in ("ln", "log", "log10"):
        return Fraction(0)
    return _tidy(_FUNCTIONS[name](complex(argument)))


def _tidy(found: complex) -> complex:
    """Without the imaginary dust of functions that are real."""
    return complex(found.real) if abs(found.imag) < 1e-15 * abs(found.real) else found


def _bounded(found: Value) -> Value:
    if isinstance(found, Fraction) and (
        found.numerator.bit_length() > MAX_BITS or found.denominator.bit_length() > MAX_BITS
    ):
        raise TooLarge("guard: digits")
    return found


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if (
                abs(base) != 1
                and base
                and (abs(exponent) > MAX_EXPONENT or bits * abs(exponent) > MAX_BITS)
            ):
                raise TooLarge("guard: exponent")
            return Fraction(base ** int(exponent))
        return (
            _root(base**exponent.numerator, Fraction(exponent.denominator))
            if abs(exponent) < 100
            else complex(base) ** complex(exponent)
        )
    if base == 0:
        return Fraction(0)
    if base == _CONSTANTS["e"]:
        return cmath.exp(complex(exponent))
    return _tidy(complex(base) ** complex(exponent))


def _root(base: Value, degree: Value) -> Value:
    """The root; of a negative number with an odd degree the real one. Exact where it can be."""
    if not isinstance(degree, Fraction) or degree.denominator != 1 or degree < 1:
        return _tidy(complex(base) ** (1 / complex(degree)))
    n = int(degree)
    if isinstance(base, Fraction):
        if base < 0:
            return -_root(-base, degree) if n % 2 else _tidy(1j * complex(_root(-base, degree)))
        top, bottom = _whole_root(base.numerator, n), _whole_root(base.denominator, n)
        if top is not None and bottom is not None:
            return Fraction(top, bottom)
        return complex(float(base) ** (1 / n))
    if base.imag == 0 and base.real < 0 and n % 2:
        return complex(-((-base.real) ** (1 / n)))
    return _tidy(base ** (1 / n))


def _whole_root(number: int, degree: int) -> int | None:
    if number < 2 or degree == 1:
        return number
    if number.bit_length() > 900:
        return None
    guess = math.isqrt(number) if degree == 2 else round(float(number) ** (1 / degree))
    return next((k for k in (guess - 1, guess, guess + 1) if k**degree == number), None)


def _factorial(argument: Value) -> Value:
    if not isinstance(argument, Fraction) or argument.denominator != 1 or argument < 0:
        raise Undefined("factorial")
    if argument > MAX_FACTORIAL:
        raise TooLarge("guard: factorial")
    return Fraction(math.factorial(int(argument)))


def _binomial(top: Value, bottom: Value) -> Value:
    if not isinstance(top, Fraction) or not isinstance(bottom, Fraction):
        raise Undefined("binomial")
    if top.denominator != 1 or bottom.denominator != 1 or top < 0 or bottom < 0:
        raise Undefined("binomial")
    if top > MAX_FACTORIAL:
        raise TooLarge("guard: factorial")
    return Fraction(math.comb(int(top), int(bottom)))


def _floor(argument: Value) -> Value:
    if isinstance(argument, Fraction):
        return Fraction(math.floor(argument))
    if argument.imag:
        raise Undefined("floor of a complex number")
    return Fraction(math.floor(argument.real + 1e-9))


def _abs(argument: Value) -> Value:
    return abs(argument) if isinstance(argument, Fraction) else complex(abs(argument))


def _both(exact: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Value, Value], Value]:
    """An operation that stays exact on fractions."""

    def operation(one: Value, other: Value) -> Value:
        if isinstance(one, Fraction) and isinstance(other, Fraction):
            return _bounded(exact(one, other))
        return exact(complex(one), complex(other))  # type: ignore[arg-type]

    return operation


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _both(lambda one, other: one + other),
    "multiply": _both(lambda one, other: one * other),
    "divide": _both(lambda one, other: one / other),
    "negate": lambda argument: -argument,
    "power": _power,
    "root": _root,
    "factorial": _factorial,
    "binomial": _binomial,
    "floor": _floor,
    "ceiling": lambda argument: -_floor(-argument),
    "abs": _abs,
    "percent": lambda argument: argument / 100,
    "degrees": lambda argument: complex(argument) * math.pi / 180,
}
