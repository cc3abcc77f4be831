"""Intervals over seeds and tasks, and trends within a run.

Intervals are a hierarchical bootstrap, the same for equal numbers. A draw takes seeds with
replacement, and within each drawn seed its tasks with replacement; the interval runs from the 2.5th
to the 97.5th percentile of the draws. A bootstrap of n clusters is too narrow by the factor
sqrt(n / (n - 1)) t / z (Hesterberg 2015, The American Statistician 69, section 4.3.2): the
deviations of the drawn seeds are stretched by it, and those of the drawn tasks are not. So five
seeds carry a 95 % interval, and two carry a very wide one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Points = Sequence[tuple[int, float | None]]
"""A value, or none, by step."""
DRAWS = 4_000
LEVEL = 0.95
_Z = 1.959964
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its interval; low and high are None where nothing can be said."""

    value: float
    low: float | None
    high: float | None
    seeds: int

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate in another unit."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Estimate(self.value * factor, low, high, self.seeds)

    def as_share(self) -> "Estimate":
        """Return the estimate of a share, whose interval ends at 0 and 1."""
        low, high = (
            None if end is None else min(max(end, 0.0), 1.0) for end in (self.low, self.high)
        )
        return Estimate(self.value, low, high, self.seeds)


def estimate(seeds: Sequence[Floats]) -> Estimate | None:
    """Return the mean over seeds of their means over tasks; None without any number.

    One array a seed, of one number a task; NaN where a task was not judged. A single number a seed
    is an array of length one. One seed alone has an interval over its tasks only.
    """
    known = [values[~np.isnan(values)] for values in seeds]
    known = [values for values in known if values.size]
    if not known:
        return None
    means = np.array([values.mean() for values in known])
    centre = float(means.mean())
    count = len(known)
    if count == 1 and known[0].size == 1:
        return Estimate(centre, None, None, 1)
    drawn = _drawn_seeds(count)
    between = (means[drawn].mean(axis=1) - centre) * stretch(count)
    # [draws, places]: how far the drawn tasks of the seed at each place are from its mean.
    within = np.zeros(drawn.shape)
    for seed, values in enumerate(known):
        if values.size > 1:
            deviations = _weights(values.size, count) @ (values - values.mean()).astype(np.float32)
            within += np.where(drawn == seed, deviations, 0.0)
    draws = centre + between + within.mean(axis=1)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(centre, float(low), float(high), count)


def stretch(seeds: int) -> float:
    """Return by what a bootstrap of so many seeds is too narrow."""
    if seeds < 2:
        return 1.0
    t = _T[seeds - 2] if seeds - 2 < len(_T) else _Z * (1 + (_Z**2 + 1) / (4 * (seeds - 1)))
    return math.sqrt(seeds / (seeds - 1)) * t / _Z


@lru_cache(maxsize=32)
def _drawn_seeds(count: int) -> npt.NDArray[np.int64]:
    """Return [draws, count] indices of seeds."""
    return np.random.default_rng([count, 1]).integers(count, size=(DRAWS, count))


@lru_cache(maxsize=8)
def _weights(tasks: int, places: int) -> npt.NDArray[np.float32]:
    """Return [draws, places, tasks] shares of tasks drawn with replacement."""
    rng = np.random.default_rng([tasks, places, 2])
    size = DRAWS * places
    drawn = rng.integers(tasks, size=(size, tasks)) + tasks * np.arange(size)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=size * tasks)
    return (counts / tasks).astype(np.float32).reshape(DRAWS, places, tasks)


class Quarter(NamedTuple):
    """Mean over steps and its spread (sample standard deviation over steps)."""

    mean: float
    spread: float | None
    steps: int


class Trend(NamedTuple):
    """First and last quarter of a run.

    `verdict` is `rose`, `fell`, `no clear change` or `too few steps`; clear means that the means
    differ by more than twice the standard error of their difference (Welch: the root of
    s1^2/n1 + s2^2/n2), steps counted as independent.
    """

    first: Quarter
    last: Quarter
    verdict: str


def trend(points: Points) -> Trend | None:
    """Compare the first quarter of the steps with the last; None without numbers in either."""
    size = max(1, len(points) // 4)
    quarters = []
    for part in (points[:size], points[-size:]):
        values = [value for _, value in part if value is not None]
        if not values:
            return None
        spread = stdev(values) if len(values) > 1 else None
        quarters.append(Quarter(fmean(values), spread, len(values)))
    first, last = quarters
    if first.spread is None or last.spread is None:
        return Trend(first, last, "too few steps")
    error = math.sqrt(first.spread**2 / first.steps + last.spread**2 / last.steps)
    change = last.mean - first.mean
    if abs(change) <= max(2.0 * error, 1e-12):
        return Trend(first, last, "no clear change")
    return Trend(first, last, "rose" if change > 0 else "fell")


def smooth(points: Points) -> list[tuple[int, float]]:
    """Return a Gaussian-weighted running mean over the steps that have a value.

    The kernel's standard deviation is a twentieth of the run, at least one step.
    """
    known = [(step, value) for step, value in points if value is not None]
    if not known:
        return []
    steps, values = np.array(known, float).T
    distances = (steps[:, None] - steps) / max(1.0, (steps[-1] - steps[0] + 1) / 20)
    weights = np.where(abs(distances) <= 3, np.exp(-0.5 * distances**2), 0.0)
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return [(step, float(mean)) for (step, _), mean in zip(known, means, strict=True)]


def thin(points: Points, most: int = 300) -> list[tuple[int, float | None]]:
    """Return at most `most` points, each the mean of equally many neighbours."""
    size = max(1, math.ceil(len(points) / most))
    thinned: list[tuple[int, float | None]] = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        values = [value for _, value in part if value is not None]
        thinned.append((part[len(part) // 2][0], fmean(values) if values else None))
    return thinned
