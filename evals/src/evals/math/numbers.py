"""Values of formulas at points: exact fractions where possible, else complex numbers.

Two formulas are taken as equal when they agree at several points: positive rational points, or
small whole numbers where floors, factorials or binomials occur. Values that are not exact may
differ by a relative 1e-9; there is no absolute tolerance, so 1.6e-19 is not 2.5e-19.
"""

import cmath
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TypeAlias

from evals.math.formulas import Tree, variables
from evals.math.notation import TooLarge

Value: TypeAlias = Fraction | complex
Point: TypeAlias = Mapping[str, Value]

RELATIVE = 1e-9
MAX_BITS = 40_000
"""Of the numerator and the denominator of an exact value."""
MAX_EXPONENT = 10_000
MAX_FACTORIAL = 2_000
MAX_WORK = 100_000
"""Operations of one comparison; one on long fractions counts as many."""


class Undefined(ValueError):
    """A formula has no finite value at a point."""


_CONSTANTS: dict[str, Value] = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j}
_FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    **{name: getattr(cmath, name) for name in str.split("sin cos tan sinh cosh tanh exp log")},
    **{f"arc{name}": getattr(cmath, f"a{name}") for name in ("sin", "cos", "tan")},
    "ln": cmath.log,
    "cot": lambda x: 1 / cmath.tan(x),
    "sec": lambda x: 1 / cmath.cos(x),
    "csc": lambda x: 1 / cmath.sin(x),
}
_WHOLE = {"floor", "ceiling", "factorial", "binomial"}


class Evaluator:
    """Values and equality of trees within MAX_WORK operations; then TooLarge."""

    def __init__(self) -> None:
        self._work = MAX_WORK

    def value(self, tree: Tree, point: Point) -> Value:
        """The value at a point. Raises Undefined or TooLarge."""
        try:
            result = self._value(tree, point)
        except TooLarge:
            raise
        except (ZeroDivisionError, OverflowError, ValueError, KeyError) as error:
            raise Undefined(str(error)) from None
        if isinstance(result, complex) and not cmath.isfinite(result):
            raise Undefined("not finite")
        return result

    def _value(self, tree: Tree, point: Point) -> Value:
        kind = str(tree[0])
        if kind == "number":
            number: Fraction = tree[1]
            return number
        if kind == "variable":
            return point[str(tree[1])]
        if kind == "constant":
            return _CONSTANTS[str(tree[1])]
        parts = [self._value(part, point) for part in tree[1:]]
        if kind in _FUNCTIONS:
            return _FUNCTIONS[kind](complex(parts[0]))
        if kind in ("add", "multiply"):
            result = parts[0]
            for part in parts[1:]:
                result = self._counted(_OPERATIONS[kind](result, part))
        else:
            result = _OPERATIONS[kind](*parts)
        return self._counted(result)

    def _counted(self, result: Value) -> Value:
        self._work -= 1
        if isinstance(result, Fraction):
            bits = result.numerator.bit_length() + result.denominator.bit_length()
            self._work -= bits // 128
            if bits > MAX_BITS:
                raise TooLarge("guard: digits")
        if self._work < 0:
            raise TooLarge("guard: work")
        return result

    def equal(self, one: Tree, other: Tree) -> bool | None:
        """Whether two formulas agree; None where too few points gave a value to both."""
        agreed = 0
        names = variables(one) | variables(other)
        for point in points(names, _has_whole(one) or _has_whole(other)):
            try:
                first, second = self.value(one, point), self.value(other, point)
            except Undefined:
                continue
            if not close(first, second):
                return False
            agreed += 1
        return True if agreed >= min(2, len(names) + 1) else None


def close(one: Value, other: Value) -> bool:
    """Equal fractions, or numbers whose relative difference is at most RELATIVE."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    try:
        first, second = complex(one), complex(other)
    except OverflowError:
        return False
    nearby = RELATIVE * max(abs(first), abs(second)) if one and other else 1e-12
    return abs(first - second) <= nearby


def points(names: frozenset[str], whole: bool) -> Iterator[Point]:
    """Where formulas in these variables are compared; the same points every time."""
    if not names:
        yield {}
        return
    draw = random.Random("+".join(sorted(names)))
    low, high, below, times = (1, 12, 1, 16) if whole else (40, 400, 127, 4)
    for _ in range(times):
        yield {name: Fraction(draw.randint(low, high), below) for name in sorted(names)}


def _has_whole(tree: Tree) -> bool:
    """Whether a formula is meant for whole numbers: n!, or (-1)^n."""
    if tree[0] in _WHOLE:
        return True
    if tree[0] == "power" and tree[1][0] == "negate":
        return bool(variables(tree[2]))
    return any(_has_whole(part) for part in tree if isinstance(part, tuple))


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator > 1:
            power = _power(base, Fraction(exponent.numerator))
            return _root(power, Fraction(exponent.denominator))
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(base) not in (0, 1) and max(abs(exponent), bits * abs(exponent) / 4) > MAX_EXPONENT:
            raise TooLarge("guard: exponent")
        return Fraction(base ** int(exponent))
    return complex(base) ** complex(exponent)


def _root(base: Value, degree: Value) -> Value:
    """The root; of a negative number with an odd degree the real one. Exact where it can be."""
    if not isinstance(degree, Fraction) or degree.denominator != 1 or degree < 1:
        return complex(base) ** (1 / complex(degree))
    n = int(degree)
    if isinstance(base, Fraction):
        if base < 0:
            return -_root(-base, degree) if n % 2 else 1j * complex(_root(-base, degree))
        top, bottom = _whole_root(base.numerator, n), _whole_root(base.denominator, n)
        if top is not None and bottom is not None:
            return Fraction(top, bottom)
        return complex(float(base) ** (1 / n))
    if base.imag == 0 and base.real < 0 and n % 2:
        return complex(-((-base.real) ** (1 / n)))
    return base ** (1 / n)


def _whole_root(number: int, degree: int) -> int | None:
    if number < 2 or degree == 1:
        return number
    if number.bit_length() > 900:
        return None
    guess = math.isqrt(number) if degree == 2 else round(float(number) ** (1 / degree))
    return next((k for k in (guess - 1, guess, guess + 1) if k**degree == number), None)


def _whole(argument: Value) -> int:
    if not isinstance(argument, Fraction) or argument.denominator != 1 or argument < 0:
        raise Undefined("factorial or binomial")
    if argument > MAX_FACTORIAL:
        raise TooLarge("guard: factorial")
    return int(argument)


def _floor(argument: Value) -> Value:
    if isinstance(argument, Fraction):
        return Fraction(math.floor(argument))
    if abs(argument.imag) > 1e-9:
        raise Undefined("floor of a complex number")
    return Fraction(math.floor(argument.real + 1e-9))


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "power": _power,
    "root": _root,
    "factorial": lambda argument: Fraction(math.factorial(_whole(argument))),
    "binomial": lambda top, bottom: Fraction(math.comb(_whole(top), _whole(bottom))),
    "floor": _floor,
    "ceiling": lambda argument: -_floor(-argument),
    "abs": abs,
    "percent": lambda argument: argument / 100,
    "degrees": lambda argument: complex(argument) * math.pi / 180,
}
