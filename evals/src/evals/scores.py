"""Scores of adapters over problems, each with the one kind of interval that this package has.

With n graded samples of a problem, c of them right (Chen et al. 2021, arXiv:2107.03374, eq. 1):

    avg@n  = c / n                                       (the same as pass@1)
    pass@k = 1 - C(n-c, k) / C(n, k)
    pass^k = C(c, k) / C(n, k)                           (all of k are right)
    maj@k  = whether the commonest answer of the first k samples is right

All are averaged over problems. Where every problem is right or wrong, as with one sample each, the
interval is Wilson's (1927, JASA 22). Other intervals are percentiles of a Bayesian bootstrap (Rubin
1981, Annals of Statistics 9): it reweights whole problems, and adds half a problem at either end of
the scale, so that an interval has a width even where all problems score the same. Members share the
weights, so that differences and means compare the same problems.
"""

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, mode
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evals.errors import EvalsError
from evals.members import Group
from evals.question import ProgramOutcome, SampleVerdict
from evals.recipes import CODE, MATH

if TYPE_CHECKING:  # loaded by functions that calculate, so that help is fast
    import numpy as np
    from numpy.typing import NDArray

Verdicts: TypeAlias = Mapping[str, Sequence[bool | None]]
"""Problem id -> verdicts on its samples; None is a sample that could not be graded."""
Floats: TypeAlias = "NDArray[np.float64]"
Kind: TypeAlias = Literal["base", "member", "mean", "weakest", "best"]

Measure: TypeAlias = Literal["pass@k", "pass^k", "maj@k"]

DRAWS = 2000
FLIPS = 10_000
Z = 1.959964


