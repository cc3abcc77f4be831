"""The same amount in another unit: 90 degrees are pi/2 radians, and 2 hours 120 minutes.

Areas and volumes are not converted.
"""

from fractions import Fraction

from evals.math.formulas.expressions import Tree

_ONE: Tree = ("number", Fraction(1))
_MEASURES: dict[str, dict[str, str]] = {
    "money": {"cent": "1", "dollar": "100"},
    "time": {"s": "1", "min": "60", "h": "3600", "day": "86400", "week": "604800"},
    "calendar": {"month": "1", "year": "12"},
    "metre": {"angstrom": "1e-7", "nm": "1e-6", "mm": "1", "cm": "10", "m": "1e3", "km": "1e6"},
    "foot": {"in": "1", "ft": "12", "yd": "36", "mi": "63360"},
    "energy": {"j": "1", "kj": "1e3"},
    "mass": {"g": "1", "kg": "1e3"},
}
_SIZES: dict[str, tuple[str, Tree]] = {
    "radian": ("angle", _ONE),
    "degree": ("angle", ("degrees", _ONE)),
} | {
    unit: (kind, ("number", Fraction(size)))
    for kind, sizes in _MEASURES.items()
    for unit, size in sizes.items()
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
