"""The same amount in another unit: 90 degrees are pi/2 radians, and 2 hours 120 minutes."""

import re
from fractions import Fraction

from evals.math.formulas.expressions import Tree
from evals.math.formulas.units import canonical_unit

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

_COMPOUND = re.compile(
    r"\s*(\d{1,6})\s*([a-z]+)[\s,]*(?:and\s)?\s*(\d{1,6}(?:\.\d{1,6})?)\s*([a-z]+)\s*"
)


def compound(text: str) -> tuple[str, ...]:
    """2 hours and 40 minutes as 160 minutes and 8/3 hours; nothing for other texts."""
    found = _COMPOUND.fullmatch(re.sub(r"\\text|[{}]", " ", text))
    if found is None:
        return ()
    (kind, large), (other, small) = map(_size, found.group(2, 4))
    if not kind or kind != other or large <= small:
        return ()
    total = Fraction(found.group(1)) * large + Fraction(found.group(3)) * small
    amounts = ((total / small, found.group(4)), (total / large, found.group(2)))
    return tuple(
        rf"\frac{{{amount.numerator}}}{{{amount.denominator}}}\text{{ {unit}}}"
        for amount, unit in amounts
    )


def _size(unit: str) -> tuple[str, Fraction]:
    name = canonical_unit(unit)
    sizes = ((kind, sizes[name]) for kind, sizes in _MEASURES.items() if name in sizes)
    kind, size = next(sizes, ("", "0"))
    return kind, Fraction(size)


def converted(tree: Tree, unit: str, wanted: str) -> Tree | None:
    """A value in another unit; None where the two do not measure the same."""
    (kind, size), (wanted_kind, wanted_size) = map(_measured, (unit, wanted))
    if not kind or kind != wanted_kind:
        return None
    return ("divide", ("multiply", tree, size), wanted_size)


def _measured(unit: str) -> tuple[str, Tree]:
    """What a unit measures, and its size; an area or a volume of a length: cm^2."""
    name, _, power = unit.partition("^")
    kind, size = _SIZES.get(name, ("", _ONE))
    if not power:
        return kind, size
    if kind not in ("metre", "foot"):
        return "", _ONE
    return f"{kind}^{power}", ("power", size, ("number", Fraction(power)))


def has_pi(tree: Tree) -> bool:
    """Whether pi is in a value: an angle so written is in radians."""
    return "pi" in tree or any(has_pi(part) for part in tree if isinstance(part, tuple))
