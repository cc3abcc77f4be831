"""Scores of single problems: avg@n and the unbiased pass@k.

With n graded samples of a problem, c of them right (Chen et al. 2021, arXiv:2107.03374, eq. 1):

    avg@n  = c / n                                       (the same as pass@1)
    pass@k = 1 - C(n-c, k) / C(n, k) = 1 - prod_{i=n-c+1..n} (1 - k/i)

The product neither overflows nor cancels. Both are averaged over problems elsewhere.
"""

import numpy as np
from numpy.typing import NDArray

from evals.errors import EvalsError
from evals.metrics.counts import Counts


def problem_scores(counts: Counts, k: int | None = None) -> NDArray[np.float64]:
    """avg@n of every problem, or its pass@k. Shape [problems], in [0, 1].

    Raises EvalsError for a k below 1, or above the number of graded samples of some problem: an
    estimate of pass@k from fewer than k samples does not exist.
    """
    if k is None:
        return counts.right / np.maximum(counts.graded, 1)
    if k < 1:
        raise EvalsError(f"pass@{k}: k is {k}; expected 1 or more")
    if len(counts.problems) and k > counts.least:
        problem = counts.problems[int(counts.graded.argmin())]
        raise EvalsError(
            f"pass@{k} needs {k} graded samples of every problem; {problem} has {counts.least}: "
            f"ask for k up to {counts.least}, or draw more samples"
        )
    pairs = zip(counts.graded.tolist(), counts.right.tolist(), strict=True)
    return np.array([_pass_at_k(n, c, k) for n, c in pairs], dtype=np.float64)


def _pass_at_k(n: int, c: int, k: int) -> float:
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))
