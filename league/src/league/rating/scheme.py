"""What a rating scheme is, and the default one: a fractional Bayesian update per match."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from league.basics.data import Floats
from league.rating.normal import log_cdf_pair
from league.rating.posterior import rate_columns
from league.rating.rating import RatingModel, Skills


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


@dataclass(frozen=True)
class Batch:
    """All tasks of a match enter at once, as a likelihood with a fractional share of wins.

    Formulas: `league.rating.posterior`; with one task it is a TrueSkill game without draws.
    """

    model: RatingModel

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """See `RatingScheme.update`."""
        return rate_columns(teachers, students, score, weight, self.model)

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)), beliefs averaged out."""
        spread = np.sqrt(2.0 * self.model.beta**2 + teachers.sigma**2 + students.sigma**2)
        return np.exp(log_cdf_pair((students.mu - teachers.mu) / spread)[0])
