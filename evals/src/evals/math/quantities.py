"""The same amount of money, time or angle in another unit: 90 degrees are pi/2 radians.

Lengths are left out: the power of a unit is not read, and 1 m is 100 cm, but 1 m^2 is not 100 cm^2.
"""

from fractions import Fraction

from evals.math.formulas.expressions import Tree

_ONE: Tree = ("number", Fraction(1))
_SIZES: dict[str, tuple[str, Tree]] = {
    "cent": ("money", _ONE),
    "dollar": ("money", ("number", Fraction(100))),
    "s": ("time", _ONE),
    "min": ("time", ("number", Fraction(60))),
    "h": ("time", ("number", Fraction(3600))),
    "day": ("time", ("number", Fraction(86400))),
    "radian": ("angle", _ONE),
    "degree": ("angle", ("degrees", _ONE)),
}
"""Unit -> what it measures, and its size in the smallest unit of that."""


def converted(tree: Tree, unit: str, wanted: str) -> Tree | None:
    """A value in another unit; None where the two do not measure the same."""
    kind, size = _SIZES.get(unit, ("", _ONE))
    wanted_kind, wanted_size = _SIZES.get(wanted, ("", _ONE))
    if not kind or kind != wanted_kind:
        return None
    return ("divide", ("multiply", tree, size), wanted_size)


def has_pi(tree: Tree) -> bool:
    """Whether pi is in a value: an angle so written is in radians."""
    return "pi" in tree or any(has_pi(part) for part in tree if isinstance(part, tuple))
