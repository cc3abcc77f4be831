"""Schemes on the logistic curve, which know no batches: Elo, and Weng and Lin's."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats
from league.rating.rating import RatingModel, Skills


def logistic(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)), of z's shape, without overflow for any finite z."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, small) / (1.0 + small)


def in_single_games(weight: Floats) -> Iterator[Floats]:
    """Yield, game by game, how much of a game each match still has: 1, at last a rest, then 0.

    weight: shape [n], >= 0. For the weights (2.5, 1): (1, 1), (1, 0), (0.5, 0).
    """
    for game in range(int(np.ceil(weight.max(initial=0.0)))):
        yield np.clip(weight - game, 0.0, 1.0)


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
