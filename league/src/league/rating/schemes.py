"""Rating schemes: how results become ratings, and ratings predictions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from league.basics.data import Floats
from league.rating.normal import log_cdf_pair
from league.rating.posterior import rate_columns, rate_matches
from league.rating.rating import Rating, RatingModel, Skills, environment


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


@dataclass(frozen=True)
class TrueSkillGames:
    """A match of k tasks as k games in a row, of which the student wins the share it solved.

    k is the weight, to the nearest whole game; the student wins score * k of them, to the nearest
    whole game, spread evenly: game i of k is won when round-half-up(i w/k) steps up, w the wins.
    That is the order that favours neither side, but an order all the same. Skills wander by tau
    once, before the first game.

    What is lost: whether the tasks were each solved half of the time or half of them always (a
    count of rollouts cannot tell a draw from an exchange of wins), the fraction of a game, and
    the independence of order; and k alike games make sigma shrink too fast.
    """

    model: RatingModel

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """See `RatingScheme.update`; half a millisecond per game."""
        games = np.rint(weight).astype(int).tolist()
        sides = (teachers.ratings(), students.ratings())
        played = [self._match(*x) for x in zip(*sides, score.tolist(), games, strict=True)]
        return Skills.of([pair[0] for pair in played]), Skills.of([pair[1] for pair in played])

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return the win probability under TrueSkill's own belief; see `Batch.predict`."""
        return Batch(self.model).predict(teachers, students)

    def _match(
        self, teacher: Rating, student: Rating, score: float, games: int
    ) -> tuple[Rating, Rating]:
        pair = (
            Rating(teacher.mu, math.hypot(teacher.sigma, self.model.tau)),
            Rating(student.mu, math.hypot(student.sigma, self.model.tau)),
        )
        still = replace(self.model, tau=0.0)
        env = environment(still)
        for won in evenly_spread(round(score * games), games):
            pair = _game(env, still, *pair, student_won=won)
        return pair


def _game(
    env: Any, model: RatingModel, teacher: Rating, student: Rating, *, student_won: bool
) -> tuple[Rating, Rating]:
    first, second = (env.create_rating(r.mu, r.sigma) for r in (teacher, student))
    try:
        (first,), (second,) = env.rate([(first,), (second,)], ranks=[student_won, not student_won])
    except (ArithmeticError, ValueError):
        # Beyond some 38 deviations the package gives up: the same update in log space.
        score = np.array([float(student_won)])
        news = rate_matches([teacher], [student], score, np.ones(1), model)
        return news[0][0], news[1][0]
    return Rating(first.mu, first.sigma), Rating(second.mu, second.sigma)


def evenly_spread(wins: int, games: int) -> list[bool]:
    """Return which of `games` games are won when `wins` of them are, in the fairest order."""
    steps = [(2 * i * wins + games) // (2 * max(games, 1)) for i in range(games + 1)]
    return [after > before for before, after in pairwise(steps)]


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
        return Skills(teacher_mu, np.sqrt(teacher_var)), Skills(student_mu, np.sqrt(student_var))

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return 1 / (1 + exp(-(mu_s - mu_t) / c)), as the update believes it."""
        c = np.sqrt(2.0 * self.model.beta**2 + teachers.sigma**2 + students.sigma**2)
        return logistic((students.mu - teachers.mu) / c)
