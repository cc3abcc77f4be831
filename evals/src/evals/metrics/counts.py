"""How many samples of each problem were graded, and how many of them were right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Verdicts: TypeAlias = Mapping[str, Sequence[bool | None]]
"""Problem id -> verdicts on its samples; None is a sample that could not be graded."""


@dataclass(frozen=True)
class Counts:
    """Counts of the problems that have a graded sample, in the order they came in.

    graded, right: whole numbers of shape [problems]. ungraded: samples without a verdict, which
    count neither for nor against. unjudged: problems of which no sample was graded; they are left
    out of every mean.
    """

    problems: tuple[str, ...]
    graded: NDArray[np.int64]
    right: NDArray[np.int64]
    ungraded: int
    unjudged: tuple[str, ...]

    @property
    def least(self) -> int:
        """The smallest number of graded samples of a problem; 0 when there is no problem."""
        return int(self.graded.min()) if len(self.graded) else 0


def count(verdicts: Verdicts) -> Counts:
    """Count the verdicts of one member on one benchmark."""
    graded: dict[str, int] = {}
    right: dict[str, int] = {}
    ungraded = 0
    for problem, samples in verdicts.items():
        known = [bool(verdict) for verdict in samples if verdict is not None]
        ungraded += len(samples) - len(known)
        if known:
            graded[problem], right[problem] = len(known), sum(known)
    return Counts(
        problems=tuple(graded),
        graded=np.array(list(graded.values()), dtype=np.int64),
        right=np.array(list(right.values()), dtype=np.int64),
        ungraded=ungraded,
        unjudged=tuple(problem for problem in verdicts if problem not in graded),
    )
