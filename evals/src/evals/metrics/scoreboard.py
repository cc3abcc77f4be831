"""All members on all benchmarks, with the same resampled problems for everybody."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.errors import EvalsError
from evals.metrics.bootstrap import DRAWS, resample, standard_error
from evals.metrics.counts import Verdicts, count
from evals.metrics.estimate import Estimate, describe
from evals.metrics.pass_at_k import problem_scores


@dataclass(frozen=True)
class Column:
    """Members on one benchmark, or on an average of some, in the order of `members`.

    values, errors: [members]; replicates: [draws, members], means on resampled problems. graded,
    ungraded, unjudged: per member, problems that entered, samples and problems without a verdict.
    trials: independent trials that a value is worth; the problems, or fewer in an average.
    uneven: not all members were graded on the same problems.
    """

    members: tuple[str, ...]
    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    replicates: NDArray[np.float64]
    graded: tuple[int, ...]
    ungraded: tuple[int, ...]
    unjudged: tuple[int, ...]
    trials: tuple[int, ...]
    uneven: bool

    def estimate(self, member: str) -> Estimate | None:
        """The score of one member; None when it is not here."""
        if member not in self.members:
            return None
        at = self.members.index(member)
        return describe(
            float(self.values[at]),
            self.replicates[:, at],
            float(self.errors[at]),
            problems=self.graded[at],
            ungraded=self.ungraded[at],
            unjudged=self.unjudged[at],
            trials=self.trials[at],
        )


def score_members(
    verdicts: Mapping[str, Verdicts],
    benchmark: str,
    k: int | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Column:
    """Score members (name -> verdicts) on one benchmark by avg@n or pass@k.

    A member without any graded sample is left out. Raises EvalsError when that leaves nobody, or
    for a k that `problem_scores` refuses, naming the member.
    """
    counts = {name: found for name in verdicts if (found := count(verdicts[name])).problems}
    if not counts:
        raise EvalsError(f"{benchmark}: no member has a graded sample; grade some first")
    problems = dict.fromkeys(problem for found in counts.values() for problem in found.problems)
    places = {problem: place for place, problem in enumerate(problems)}
    scores = np.full((len(counts), len(places)), np.nan)
    for row, (name, found) in enumerate(counts.items()):
        try:
            scores[row, [places[problem] for problem in found.problems]] = problem_scores(found, k)
        except EvalsError as error:
            raise EvalsError(f"{name} on {benchmark}: {error}") from None
    graded = tuple(len(found.problems) for found in counts.values())
    return Column(
        members=tuple(counts),
        values=np.nanmean(scores, axis=1),
        errors=np.array([standard_error(row) for row in scores]),
        replicates=resample(scores, benchmark, seed, draws),
        graded=graded,
        ungraded=tuple(found.ungraded for found in counts.values()),
        unjudged=tuple(len(found.unjudged) for found in counts.values()),
        trials=graded,
        uneven=bool(np.isnan(scores).any()),
    )
