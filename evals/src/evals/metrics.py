"""Scores of adapters over problems, each with the one kind of interval that this package has.

With n graded samples of a problem, c of them right (Chen et al. 2021, arXiv:2107.03374, eq. 1):

    avg@n  = c / n                                       (the same as pass@1)
    pass@k = 1 - C(n-c, k) / C(n, k) = 1 - prod_{i=n-c+1..n} (1 - k/i)

Both are averaged over problems. Where every problem is right or wrong, as with one sample each, the
interval is Wilson's (1927, JASA 22). Others are percentiles of a Bayesian bootstrap over problems
(Rubin 1981, Annals of Statistics 9), each taken with all its samples, with half a problem more at
either end of the scale: so problems that all went the same way still leave a width. The same
weights serve every member: differences and means are taken on the same problems.
"""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evals.errors import EvalsError
from evals.recipes import CODE, MATH

if TYPE_CHECKING:  # Loaded by what calculates: a command's help does without.
    import numpy as np
    from numpy.typing import NDArray

Verdicts: TypeAlias = Mapping[str, Sequence[bool | None]]
"""Problem id -> verdicts on its samples; None is a sample that could not be graded."""
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"

DRAWS = 2000
Z = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its 95 % interval. problems: how many entered.

    low, high: None for a weakest or best, which its own score chose. ungraded: samples that had no
    verdict and did not enter.
    """

    value: float
    low: float | None
    high: float | None
    problems: int
    ungraded: int = 0

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where there are none."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class Comparison:
    """First minus second, over the problems that both were graded on, with its 95 % interval.

    wins, losses, ties: problems on which the first scored more, less, the same.
    """

    difference: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int
    problems: int


@dataclass(frozen=True)
class Column:
    """Members on one benchmark, or on an average of some, in the order of `members`.

    values: [members]; replicates: [draws, members], means on resampled problems. all_or_none: per
    member, whether each problem is right or wrong. problems, ungraded: per member, problems that
    entered and samples without a verdict. uneven: not all members were graded on the same problems.
    """

    members: tuple[str, ...]
    values: Floats
    replicates: Floats
    all_or_none: "NDArray[np.bool_]"
    problems: Ints
    ungraded: Ints
    uneven: bool

    def estimate(self, member: str) -> Estimate | None:
        """Return the score of one member; None when it is not here."""
        if member not in self.members:
            return None
        at = self.members.index(member)
        value, problems = float(self.values[at]), int(self.problems[at])
        if self.all_or_none[at]:
            ends = wilson(value, problems)
        else:
            ends = percentiles(self.replicates[:, at], value)
        return Estimate(value, *ends, problems, int(self.ungraded[at]))


def problem_scores(verdicts: Verdicts, k: int | None = None) -> dict[str, float]:
    """Return avg@n, or pass@k, of every problem that has a graded sample.

    Raises EvalsError for a k below 1, or above the number of graded samples of some problem: an
    estimate of pass@k from fewer than k samples does not exist.
    """
    import numpy as np

    scores = {}
    for problem, samples in verdicts.items():
        known = [bool(verdict) for verdict in samples if verdict is not None]
        if not known:
            continue
        n, right = len(known), sum(known)
        if k is None:
            scores[problem] = right / n
        elif not 1 <= k <= n:
            raise EvalsError(
                f"pass@{k} needs a k from 1 to the graded samples of every problem; {problem} has "
                f"{n}"
            )
        elif n - right < k:
            scores[problem] = 1.0
        else:
            scores[problem] = float(1.0 - np.prod(1.0 - k / np.arange(n - right + 1, n + 1)))
    return scores


def resample(scores: Floats, name: str, ends: tuple[float, float] = (0.0, 1.0)) -> Floats:
    """Return the means of members over reweighted problems. Shape [DRAWS, members].

    scores: [members, problems]; NaN is a problem that the member was not graded on, and is left
    out of its mean. name: what is resampled, a benchmark; it selects the random stream, so that
    benchmarks are resampled independently and members together. ends: of the scale of the scores.
    """
    import numpy as np

    generator = np.random.default_rng([0, zlib.crc32(name.encode())])
    weights = generator.standard_exponential((DRAWS, scores.shape[1]))
    halves = generator.standard_gamma(0.5, (DRAWS, 2))
    total = weights @ ~np.isnan(scores).T + halves.sum(axis=1, keepdims=True)
    means: Floats = (weights @ np.nan_to_num(scores).T + (halves @ ends)[:, None]) / total
    return means


def percentiles(replicates: Floats, value: float) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of replicates [draws], and of the value itself."""
    import numpy as np

    low, high = np.quantile(replicates, [0.025, 0.975])
    return min(float(low), value), max(float(high), value)