@dataclass(frozen=True)
class Row:
    """A score, or the difference of two, with its 95 % interval: one number of a table.

    label: an adapter, or a summary such as `mean of 2 students`. column: a benchmark, or an average
    of some. value: a share, NaN where nothing was graded. low, high: None for a weakest or best,
    chosen by its score. problems: how many count. ungraded: samples without a verdict, which do not
    count; of a difference, of both adapters. group: role and selfplay run of the members. member:
    that is the weakest or best. partial: part of the benchmark was asked. strange: of other rows
    than the published ones. incomplete: an average that lacks a benchmark. against: of a
    difference, whose score is subtracted. wins, losses, ties: problems on which `label` scores more
    than `against`, less, the same. p: of a sign-flip test; in a table see `adjust`.
    """

    label: str
    column: str
    value: float = math.nan
    low: float | None = None
    high: float | None = None
    problems: int = 0
    ungraded: int = 0
    kind: Kind = "member"
    group: Group | None = None
    member: str | None = None
    partial: bool = False
    strange: bool = False
    incomplete: bool = False
    against: str | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0
    p: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """`low` and `high`, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class Scores:
    """Members on one benchmark, or on an average of some. problems: ids, none of a mean of
    benchmarks. values: [members, problems], NaN where a member was not graded. means: [members].
    replicates: [draws, members], means on resampled problems. ungraded: samples without a verdict,
    by member, also of those who have no others."""

    name: str
    members: tuple[str, ...]
    problems: tuple[str, ...]
    values: Floats
    means: Floats
    replicates: Floats
    ungraded: Mapping[str, int]

    @property
    def centred(self) -> Floats:
        """The replicates about the scores, with the unbiased variance of a mean of n problems.

        Half problems at the ends move all replicates of a score towards the middle, which the width
        of its interval covers, and that of an average does not. With them the replicates have the
        variance of the scores, biased, by n + 2.
        """
        if not self.problems:
            return self.replicates
        problems = self.judged.sum(axis=1)
        gaps = self.replicates - self.replicates.mean(axis=0)
        centred: Floats = self.means + gaps * ((problems + 2) / (problems - 1).clip(1)) ** 0.5
        return centred

    @property
    def judged(self) -> Any:
        """Where a member was graded. Shape [members, problems]."""
        return self.values == self.values

    def row(self, member: str) -> Row:
        """Return the score of one member, without a value when it is not here."""
        if member not in self.members:
            return Row(member, self.name, ungraded=self.ungraded.get(member, 0))
        at = self.members.index(member)
        mean, values = float(self.means[at]), self.values[at][self.judged[at]]
        if self.problems and ((values == 0) | (values == 1)).all():
            ends = wilson(mean, len(values))
        else:
            ends = percentiles(self.replicates[:, at], mean)
        return Row(member, self.name, mean, *ends, len(values), self.ungraded[member])

    def summary(self, members: Collection[str]) -> dict[Kind, Row]:
        """Return the `mean`, the `weakest` and the `best` of members. The mean's interval resamples
        problems, not members. The others have none: chosen by the scores that they show, they look
        worse and better than they are."""
        kinds: tuple[Kind, ...] = ("mean", "weakest", "best")
        rows = {kind: Row(kind, self.name, kind=kind) for kind in kinds}
        if at := [place for place, name in enumerate(self.members) if name in members]:
            means, problems = self.means[at], int(self.judged[at].sum(axis=1).min())
            mean, ungraded = float(means.mean()), sum(self.ungraded.get(n, 0) for n in members)
            ends = percentiles(self.replicates[:, at].mean(axis=1), mean)
            rows["mean"] = Row("mean", self.name, mean, *ends, problems, ungraded, "mean")
            for kind, place in zip(kinds[1:], (means.argmin(), means.argmax()), strict=True):
                name, share = self.members[at[place]], float(means[place])
                counts = problems, self.ungraded[name]
                rows[kind] = Row(kind, self.name, share, None, None, *counts, kind, member=name)
        return rows

    def difference(self, first: str, second: str) -> Row:
        """Return how much higher one member scores than another, on the problems graded for both.

        Pairing takes out the problems' difficulty. Raises EvalsError if none was graded for both.
        """
        places = [self.members.index(name) for name in (first, second) if name in self.members]
        values = self.values[places]
        if len(places) < 2 or not (values[0] == values[0])[values[1] == values[1]].any():
            fault = f"no problem was graded for both {first} and {second} on {self.name}"
            raise EvalsError(f"{fault}; compare two results on one benchmark")
        gaps = values[0] - values[1]
        judged = gaps[gaps == gaps]
        replicates = resample(gaps[None, :], self.problems, self.name, (-1.0, 1.0))
        value, ungraded = float(judged.mean()), self.ungraded[first] + self.ungraded[second]
        ends = percentiles(replicates[:, 0], value)
        row = Row(first, self.name, value, *ends, len(judged), ungraded, against=second)
        wins, losses, ties = (int(part.sum()) for part in (judged > 0, judged < 0, judged == 0))
        return replace(row, wins=wins, losses=losses, ties=ties, p=sign_flip(judged, self.name))


def problem_scores(
    verdicts: Verdicts, k: int | None = None, measure: Measure = "pass@k"
) -> dict[str, float]:
    """Return avg@n, or with a k pass@k or pass^k, of every problem that has a graded sample. Raises
    EvalsError for a k below 1, or above the graded samples of some problem: fewer than k give no
    estimate of pass@k."""
    scores = {}
    for problem, samples in verdicts.items():
        graded = [verdict for verdict in samples if verdict is not None]
        n, right = len(graded), sum(graded)
        if n and k is not None and not 1 <= k <= n:
            raise EvalsError(
                f"{measure[:-1]}{k} needs a k from 1 to the graded samples of every problem; "
                f"{problem} has {n}"
            )
        if n:
            draws, wrong = math.comb(n, k or 1), math.comb(n - right, k or 1)
            passing = math.comb(right, k or 1) if measure == "pass^k" else draws - wrong
            scores[problem] = passing / draws
    return scores


def majority(verdicts: Iterable[SampleVerdict], k: int) -> Verdicts:
    """Return the verdict on the commonest answer, by its text, of the first k graded samples of
    every question; of several, on the first. Raises EvalsError for a k as `problem_scores`."""
    graded: dict[str, list[SampleVerdict]] = defaultdict(list)
    for verdict in verdicts:
        graded[verdict.id] += [verdict] * (verdict.correct is not None)
    votes: dict[str, list[bool | None]] = {}
    for id, samples in graded.items():
        problem_scores({id: [v.correct for v in samples]}, k, "maj@k")
        answers = Counter(v.extracted for v in samples[:k] if v.well_formed).most_common(1)
        named = [v.correct for v in samples[:k] if answers and v.extracted == answers[0][0]]
        votes[id] = [named[0] if named else False] if samples else [None]
    return votes


def resample(
    scores: Floats, problems: Sequence[str], name: str, ends: tuple[float, float] = (0.0, 1.0)
) -> Floats:
    """Return the means of members over reweighted problems. Shape [DRAWS, members].

    scores: [members, problems]; NaN, a problem without a graded sample of the member, is left out
    of its mean. name: the benchmark. It and a problem's id select the random stream of the
    problem's weights, so that a score has one interval wherever it stands, and benchmarks are
    resampled independently. ends: the lowest and the highest score of the scale.
    """
    import numpy as np

    streams = [np.random.default_rng([zlib.crc32(f"{name}/{id}".encode())]) for id in problems]
    weights = np.stack([stream.standard_exponential(DRAWS) for stream in streams])
    halves = np.random.default_rng([0, zlib.crc32(name.encode())]).standard_gamma(0.5, (2, DRAWS))
    total = ~np.isnan(scores) @ weights + halves.sum(axis=0)
    means: Floats = (np.nan_to_num(scores) @ weights + ends @ halves) / total
    return means.T


def percentiles(replicates: Floats, value: float) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of replicates [draws], widened to hold the value."""
    import numpy as np

    low, high = np.quantile(replicates, [0.025, 0.975])
    return min(float(low), value), max(float(high), value)


