"""A population as one: the mean over its members, its weakest and its best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.metrics.estimate import Estimate, describe
from evals.metrics.scoreboard import Column


@dataclass(frozen=True)
class Population:
    """Mean, weakest and best member on one benchmark or average.

    Intervals resample problems, not members: they say what other problems could have shown of
    these members, not what other populations would score. The weakest and the best are looked for
    again among the members in every replicate, so their intervals include that the choice was made
    on these problems. size: members that were graded.
    """

    mean: Estimate
    weakest: Estimate
    best: Estimate
    weakest_member: str
    best_member: str
    size: int


def population(column: Column, members: Sequence[str]) -> Population | None:
    """Describe the named members of a column; None when none of them was graded."""
    at = [column.members.index(name) for name in members if name in column.members]
    if not at:
        return None
    values, replicates = column.values[at], column.replicates[:, at]
    names = [column.members[i] for i in at]
    lowest, highest = int(values.argmin()), int(values.argmax())
    problems = min(column.graded[i] for i in at)
    trials = min(column.trials[i] for i in at)

    def stated(value: float, draws: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
        found = describe(
            value,
            draws,
            problems=problems,
            ungraded=sum(column.ungraded[i] for i in at),
            unjudged=sum(column.unjudged[i] for i in at),
            trials=trials,
        )
        # Minima of noisy scores lie below, maxima above: the value itself stays inside.
        return replace(found, low=min(found.low, value), high=max(found.high, value))

    return Population(
        mean=stated(float(values.mean()), replicates.mean(axis=1)),
        weakest=stated(float(values[lowest]), replicates.min(axis=1)),
        best=stated(float(values[highest]), replicates.max(axis=1)),
        weakest_member=names[lowest],
        best_member=names[highest],
        size=len(at),
    )


def gain(column: Column, members: Sequence[str], baseline: str) -> Population | None:
    """The same three, each minus the baseline's score on the same problems.

    None when the baseline or all members are missing.
    """
    if baseline not in column.members:
        return None
    at = column.members.index(baseline)
    shifted = replace(
        column,
        values=column.values - column.values[at],
        replicates=column.replicates - column.replicates[:, [at]],
        trials=(0,) * len(column.members),  # a difference is not a share: no Wilson interval
    )
    return population(shifted, members)