def wilson(share: float, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of so many."""
    middle = (share + Z**2 / (2 * of)) / (1 + Z**2 / of)
    half = Z * math.sqrt(share * (1 - share) / of + (Z / (2 * of)) ** 2) / (1 + Z**2 / of)
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def estimate(verdicts: Verdicts, benchmark: str = "", k: int | None = None) -> Estimate:
    """Return avg@n of one member on one benchmark, or pass@k, with its interval.

    Raises EvalsError when nothing was graded, or for a k that `problem_scores` refuses.

        >>> found = estimate({"q1": [True, True], "q2": [True, False], "q3": [False, None]})
        >>> found.value, found.problems, found.ungraded
        (0.5, 3, 1)
        >>> estimate({"q1": [True, True], "q2": [True, False]}, k=2).value
        1.0
    """
    column = score_members({"": verdicts}, benchmark, k)
    score = column.estimate("") if column is not None else None
    if score is None:
        raise EvalsError(f"{benchmark}: no sample has a verdict; grade some first")
    return score


def compare(first: Verdicts, second: Verdicts, k: int | None = None) -> Comparison:
    """Compare avg@n, or pass@k, of two members problem by problem.

    Pairing takes the difficulty of the problems out of the error. Raises EvalsError when no
    problem was graded for both, or for a k that `problem_scores` refuses.

        >>> base, member = {"q1": [True], "q2": [False]}, {"q1": [True], "q2": [True]}
        >>> found = compare(member, base)
        >>> found.difference, found.wins, found.losses, found.ties
        (0.5, 1, 0, 1)
    """
    import numpy as np

    left, right = problem_scores(first, k), problem_scores(second, k)
    shared = [problem for problem in left if problem in right]
    if not shared:
        raise EvalsError(
            f"no problem was graded for both: {len(left)} for the first, {len(right)} for the "
            "second; compare two results on one benchmark"
        )
    differences = np.array([left[problem] - right[problem] for problem in shared])
    difference = float(differences.mean())
    low, high = percentiles(resample(differences[None, :], "", (-1.0, 1.0))[:, 0], difference)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return Comparison(
        difference=difference,
        low=low,
        high=high,
        wins=wins,
        losses=losses,
        ties=len(shared) - wins - losses,
        problems=len(shared),
    )


def score_members(
    verdicts: Mapping[str, Verdicts], benchmark: str, k: int | None = None
) -> Column | None:
    """Score members (name -> verdicts) on one benchmark by avg@n or pass@k.

    A member without any graded sample is left out; None when none is left. Raises EvalsError for a
    k that `problem_scores` refuses, naming the member.
    """
    import numpy as np

    scores: dict[str, dict[str, float]] = {}
    for name, samples in verdicts.items():
        try:
            if by_problem := problem_scores(samples, k):
                scores[name] = by_problem
        except EvalsError as error:
            raise EvalsError(f"{name} on {benchmark}: {error}") from None
    if not scores:
        return None
    problems = dict.fromkeys(problem for row in scores.values() for problem in row)
    table = np.array(
        [[row.get(problem, np.nan) for problem in problems] for row in scores.values()]
    )
    lost = [
        sum(v is None for samples in verdicts[name].values() for v in samples) for name in scores
    ]
    return Column(
        members=tuple(scores),
        values=np.nanmean(table, axis=1),
        replicates=resample(table, benchmark),
        all_or_none=(np.isnan(table) | (table == 0) | (table == 1)).all(axis=1),
        problems=(~np.isnan(table)).sum(axis=1),
        ungraded=np.array(lost),
        uneven=bool(np.isnan(table).any()),
    )


def average(columns: Sequence[Column]) -> Column | None:
    """Return the plain mean over benchmarks, for the members that all of them have.

    Benchmarks share no problems, so replicate i of the mean is the mean of their replicates i.
    None when no member is in all columns, or there is no column.
    """
    import numpy as np

    some = columns[0].members if columns else ()
    names = [name for name in some if all(name in column.members for column in columns)]
    if not names:
        return None
    taken = [(column, [column.members.index(name) for name in names]) for column in columns]
    return Column(
        members=tuple(names),
        values=np.mean([column.values[at] for column, at in taken], axis=0),
        replicates=np.mean([column.replicates[:, at] for column, at in taken], axis=0),
        all_or_none=np.zeros(len(names), bool),
        problems=np.sum([column.problems[at] for column, at in taken], axis=0),
        ungraded=np.sum([column.ungraded[at] for column, at in taken], axis=0),
        uneven=any(column.uneven for column in columns),
    )


def aggregates(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return `code`, `math` and `total` of the benchmarks that there are.

    As in table 1 of Absolute Zero (arXiv:2505.03335), which PopuLoRA's follow: the averages are
    plain means over benchmarks, and the total, which needs both, is the mean of the two averages.
    """
    code = average([columns[name] for name in CODE if name in columns])
    math_ = average([columns[name] for name in MATH if name in columns])
    total = average([code, math_]) if code and math_ else None
    averages = {"code": code, "math": math_, "total": total}
    return {name: column for name, column in averages.items() if column is not None}


def population(column: Column, members: Collection[str]) -> dict[str, tuple[Estimate, str | None]]:
    """Return `mean`, `weakest` and `best` of members, the last two with the member's name.

    The mean's interval resamples problems, not members. The weakest and the best have none: chosen
    by the scores that they show, they look worse and better than they are. Empty when none of the
    members was graded.
    """
    at = [place for place, name in enumerate(column.members) if name in members]
    if not at:
        return {}
    names, values = column.members, column.values[at]
    counts = int(column.problems[at].min()), int(column.ungraded[at].sum())
    mean = float(values.mean())
    ends = percentiles(column.replicates[:, at].mean(axis=1), mean)
    found: dict[str, tuple[Estimate, str | None]] = {"mean": (Estimate(mean, *ends, *counts), None)}
    for kind, place in (("weakest", int(values.argmin())), ("best", int(values.argmax()))):
        found[kind] = (Estimate(float(values[place]), None, None, *counts), names[at[place]])
    return found
