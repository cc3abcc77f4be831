"""95 % intervals of counts such as 3 of 10: Clopper and Pearson's.

Theirs (1934, Biometrika 26) holds its coverage for every true share, and has a width at none and at
all, too. Members of one run are not independent: their number is divided by the design effect (Korn
and Graubard 1998, Survey Methodology 24).
"""

import math
from collections.abc import Sequence
from functools import cache

from selfplay.files.intervals import student_t


def share_interval(runs: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return the interval of a share over runs, each with what it counted and of how many.

    What counts as independent is between the runs and all their members, by how much runs differ;
    where all are alike that cannot be told, and each run counts once.
    """
    clusters, total = len(runs), sum(of for _, of in runs)
    share = sum(count for count, _ in runs) / total
    deviations = sum((count - share * of) ** 2 for count, of in runs)
    independent = float(clusters)
    if clusters > 1 and deviations > 0.0:
        variance = deviations * clusters / (clusters - 1) / total**2
        narrower = student_t(max(1, total - 1)) / student_t(clusters - 1)
        independent = min(max(share * (1 - share) / variance * narrower**2, clusters), total)
    return clopper_pearson(share * independent, independent)


@cache
def clopper_pearson(count: float, of: float) -> tuple[float, float]:
    """Return the interval of a share of which `count` were seen; neither need be whole."""
    low = _quantile(0.025, count, of - count + 1) if count > 0 else 0.0
    return low, _quantile(0.975, count + 1, of - count) if count < of else 1.0


def _quantile(part: float, a: float, b: float) -> float:
    """Return where a beta distribution has this part below it, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta_below(middle, a, b) < part else (low, middle)
    return (low + high) / 2


def _beta_below(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function (NIST DLMF 8.17.22)."""
    if x <= 0.0:
        return 0.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_below(1 - x, b, a)
    value = 1.0
    for n in range(400, 0, -1):  # terms: enough for a million counted
        m = n // 2
        term = -(a + m) * (a + b + m) / (a + 2 * m + 1) if n % 2 else m * (b - m) / (a + 2 * m - 1)
        value = 1 + term * x / (a + 2 * m) / value
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(logs + a * math.log(x) + b * math.log1p(-x)) / (a * value)
