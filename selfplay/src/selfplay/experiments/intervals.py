"""95 % intervals of means over seeds: Student's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Z = 1.959964
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom; Z with endless ones."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its interval; low and high are None where nothing can be said."""

    value: float
    low: float | None
    high: float | None
    seeds: int


def estimate(seeds: Sequence[npt.NDArray[np.float64]]) -> Estimate | None:
    """Return the mean over seeds of their means over tasks; None without any number.

    One array a seed, of one number a task; NaN where a task was not judged. One seed alone has an
    interval over its tasks. A number by itself and numbers that are all equal have none.
    """
    known = [judged for values in seeds if (judged := values[~np.isnan(values)]).size]
    if not known:
        return None
    means = np.array([values.mean() for values in known])
    drawn, centre = (means if len(known) > 1 else known[0]), float(means.mean())
    error = float(drawn.std(ddof=1)) / math.sqrt(drawn.size) if drawn.size > 1 else 0.0
    if error < 1e-12:
        return Estimate(centre, None, None, len(known))
    half = student_t(drawn.size - 1) * error
    return Estimate(centre, centre - half, centre + half, len(known))


def student_t(freedom: int) -> float:
    """Return the 97.5 % point of Student's t."""
    return _T[freedom - 1] if freedom <= len(_T) else Z * (1 + (Z**2 + 1) / (4 * freedom))
