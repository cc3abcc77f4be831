"""Two members on the same problems."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from evals.errors import EvalsError
from evals.metrics.bootstrap import percentile_interval, resample, standard_error
from evals.metrics.counts import Counts, Verdicts, count
from evals.metrics.pass_at_k import problem_scores


@dataclass(frozen=True)
class Comparison:
    """First minus second, over the problems that both were graded on.

    low, high: 95 % bootstrap interval over problems. wins, losses, ties: problems on which the
    first scored more, less, the same. test: `mcnemar` with one sample a problem (then wins and
    losses are the discordant pairs of the exact test), else `sign`; p_value is two-sided. alone:
    problems that only one of the two was graded on, left out.
    """

    difference: float
    standard_error: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int
    test: str
    p_value: float
    problems: int
    alone: int

    def to_dict(self) -> dict[str, float | int | str | None]:
        """For JSON: NaN becomes None."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }


def compare(first: Verdicts, second: Verdicts, k: int | None = None, seed: int = 0) -> Comparison:
    """Compare avg@n, or pass@k, of two members problem by problem.

    Pairing takes the difficulty of the problems out of the error. Raises EvalsError when no
    problem was graded for both, or for a k that `problem_scores` refuses.
    """
    counts = count(first), count(second)
    left, right = (_by_problem(found, k) for found in counts)
    shared = [problem for problem in left if problem in right]
    if not shared:
        raise EvalsError(
            f"no problem was graded for both: {len(left)} for the first, {len(right)} for the "
            "second; compare two results on one benchmark"
        )
    differences = np.array([left[problem] - right[problem] for problem in shared])
    low, high = percentile_interval(resample(differences[None, :], "", seed)[:, 0])
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    single = all(int(found.graded.max(initial=1)) == 1 for found in counts)
    return Comparison(
        difference=float(differences.mean()),
        standard_error=standard_error(differences),
        low=low,
        high=high,
        wins=wins,
        losses=losses,
        ties=len(shared) - wins - losses,
        test="mcnemar" if single else "sign",
        p_value=sign_test(wins, losses),
        problems=len(shared),
        alone=len(left) + len(right) - 2 * len(shared),
    )


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact p-value of the sign test, ties left out; 1.0 when nothing differs.

    min(1, 2 P(X <= min(wins, losses))) with X ~ Binomial(wins + losses, 1/2). On discordant pairs
    of single samples it is the exact McNemar test.
    """
    trials = wins + losses
    tail = sum(math.comb(trials, i) for i in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / (1 << trials))


def _by_problem(counts: Counts, k: int | None) -> dict[str, float]:
    return dict(zip(counts.problems, problem_scores(counts, k).tolist(), strict=True))
