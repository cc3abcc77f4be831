"""Values of formulas at points: exact fractions if possible, else complex numbers.

Two formulas are taken as equal when they agree at several points: positive rational ones, those of
both signs and several sizes where absolute values, roots, logarithms or floors occur, and whole
numbers for factorials and binomials. What is not exact is compared as floats, then at 100 digits.
"""

import cmath
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache, reduce
from typing import Any, TypeAlias

from evals.math.formulas import Tree, nodes, variables
from evals.math.notation import TooLarge

Value: TypeAlias = Fraction | complex
Point: TypeAlias = Mapping[str, Value]

RELATIVE = 1e-9
MAX_BITS = 40_000
"""Most bits of the numerator and the denominator of an exact value."""
MAX_EXPONENT = 10_000
MAX_DEGREE = 10**30
"""The largest degree of a root; higher ones are too close to 1 to be distinguished."""
MAX_FACTORIAL = 2_000
MIN_DIGITS = 400
"""Fewest digits with which two formulas are compared that agree at 100."""
MAX_WORK = 100_000
"""Most operations of one comparison; an operation on long fractions counts as several."""


class Undefined(ValueError):
    """A formula has no finite value at a point."""


_FUNCTIONS = {name: name for name in str.split("sin cos tan sinh cosh tanh exp log")}
_FUNCTIONS |= {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "ln": "log"}
_INVERSE = {"cot": "tan", "sec": "cos", "csc": "sin"}
_WHOLE = {"factorial", "binomial", "alternating"}
_FLOORS = {"floor", "ceiling"}
_SIGNED = {"abs", "root", "broken power", "ln", "log", "arcsin", "arccos", "arctan", *_FLOORS}
"""Operations that may tell positive from negative numbers."""


