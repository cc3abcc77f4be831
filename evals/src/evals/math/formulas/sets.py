"""Points taken out of an interval, and out of the real line."""

import re
from itertools import pairwise

from evals.math.formulas.expressions import read
from evals.math.formulas.notation import split
from evals.math.formulas.operations import Undefined, value
from evals.math.formulas.tokens import Unreadable

_REALS = re.compile(r"(?:\\text\{\s*)?(?:\\mathbb\s*\{?\s*R\s*\}?|all real numbers)\s*\}?")
_WITHOUT = re.compile(
    r"\\setminus|\\backslash|\\text\{\s*,?\s*(?:except|excluding|but not)(?:\s+for)?\s*\}"
)
_INTERVAL = re.compile(r"\s*([(\[])(.+)([)\]])\s*")


def pieces(text: str) -> str:
    """`(0,9) \\setminus \\{4\\}` as the union `(0,4) \\cup (4,9)`; other texts as they are."""
    parts = split(_WITHOUT.sub(r"\\setminus", text), ("\\setminus",))
    if _REALS.fullmatch(parts[0]):
        parts[0] = "(-\\infty,\\infty)"
    elif len(parts) == 1:
        return text
    interval = _INTERVAL.fullmatch(parts[0])
    if interval is None or len(parts) > 2:
        return text
    left, inside, right = interval.groups()
    hole = _INTERVAL.fullmatch(parts[1]) if len(parts) == 2 else None
    ends = split(inside, (",",))
    if hole is not None and len(ends) == 2:
        out, holed, back = hole.groups()
        low, high = [*split(holed, (",",)), ""][:2]
        first, second = ")" if out == "[" else "]", "(" if back == "]" else "["
        return f"{left}{ends[0]},{low}{first} \\cup {second}{high},{ends[1]}{right}"
    taken = split(re.sub(r"^\\\{|\\\}$", "", parts[1]), (",",)) if len(parts) == 2 else []
    try:
        taken = sorted(taken, key=lambda point: complex(value(read(point), {})).real)
    except (Unreadable, Undefined):
        return text
    if len(ends) != 2:
        return text
    points = [ends[0], *taken, ends[1]]
    spans = (f"({low},{high})" for low, high in pairwise(points))
    union = " \\cup ".join(spans)
    return left + union[1:-1] + right
