"""The errors of means: standard errors over tasks, and 95 % intervals over seeds."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from statistics import fmean

import numpy as np
import numpy.typing as npt

from selfplay.files.rows import Maybe

Floats = npt.NDArray[np.float64]
Families = Sequence[Hashable]
"""The family of each task; tasks of one family tend to be right or wrong together."""
Z = 1.959964
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)
"""97.5 % quantiles: of Student's t with 1, 2, ... degrees of freedom, and (Z) of the normal."""


def mean_and_error(
    values: Sequence[float] | Floats, families: Families | None = None
) -> tuple[float, float] | None:
    """Return the mean and its cluster-robust standard error (Liang and Zeger 1986, Biometrika 73).

    values: NaN for what was not judged. families: None: each value is a family, and the error is
    sd / sqrt(n). None below two families.
    """
    names = range(len(values)) if families is None else families
    pairs = [(f, float(value)) for f, value in zip(names, values, strict=True) if not isnan(value)]
    sums = defaultdict[Hashable, float](float)
    centre = fmean(value for _, value in pairs) if pairs else 0.0
    for family, value in pairs:
        sums[family] += value - centre
    count = len(sums)
    if count < 2:
        return None
    return centre, sqrt(count / (count - 1) * sum(of**2 for of in sums.values())) / len(pairs)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its interval; low and high are None if it cannot be estimated."""

    value: float
    low: float | None
    high: float | None
    seeds: int


def estimate(seeds: Sequence[Floats], families: Families | None = None) -> Estimate | None:
    """Return the mean over seeds of their means over tasks; None without any number.

    seeds: an array for each seed, with a number for each task, NaN if it was not judged. A single
    seed has an interval over its tasks; families: of these. A single number, and equal numbers,
    have none.
    """
    arrays = [values for values in seeds if not np.isnan(values).all()]
    if not arrays:
        return None
    means = [float(np.nanmean(values)) for values in arrays]
    values, names = (means, None) if len(arrays) > 1 else (arrays[0].tolist(), families)
    names = names if names and len(names) == len(values) else range(len(values))
    _, error = mean_and_error(values, names) or (0.0, 0.0)
    centre = float(np.mean(means))
    if error < 1e-12:
        return Estimate(centre, None, None, len(arrays))
    judged = {name for name, value in zip(names, values, strict=True) if not isnan(value)}
    half = student_t(len(judged) - 1) * error
    return Estimate(centre, centre - half, centre + half, len(arrays))


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return _T[freedom - 1] if freedom <= len(_T) else Z * (1 + (Z**2 + 1) / (4 * freedom))


def plus_minus(gain: tuple[float, float]) -> str:
    """Return `+8.4 ± 1.8` of a mean and its standard error."""
    return f"{gain[0]:+.1f} ± {gain[1]:.1f}"


def gain_text(difference: Maybe, error: Maybe) -> str:
    """Return `+8.4 ± 1.8`, in points, of a difference of shares and its standard error."""
    if not isinstance(difference, float):
        return "–"
    after = f" ± {100 * error:.1f}" if isinstance(error, float) else ""
    return f"{100 * difference:+.1f}{after}"
