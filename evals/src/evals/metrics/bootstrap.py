"""Means on resampled problems: the bootstrap, clustered by problem.

Samples of one problem are not independent, problems are: a replicate draws as many problems as
there are, with replacement, and takes each with all its samples (Efron and Tibshirani 1993, ch. 8;
percentile intervals, ch. 13). The same drawn problems serve every member, so that differences,
means, minima and maxima of members are taken on the same problems.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
LEVEL = 0.95
_ROWS = 256  # replicates drawn at a time, to bound the memory


def resample(
    scores: NDArray[np.float64], name: str, seed: int = 0, draws: int = DRAWS
) -> NDArray[np.float64]:
    """Means of members over resampled problems. Shape [draws, members].

    scores: [members, problems]; NaN is a problem that the member was not graded on, and is left
    out of its mean. name: what is resampled, a benchmark; with `seed` it selects the random
    stream, so that benchmarks are resampled independently and members together.
    """
    problems = scores.shape[1]
    present = ~np.isnan(scores)
    filled = np.where(present, scores, 0.0)
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    share = np.full(problems, 1.0 / problems) if problems else np.zeros(0)
    blocks = []
    for start in range(0, draws, _ROWS):
        rows = min(_ROWS, draws - start)
        weights = generator.multinomial(problems, share, size=rows).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            blocks.append((weights @ filled.T) / (weights @ present.T))
    return np.concatenate(blocks) if blocks else np.zeros((0, len(scores)))


def percentile_interval(
    replicates: NDArray[np.float64], level: float = LEVEL
) -> tuple[float, float]:
    """The middle `level` of the replicates; (NaN, NaN) when there are none."""
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def standard_error(scores: NDArray[np.float64]) -> float:
    """Of the mean over problems: s / sqrt(problems), s with n - 1. NaN below two problems.

    This is the cluster-robust error with one cluster a problem: `scores` [problems] are means
    over a problem's samples, and NaN is left out.
    """
    known = scores[~np.isnan(scores)]
    if len(known) < 2:
        return float("nan")
    return float(known.std(ddof=1) / np.sqrt(len(known)))
