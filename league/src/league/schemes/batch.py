"""One fractional Bayesian update per match: the default scheme."""

from dataclasses import dataclass

import numpy as np

from league.arrays import Floats
from league.rating.normal import log_cdf_pair
from league.rating.posterior import rate_columns
from league.rating.rating import RatingModel, Skills


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
