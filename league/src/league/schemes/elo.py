"""Elo with fractional scores: one number per member and no doubt about it."""

from dataclasses import dataclass

import numpy as np

from league.arrays import Floats
from league.rating.rating import RatingModel, Skills
from league.schemes.logistic import in_single_games, logistic


@dataclass(frozen=True)
class Elo:
    """Elo (1978) in TrueSkill's units: 200 points are one beta, so 400 / ln 10 points are
    2 beta / ln 10.

    A game with the score s moves the student by k (s - e), e = 1 / (1 + 10^(-(mu_s - mu_t) /
    2 beta)), and the teacher back by the same. A match is as many such games as it has tasks,
    each with the score of the whole match, so that no order arises.

    sigma stays what it was, and tau does nothing: `conservative` then ranks like mu, and
    intervals mean nothing.
    """

    model: RatingModel
    k: float
    """The most that one game moves a rating, in rating units."""

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """See `RatingScheme.update`."""
        teacher_mu, student_mu = teachers.mu, students.mu
        for share in in_single_games(weight):
            step = self.k * share * (score - self._expected(student_mu - teacher_mu))
            student_mu, teacher_mu = student_mu + step, teacher_mu - step
        return Skills(teacher_mu, teachers.sigma), Skills(student_mu, students.sigma)

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return Elo's expected score of the students."""
        return self._expected(students.mu - teachers.mu)

    def _expected(self, gap: Floats) -> Floats:
        return logistic(gap * (np.log(10.0) / (2.0 * self.model.beta)))
