"""One fractional Bayesian update per match: the default scheme (see `league.posterior`)."""

from dataclasses import dataclass

import numpy as np

from league.normal import Floats, log_cdf_pair
from league.posterior import rate_matches
from league.rating import RatingModel
from league.schemes.scheme import Skills


@dataclass(frozen=True)
class Batch:
    """All tasks of a match enter at once, as a likelihood with a fractional share of wins."""

    model: RatingModel

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """See `RatingScheme.update`; with one task it is a TrueSkill game without draws."""
        new_teachers, new_students = rate_matches(
            teachers.ratings(), students.ratings(), score, weight, self.model
        )
        return Skills.of(new_teachers), Skills.of(new_students)

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)), beliefs averaged out."""
        return gaussian_prediction(self.model, teachers, students)


def gaussian_prediction(model: RatingModel, teachers: Skills, students: Skills) -> Floats:
    """Return the probability that a student wins one task, for normal beliefs and noise."""
    spread = np.sqrt(2.0 * model.beta**2 + teachers.sigma**2 + students.sigma**2)
    return np.exp(log_cdf_pair((students.mu - teachers.mu) / spread)[0])
