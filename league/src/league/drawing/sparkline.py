"""A series as one line of text."""

import math
from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float], width: int = 24, low: float | None = None, high: float | None = None
) -> str:
    """Return at most `width` bars, each the mean of its stretch; a blank where nothing is known.

    values: NaN where unknown. low, high: the ends of the scale, those of the values unless given.
    """
    count = min(width, len(values))
    means = []
    for i in range(count):
        part = values[i * len(values) // count : (i + 1) * len(values) // count]
        known = [value for value in part if not math.isnan(value)]
        means.append(sum(known) / len(known) if known else math.nan)
    real = [value for value in means if not math.isnan(value)]
    if not real:
        return " " * count
    least = min(real) if low is None else low
    span = (max(real) if high is None else high) - least
    return "".join(" " if math.isnan(value) else _bar(value - least, span) for value in means)


def _bar(above: float, span: float) -> str:
    if not span > 0.0:
        return _BARS[len(_BARS) // 2]
    return _BARS[min(len(_BARS) - 1, max(0, int(above / span * len(_BARS))))]