class Evaluator:
    """Values and equality of trees within MAX_WORK operations; then TooLarge. positive: variables
    stand for positive numbers. library: of complex functions, `cmath` or a context of mpmath."""

    def __init__(self, positive: bool = False, library: Any = cmath, work: int = MAX_WORK) -> None:
        self._positive = positive
        self._work = work
        self._price = 1 if library is cmath else 20
        self._library = library
        self._reach = 0.0
        """Bits between 1 and the largest or the smallest number so far."""
        self._cut = False
        """Whether the last value used a root, a logarithm or an arc that is not real."""

    def value(self, tree: Tree, point: Point) -> Value:
        """The value at a point. Raises Undefined or TooLarge."""
        self._cut = False
        try:
            result = self._value(tree, point)
            if isinstance(result, complex) and not cmath.isfinite(result):
                raise Undefined("not finite")
        except (ZeroDivisionError, OverflowError, ValueError, KeyError) as error:
            self._cut = True
            raise Undefined(str(error)) from None
        return result

    def _value(self, tree: Tree, point: Point) -> Value:
        kind = str(tree[0])
        if kind == "number":
            number: Fraction = tree[1]
            return number
        if kind == "variable":
            return point[str(tree[1])]
        if kind == "constant":
            constant: Value = {"pi": +self._library.pi, "e": +self._library.e, "i": 1j}[tree[1]]
            return self._inexact(constant) if tree[1] == "i" else constant
        parts = [self._value(part, point) for part in tree[1:]]
        if self._library is not cmath and any(not isinstance(part, Fraction) for part in parts):
            parts = [self._inexact(part) for part in parts] if kind in _OPERATIONS else parts
        rough = self._library is cmath or self._library.dps < MIN_DIGITS
        if kind in _FLOORS and rough and not isinstance(parts[0], Fraction):
            return Evaluator(True, _context(MIN_DIGITS), self._work).value(tree, point)
        if kind in _FUNCTIONS or kind in _INVERSE:
            result = self._function(kind, self._inexact(parts[0]))
        elif kind in ("add", "multiply"):
            apply = _OPERATIONS[kind]
            result = reduce(lambda one, other: self._count(apply(one, other)), parts)
        elif kind == "power":
            result = self._power(*parts)
        elif kind == "root":
            result = self._power(parts[0], 1 / parts[1])
        elif kind == "degrees":
            result = self._inexact(parts[0]) * self._library.pi / 180
        else:
            result = _OPERATIONS[kind](*parts)
        return self._count(result)

    def _count(self, result: Value) -> Value:
        self._work -= self._price
        if isinstance(result, Fraction):
            bits = result.numerator.bit_length() + result.denominator.bit_length()
            self._work -= bits // 128
            if bits > MAX_BITS:
                raise TooLarge("guard: digits")
            size = result.numerator.bit_length() - result.denominator.bit_length()
        elif self._library is cmath or not result:
            size = 0
        else:
            size = self._library.mag(result)
        self._reach = max(self._reach, abs(size))
        if self._work < 0:
            raise TooLarge("guard: work")
        return result

    def _inexact(self, value: Value) -> Any:
        if self._library is cmath:
            return complex(value)
        if isinstance(value, Fraction):
            return self._library.mpf(value.numerator) / value.denominator
        return self._library.convert(value)

    def _function(self, name: str, argument: Any) -> Value:
        if name in ("ln", "log", "arcsin", "arccos"):
            low, high = (0, math.inf) if name[0] == "l" else (-1, 1)
            self._cut |= argument.imag != 0 or not low <= argument.real <= high
        if name in _INVERSE:
            return 1 / self._function(_INVERSE[name], argument)
        result: Value = getattr(self._library, _FUNCTIONS[name])(argument)
        return result

    def _power(self, base: Value, exponent: Value) -> Value:
        """The power, exact if possible; an odd root of a negative number is the real one."""
        top, bottom = exponent.as_integer_ratio() if isinstance(exponent, Fraction) else (0, 0)
        if bottom in range(3, 100, 2) and base.imag == 0 and base.real < 0:
            power = self._power(-base, exponent)
            return -power if top % 2 else power
        if isinstance(base, Fraction) and bottom:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            large = abs(base) not in (0, 1) and abs(top) * max(4, bits) > 4 * MAX_EXPONENT
            if bottom > MAX_DEGREE or (bottom == 1 and large):
                raise TooLarge("guard: exponent")
            if bottom == 1:
                return Fraction(base**top)
        self._cut |= bottom != 1 and (base.imag != 0 or base.real < 0)
        result: Value = self._inexact(base) ** self._inexact(exponent)
        return result

    def equal(self, one: Tree, other: Tree) -> bool | None:
        """Return whether two formulas agree; None if both have a value at too few points. At points
        where they are not real, they may differ if both have such points."""
        if one[0] == other[0] == "number":
            return bool(one[1] == other[1])
        agreed, differ, cuts = 0, False, set[int]()
        names = sorted(variables(one, other))
        for point in self._points(one, other, names) if names else [{}]:
            try:
                first, first_cut = self.value(one, point), self._cut
                second, second_cut = self.value(other, point), self._cut
            except Undefined:
                continue
            cuts |= {place for place, cut in enumerate((first_cut, second_cut)) if cut}
            same = close(first, second, 1e-4)
            if same and not (isinstance(first, Fraction) and isinstance(second, Fraction)):
                exactly = agreed == bool(names) or not close(first, second)
                same = not exactly or self._agree(one, other, point)
            if not same and not (names and (first_cut or second_cut)):
                return False
            agreed, differ = agreed + same, differ or not same
        if differ and len(cuts) < 2:
            return False
        return True if agreed >= min(2, len(names) + 1) else None

    def _agree(self, one: Tree, other: Tree, point: Point) -> bool:
        """Whether two formulas agree at a point to 100 digits, and to so many more that the largest
        and the smallest number in them do not hide a difference.

        What rounding leaves of a difference of nothing is less the more digits there are.
        """
        gaps, reach = [], 0.0
        for digits in (100, MIN_DIGITS):
            digits += 200 * math.ceil(reach / 300)  # twice as many as in them
            if digits > MAX_EXPONENT:
                raise TooLarge("guard: digits")
            precise = Evaluator(True, _context(digits), self._work)
            try:
                values = [precise._inexact(precise.value(tree, point)) for tree in (one, other)]
            except Undefined:
                return False
            self._work, reach = precise._work, precise._reach
            gaps.append(abs(values[0] - values[1]))
        tenth = precise._library.mpf(10) ** -1
        rounding = max(map(abs, values)) * tenth ** (digits - 10)
        return bool(gaps[1] <= max(rounding, gaps[0] * tenth ** (0.8 * (digits - 100))))

    def _points(self, one: Tree, other: Tree, names: list[str]) -> Iterator[Point]:
        """The points at which two formulas are compared, always the same."""
        parts = nodes(one, other)
        kinds = set(map(_kind, parts))
        draw = random.Random("+".join(names))
        whole = bool(kinds & (_WHOLE | _FLOORS))
        low, high, below, times = (1, 12, 1, 16) if whole else (40, 400, 127, 4)
        for _ in range(times):
            positive: Point = {name: Fraction(draw.randint(low, high), below) for name in names}
            yield positive
        if self._positive or not kinds & _SIGNED:
            return
        broken = {str(node[1][1]) for node in parts if node[0] in _FLOORS and not kinds & _WHOLE}
        counts = {n for n in names if n not in broken and (kinds & _WHOLE or n[0] in "jklmnKMN")}
        reach = max((abs(node[1]) for node in parts if node[0] == "number"), default=Fraction(1))
        sizes = [Fraction(1), Fraction(9), Fraction(1, 40), 3 * max(reach, Fraction(1))]
        signed = [
            name
            for name in names
            if any(self._real(t, {**positive, name: -positive[name]}) for t in (one, other))
        ]
        for place in range(16):
            values = {}
            for number, name in enumerate(names):
                size = sizes[place // 2 % 4] * Fraction(draw.randint(40, 400), 127)
                sign = (place & 1, place >> 3, draw.randint(0, 1))[min(number, 2)]
                size = Fraction(math.ceil(size)) if name in counts and whole else size
                values[name] = -size if sign and name in signed else size
            yield values

    def _real(self, tree: Tree, point: Point) -> bool:
        with suppress(Undefined):
            self.value(tree, point)
        return not self._cut


def close(one: Value, other: Value, relative: float = RELATIVE) -> bool:
    """Return whether numbers are equal fractions, or have a small relative difference."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    try:
        first, second = complex(one), complex(other)
    except OverflowError:
        return False
    size = max(abs(first), abs(second)) if one and other else 1e-3
    return abs(first - second) <= relative * size


@cache
def _context(digits: int) -> Any:
    from mpmath import MPContext

    context = MPContext()
    context.dps = digits
    return context


def _kind(tree: Tree) -> str:
    """The operation of a tree with variables: (-1)^n is alternating, x^{1/2} a broken power."""
    kind = str(tree[0])
    if kind == "power":
        exponent = tree[2][1] if tree[2][0] == "negate" else tree[2]
        plain = exponent[0] == "number" and exponent[1].denominator == 1
        alternating = tree[1][0] == "negate" and variables(tree[2])
        kind = "alternating" if alternating else "power" if plain else "broken power"
    return kind if kind not in _SIGNED or variables(tree[1]) else ""


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
    real = argument.real + 1e-200
    return Fraction(int(real - real % 1))


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "factorial": lambda argument: Fraction(math.factorial(_whole(argument))),
    "binomial": lambda top, bottom: Fraction(math.comb(_whole(top), _whole(bottom))),
    "floor": _floor,
    "ceiling": lambda argument: -_floor(-argument),
    "abs": abs,
    "percent": lambda argument: argument / 100,
}
