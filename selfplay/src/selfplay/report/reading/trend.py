"""What moved: the first quarter of a run against the last, and a curve behind the noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

Points = Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class Quarter:
    """Mean over steps and its spread (sample standard deviation over steps)."""

    mean: float
    spread: float | None
    steps: int


@dataclass(frozen=True, slots=True)
class Trend:
    """First and last quarter of a run.

    `verdict` is `rose`, `fell`, `no clear change` or `too few steps`; clear means that the means
    differ by more than twice the standard error of their difference (Welch: the root of
    s1^2/n1 + s2^2/n2), steps counted as independent.
    """

    first: Quarter
    last: Quarter
    verdict: str

    @property
    def change(self) -> float:
        """Last mean minus first mean."""
        return self.last.mean - self.first.mean


def trend(points: Points) -> Trend | None:
    """Compare the first quarter of the steps with the last; None without numbers in either."""
    size = max(1, len(points) // 4)
    first, last = _quarter(points[:size]), _quarter(points[-size:])
    if first is None or last is None:
        return None
    return Trend(first, last, _verdict(first, last))


def _quarter(points: Points) -> Quarter | None:
    values = [value for _, value in points if value is not None]
    if not values:
        return None
    return Quarter(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _verdict(first: Quarter, last: Quarter) -> str:
    if first.spread is None or last.spread is None:
        return "too few steps"
    error = math.sqrt(first.spread**2 / first.steps + last.spread**2 / last.steps)
    change = last.mean - first.mean
    if abs(change) <= max(2.0 * error, 1e-12):
        return "no clear change"
    return "rose" if change > 0 else "fell"


def smooth(points: Points) -> list[tuple[int, float]]:
    """Return a Gaussian-weighted running mean over the steps that have a value.

    The kernel's standard deviation is a twentieth of the run, at least one step.
    """
    known = [(step, value) for step, value in points if value is not None]
    if not known:
        return []
    width = max(1.0, (known[-1][0] - known[0][0] + 1) / 20.0)
    smoothed = []
    for i, (step, _) in enumerate(known):
        total = weight_sum = 0.0
        for direction in (range(i, -1, -1), range(i + 1, len(known))):
            for j in direction:
                distance = (known[j][0] - step) / width
                if abs(distance) > 3.0:
                    break
                weight = math.exp(-0.5 * distance * distance)
                total += weight * known[j][1]
                weight_sum += weight
        smoothed.append((step, total / weight_sum))
    return smoothed


def thin(points: Points, most: int = 300) -> list[tuple[int, float | None]]:
    """Return at most `most` points, each the mean of equally many neighbours."""
    size = math.ceil(len(points) / most)
    if size <= 1:
        return list(points)
    thinned: list[tuple[int, float | None]] = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        values = [value for _, value in part if value is not None]
        thinned.append((part[len(part) // 2][0], fmean(values) if values else None))
    return thinned
