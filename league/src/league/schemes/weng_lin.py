"""Bradley-Terry with full pairing (Weng and Lin, 2011), an analytic cousin of TrueSkill."""

from dataclasses import dataclass

import numpy as np

from league.arrays import Floats
from league.rating.rating import RatingModel, Skills
from league.schemes.logistic import in_single_games, logistic

_KAPPA = 1e-4  # the least share of a variance that survives one game


@dataclass(frozen=True)
class WengLin:
    """Algorithm 1 of Weng and Lin (JMLR 12, 2011) for two players, with a fractional score.

    With c² = 2 beta² + sigma_s² + sigma_t² and p = 1 / (1 + exp(-(mu_s - mu_t) / c)), a game with
    the score s moves mu_s by sigma_s²/c (s - p) and multiplies sigma_s² by
    max(1 - gamma sigma_s²/c² p (1-p), 1e-4), gamma = sigma_s/c; the teacher is its mirror image.
    A match of k tasks is k such games, each with the score of the whole match, so that no order
    arises. Skills wander by tau once per match.
    """

    model: RatingModel

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """See `RatingScheme.update`."""
        teacher_mu, teacher_var = teachers.mu, teachers.sigma**2 + self.model.tau**2
        student_mu, student_var = students.mu, students.sigma**2 + self.model.tau**2
        for share in in_single_games(weight):
            c2 = 2.0 * self.model.beta**2 + teacher_var + student_var
            c = np.sqrt(c2)
            p = logistic((student_mu - teacher_mu) / c)
            pull = share * (score - p) / c
            student_mu = student_mu + student_var * pull
            teacher_mu = teacher_mu - teacher_var * pull
            known = share * p * (1.0 - p) / (c2 * c)
            student_var = student_var * np.maximum(1.0 - known * student_var**1.5, _KAPPA)
            teacher_var = teacher_var * np.maximum(1.0 - known * teacher_var**1.5, _KAPPA)
        return (
            Skills(teacher_mu, np.sqrt(teacher_var)),
            Skills(student_mu, np.sqrt(student_var)),
        )

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return 1 / (1 + exp(-(mu_s - mu_t) / c)), as the update believes it."""
        c = np.sqrt(2.0 * self.model.beta**2 + teachers.sigma**2 + students.sigma**2)
        return logistic((students.mu - teachers.mu) / c)
