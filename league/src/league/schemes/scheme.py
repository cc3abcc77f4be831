"""What a rating scheme is: two methods on columns of skills."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from league.normal import Floats
from league.rating import Rating


@dataclass(frozen=True)
class Skills:
    """Beliefs about n members in columns: mu and sigma, float arrays of one shape."""

    mu: Floats
    sigma: Floats

    @classmethod
    def of(cls, ratings: Sequence[Rating]) -> "Skills":
        """Return the columns of n ratings, each of shape [n]."""
        mu = np.array([r.mu for r in ratings], dtype=np.float64)
        sigma = np.array([r.sigma for r in ratings], dtype=np.float64)
        return cls(mu, sigma)

    def ratings(self) -> list[Rating]:
        """Return the n ratings of columns of shape [n]."""
        pairs = zip(self.mu.tolist(), self.sigma.tolist(), strict=True)
        return [Rating(mu, sigma) for mu, sigma in pairs]


class RatingScheme(Protocol):
    """How results become ratings, and ratings predictions."""

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """Return teachers and students after n matches, one between the i-th of each.

        score: the students' share of the tasks in [0, 1], shape [n]. weight: how many tasks each
        match counts as, >= 0, shape [n]. No member may occur twice, so the n matches have no
        order. Never changes its arguments.
        """
        ...

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return the students' expected share of the tasks, in [0, 1].

        Shapes follow NumPy's broadcasting: columns of [n, 1] and [m] give the [n, m] matrix.
        """
        ...
