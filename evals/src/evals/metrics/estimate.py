"""A number with its error, and the score of one member on one benchmark."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.errors import EvalsError
from evals.metrics.bootstrap import LEVEL, percentile_interval, resample, standard_error
from evals.metrics.counts import Verdicts, count
from evals.metrics.pass_at_k import problem_scores
from evals.metrics.wilson import wilson


@dataclass(frozen=True)
class Estimate:
    """A mean over problems, with what is known of its error.

    low, high: 95 % interval. interval: how it was made, in words. problems: how many entered.
    ungraded: samples, and unjudged: problems, that had no verdict and did not enter. An error or
    a bound is NaN where the data allow none.
    """

    value: float
    standard_error: float
    low: float
    high: float
    interval: str
    problems: int
    ungraded: int = 0
    unjudged: int = 0

    def to_dict(self) -> dict[str, float | int | str | None]:
        """For JSON: NaN becomes None."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in vars(self).items()
        }


def estimate(verdicts: Verdicts, k: int | None = None, seed: int = 0) -> Estimate:
    """avg@n of one member on one benchmark, or pass@k, with a bootstrap over problems.

    Raises EvalsError when nothing was graded, or for a k that `problem_scores` refuses.
    """
    counts = count(verdicts)
    scores = problem_scores(counts, k)
    if not len(scores):
        raise EvalsError(f"none of {len(verdicts)} problems has a graded sample; grade some first")
    return describe(
        float(scores.mean()),
        resample(scores[None, :], "", seed)[:, 0],
        standard_error(scores),
        problems=len(scores),
        trials=len(scores),
        ungraded=counts.ungraded,
        unjudged=len(counts.unjudged),
    )


def describe(
    value: float,
    replicates: NDArray[np.float64],
    error: float | None = None,
    *,
    problems: int,
    ungraded: int = 0,
    unjudged: int = 0,
    trials: int | None = None,
) -> Estimate:
    """An estimate from its value and its bootstrap replicates [draws].

    error: the standard error where there is a formula; else that of the replicates. trials: of a
    share of right answers, else None. Where all problems agree (all right or all wrong) the
    bootstrap has no spread; a share then gets the Wilson interval of so many trials.
    """
    low, high = percentile_interval(replicates)
    how = f"{LEVEL:.0%} bootstrap over problems"
    if trials and low == high and value in (0.0, 1.0):
        low, high = wilson(value, trials)
        how = f"{LEVEL:.0%} Wilson, problems as trials"
    if error is None:
        error = float(np.nanstd(replicates, ddof=1)) if len(replicates) > 1 else float("nan")
    return Estimate(value, error, low, high, how, problems, ungraded, unjudged)
