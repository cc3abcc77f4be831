"""Compare trees by their values: exact fractions where possible, else complex numbers.

Two formulas are taken as equal when they agree at several points: positive rational points, or
small whole numbers where floors, factorials or binomials occur. Values that are not exact may
differ by a relative 1e-9; there is no absolute tolerance, so 1.6e-19 is not 2.5e-19.
"""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from evals.math.formulas.expressions import Tree
from evals.math.formulas.operations import Point, Undefined, Value, value

RELATIVE = 1e-9
ROUNDED_PLACES = 6
"""Decimals from which a rounded decimal counts as the endless number that it rounds."""
_WHOLE = {"floor", "ceiling", "factorial", "binomial"}


def variables(tree: Tree) -> frozenset[str]:
    """The names of the variables of a tree."""
    if tree[0] == "variable":
        return frozenset([str(tree[1])])
    return frozenset().union(*(variables(part) for part in tree[1:] if isinstance(part, tuple)))


def close(one: Value, other: Value) -> bool:
    """Equal fractions, or numbers whose relative difference is at most RELATIVE."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    try:
        first, second = complex(one), complex(other)
    except OverflowError:
        return False
    if 0 in (one, other):
        return abs(first - second) < 1e-12
    return abs(first - second) <= RELATIVE * max(abs(first), abs(second))


def equal(one: Tree, other: Tree) -> bool | None:
    """Whether two formulas agree; None where too few points gave a value to both."""
    agreed = 0
    names = variables(one) | variables(other)
    for point in points(names, _has_whole(one) or _has_whole(other)):
        try:
            first = value(one, point)
        except Undefined:
            continue
        try:
            second = value(other, point)
        except Undefined:
            if not names:
                return False
            continue
        if not close(first, second):
            return not names and _rounds(one, other, first, second)
        agreed += 1
    return True if agreed >= min(2, len(names) + 1) else None


def points(names: frozenset[str], whole: bool) -> Iterator[Point]:
    """Where formulas in these variables are compared; the same points every time."""
    if not names:
        yield {}
        return
    draw = random.Random("+".join(sorted(names)))
    for count in range(16 if whole else 4):
        if whole:
            yield {name: Fraction(draw.randint(1, 9) + 2 * (count % 3)) for name in sorted(names)}
        else:
            yield {name: Fraction(draw.randint(40, 400), 127) for name in sorted(names)}


def _rounds(one: Tree, other: Tree, first: Value, second: Value) -> bool:
    """Whether one side is the other, an endless number, rounded to many decimals."""
    for tree, decimal, exact in ((one, first, second), (other, second, first)):
        places = _decimals(tree)
        if places is None or places < ROUNDED_PLACES or _decimals_end(exact):
            continue
        return abs(complex(decimal) - complex(exact)) <= 0.5001 * 10.0**-places
    return False


def _decimals(tree: Tree) -> int | None:
    """Decimals of a decimal number; None for other formulas."""
    while tree[0] == "negate" and isinstance(tree[1], tuple):
        tree = tree[1]
    if tree[0] != "number" or not isinstance(tree[1], Fraction):
        return None
    places = 0
    bottom = tree[1].denominator
    while bottom > 1 and places < 40:
        bottom //= math.gcd(bottom, 10)
        places += 1
    return places


def _decimals_end(found: Value) -> bool:
    if not isinstance(found, Fraction):
        return False
    bottom = found.denominator
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    return bottom == 1


@lru_cache(maxsize=1024)
def _has_whole(tree: Tree) -> bool:
    if tree[0] in _WHOLE:
        return True
    if tree[0] == "power" and isinstance(tree[1], tuple) and tree[1][0] == "negate":
        return bool(isinstance(tree[2], tuple) and variables(tree[2]))
    return any(_has_whole(part) for part in tree[1:] if isinstance(part, tuple))
