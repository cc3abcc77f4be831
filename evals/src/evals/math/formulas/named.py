"""Answers that name their values: x = 2, y = 4, or (x, y) = (2, 4), or a = 3, b = 4, a + b = 7."""

import re

from evals.math.formulas.forms import Bracketed, Form, Listing, Relation, Scalar, shape
from evals.math.formulas.relations import is_name


def named_point(answer: Form) -> Bracketed | None:
    """The point that (x, y) = (2, 4) says, for values that are asked for one by one."""
    if not isinstance(answer, Relation) or answer.signs != ("=",):
        return None
    names, values = map(shape, answer.sides)
    if not isinstance(names, Bracketed) or not isinstance(values, Bracketed):
        return None
    letters = [item.text for item in names.items if isinstance(item, Scalar)]
    return values if len(letters) == len(values.items) and all(map(is_name, letters)) else None


def unnamed(listing: Listing) -> bool:
    """Whether a list holds nothing but values."""
    return all(isinstance(item, Scalar) for item in listing.items)


def extremes(answer: Form) -> bool:
    """Whether values are called maximum and minimum, which says nothing about their order."""
    items = answer.items if isinstance(answer, Listing) else ()
    names = [item.sides[0] for item in items if isinstance(item, Relation)]
    return any("max" in name for name in names) and any("min" in name for name in names)


def point(listing: Listing) -> Bracketed | None:
    """The point (2, 4) that x=2, y=4 says."""
    items = [
        item
        for item in listing.items
        if isinstance(item, Relation) and item.signs in (("=",), ("\\approx",))
    ]
    names = {item.sides[0] for item in items}
    if len(items) < max(2, len(listing.items)) or len(names) < len(items):
        return None
    if not all(map(is_name, names)):
        return None
    return Bracketed("(", ")", tuple(shape(item.sides[1]) for item in items))


def points(listing: Listing) -> Listing | None:
    """The points (0, 1) and (1, 0) that x=0, y=1 or x=1, y=0 says."""
    items = [i for i in listing.items if isinstance(i, Relation) and i.signs == ("=",)]
    names, values = [i.sides[0] for i in items], [shape(i.sides[1]) for i in items]
    width = len(set(names))
    times = len(names) // max(1, width)
    if len(items) < len(listing.items) or min(width, times) < 2 or names != names[:width] * times:
        return None
    if not all(map(is_name, names)):
        return None
    starts = range(0, len(values), width)
    return Listing(tuple(Bracketed("(", ")", tuple(values[i : i + width])) for i in starts))


def derived(listing: Listing) -> Form | None:
    """The last of a = 3, b = 4, a + b = 7: what is computed from the values before it."""
    items = [item for item in listing.items if isinstance(item, Relation) and "=" in item.signs]
    names = [item.sides[0] for item in items[:-1]]
    if not names or len(items) < len(listing.items) or not all(map(is_name, names)):
        return None
    last = items[-1].sides[0]
    bare = re.sub(r"\\cdot|[-+*/^\s\d(){}]", "", last)
    return items[-1] if not is_name(last) and set(bare) == set("".join(names)) else None