def sign_flip(gaps: Floats, name: str) -> float:
    """Return the p of no difference, of paired gaps [problems]: how often their sum is as far from
    0 with random signs (Fisher 1935, The Design of Experiments, 21). name: see `resample`."""
    import numpy as np

    gaps = gaps[gaps != 0].astype(np.float32)
    generator = np.random.default_rng([1, zlib.crc32(name.encode())])
    signs = generator.integers(0, 2, (FLIPS, len(gaps)), np.int8).astype(np.float32)
    sums, total = 2 * (signs @ gaps) - gaps.sum(), abs(float(gaps.sum()))
    return float(1 + (abs(sums) >= total - 1e-4).sum()) / (1 + FLIPS)


def adjust(differences: Sequence[Row]) -> list[Row]:
    """Return differences with p adjusted for their number (Holm 1979, Scand. J. Statist. 6): if no
    adapter differs, the chance that one p is at most .05 is 5 %."""
    adjusted, largest, count = list(differences), 0.0, len(differences)
    order = sorted(range(count), key=lambda at: differences[at].p or 0.0)
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * (differences[at].p or 0.0)))
        adjusted[at] = replace(differences[at], p=largest)
    return adjusted


def wilson(share: float, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `of` problems."""
    middle = (share + Z**2 / (2 * of)) / (1 + Z**2 / of)
    half = Z * math.sqrt(share * (1 - share) / of + (Z / (2 * of)) ** 2) / (1 + Z**2 / of)
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def score_members(
    verdicts: Mapping[str, Verdicts],
    benchmark: str = "",
    k: int | None = None,
    measure: Measure = "pass@k",
) -> Scores | None:
    """Score members (name -> verdicts) on one benchmark by avg@n, or with a k pass@k or pass^k. One
    without a graded sample is left out; None when none is left. Raises EvalsError for a k that
    `problem_scores` refuses, naming the member."""
    import numpy as np

    scores = {}
    for name, samples in verdicts.items():
        try:
            scores[name] = problem_scores(samples, k, measure)
        except EvalsError as error:
            raise EvalsError(f"{name} on {benchmark}: {error}") from None
    scores = {name: by_problem for name, by_problem in scores.items() if by_problem}
    if not scores:
        return None
    problems = tuple(dict.fromkeys(problem for row in scores.values() for problem in row))
    values = np.array([[row.get(p, np.nan) for p in problems] for row in scores.values()])
    ungraded = {n: sum(list(s).count(None) for s in of.values()) for n, of in verdicts.items()}
    replicates, means = resample(values, problems, benchmark), np.nanmean(values, axis=1)
    return Scores(benchmark, tuple(scores), problems, values, means, replicates, ungraded)


def average(name: str, parts: Sequence[Scores]) -> Scores | None:
    """Return the plain mean over benchmarks, for the members that all of them have, or None. As
    they share no problems, replicate i of the mean is the mean of their centred ones."""
    import numpy as np

    names = parts[0].members if parts else ()
    members = tuple(name for name in names if all(name in part.members for part in parts))
    if not members:
        return None
    if len(parts) == 1:
        return replace(parts[0], name=name)
    places = [(part, [part.members.index(member) for member in members]) for part in parts]
    return Scores(
        name,
        members,
        problems=(),
        values=np.hstack([part.values[at] for part, at in places]),
        means=np.mean([part.means[at] for part, at in places], axis=0),
        replicates=np.mean([part.centred[:, at] for part, at in places], axis=0).clip(0.0, 1.0),
        ungraded=sum((Counter(part.ungraded) for part in parts), Counter[str]()),
    )


def averages(scores: Mapping[str, Scores]) -> dict[str, Scores]:
    """Return `code`, `math` and `total` of the benchmarks that have scores, as in table 1 of
    Absolute Zero (arXiv:2505.03335), which PopuLoRA's follow: the averages are plain means over
    benchmarks, and the total, which needs both, is the mean of the two averages."""
    code = average("code", [scores[name] for name in CODE if name in scores])
    math_ = average("math", [scores[name] for name in MATH if name in scores])
    total = average("total", [code, math_]) if code and math_ else None
    return {mean.name: mean for mean in (code, math_, total) if mean is not None}


def score(verdicts: Sequence[SampleVerdict], benchmark: str) -> Row:
    """Return the score of one adapter, without a value when nothing was graded."""
    scores = score_members({"": by_question(verdicts)}, benchmark)
    return scores.row("") if scores else Row("", benchmark, ungraded=len(verdicts))


def results(verdicts: Sequence[SampleVerdict], benchmark: str) -> dict[str, Any]:
    """Return the summary of verdicts overall and by level, easiest first, and the base rate."""
    levels = sorted({verdict.level for verdict in verdicts} - {0})
    by_level = {n: summary([v for v in verdicts if v.level == n], benchmark) for n in levels}
    overall = summary(verdicts, benchmark)
    return {"overall": overall, "levels": by_level, "base_rate": base_rate(verdicts)}


def summary(verdicts: Sequence[SampleVerdict], benchmark: str) -> dict[str, Any]:
    """Return counts and the score of samples, as `result.json` has them: tasks, samples, solved
    (right samples), ungraded (without a verdict); rate, interval (None when nothing was graded);
    ill_formed, truncated (shares of all samples)."""
    row, samples = score(verdicts, benchmark), len(verdicts)
    return {
        **count(verdicts),
        "rate": row.value if row.problems else None,
        "interval": row.interval,
        "ill_formed": sum(not verdict.well_formed for verdict in verdicts) / max(1, samples),
        "truncated": sum(verdict.truncated for verdict in verdicts) / max(1, samples),
        "ungraded": row.ungraded,
    }


def count(verdicts: Sequence[SampleVerdict]) -> dict[str, int]:
    """Return the numbers of tasks, of samples, and of right ones."""
    return {
        "tasks": len({verdict.id for verdict in verdicts}),
        "samples": len(verdicts),
        "solved": sum(verdict.correct is True for verdict in verdicts),
    }


def base_rate(verdicts: Iterable[SampleVerdict]) -> float | None:
    """Return the mean over tasks of the share of samples that pass the base tests, as the rate is;
    None where there are no such tests."""
    statuses = ((verdict, verdict.details.get("base")) for verdict in verdicts)
    base = [replace(v, correct=s == ProgramOutcome.PASS) for v, s in statuses if s is not None]
    shares = problem_scores(by_question(base)).values()
    return fmean(shares) if shares else None


def not_judged(verdicts: Sequence[SampleVerdict]) -> str:
    """Return how many samples have no verdict, with the commonest reason, or ""."""
    reasons = [verdict.reason for verdict in verdicts if verdict.correct is None]
    if not reasons:
        return ""
    lost = f"{len(reasons)} of {len(verdicts)} samples were not judged"
    return f"{lost} ({mode(reasons) or 'no reason is given'})"


def by_question(verdicts: Iterable[SampleVerdict]) -> Verdicts:
    """Return the verdicts on the samples of every question."""
    questions: dict[str, list[bool | None]] = defaultdict(list)
    for verdict in verdicts:
        questions[verdict.id].append(verdict.correct)
    return questions
