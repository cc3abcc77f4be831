"""Quantiles of metrics over a set of programs, and over the steps of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from code_verifier.metrics.measurement import NUMBERS, Metrics

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Window:
    """Programs of some neighbouring steps."""

    first_step: float
    last_step: float
    programs: int
    distinct: int
    """Different structures among them."""
    bands: dict[str, tuple[float, float, float]]
    """For every number of Metrics its 5 %, 50 % and 95 % quantiles."""


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of sorted values, interpolated linearly (type 7 of Hyndman and Fan 1996)."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def summarise(metrics: Sequence[Metrics]) -> dict[str, dict[str, float]]:
    """For every number of Metrics: mean and quantiles, named `mean`, `p0` to `p100`."""
    table: dict[str, dict[str, float]] = {}
    for name in NUMBERS if metrics else ():
        values = sorted(float(getattr(item, name)) for item in metrics)
        table[name] = {"mean": sum(values) / len(values)}
        table[name] |= {f"p{round(100 * q)}": quantile(values, q) for q in QUANTILES}
    return table


def windows(
    metrics: Sequence[Metrics], steps: Sequence[float], most: int = 40
) -> tuple[Window, ...]:
    """The programs gathered by step: one window a step, or `most` of about as many steps each."""
    order = sorted({*steps})
    number = min(most, len(order))
    place = {step: index * number // len(order) for index, step in enumerate(order)}
    groups: list[list[int]] = [[] for _ in range(number)]
    for index, step in enumerate(steps):
        groups[place[step]].append(index)
    found = []
    for group in groups:
        bands: dict[str, tuple[float, float, float]] = {}
        for name in NUMBERS:
            values = sorted(float(getattr(metrics[i], name)) for i in group)
            bands[name] = (quantile(values, 0.05), quantile(values, 0.5), quantile(values, 0.95))
        distinct = len({metrics[i].structure for i in group})
        first, last = min(steps[i] for i in group), max(steps[i] for i in group)
        found.append(Window(first, last, len(group), distinct, bands))
    return tuple(found)
