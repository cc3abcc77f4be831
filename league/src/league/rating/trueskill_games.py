"""One TrueSkill game per task, played out by the `trueskill` package."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from league.basics.data import Floats
from league.rating.posterior import rate_matches
from league.rating.rating import Rating, RatingModel, Skills, environment
from league.rating.scheme import Batch


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
        played = [
            self._match(*row)
            for row in zip(
                teachers.ratings(), students.ratings(), score.tolist(), games, strict=True
            )
        ]
        return Skills.of([pair[0] for pair in played]), Skills.of([pair[1] for pair in played])

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return the win probability under TrueSkill's own belief; see `Batch.predict`."""
        return Batch(self.model).predict(teachers, students)

    def _match(
        self, teacher: Rating, student: Rating, score: float, games: int
    ) -> tuple[Rating, Rating]:
        pair = (self._wandered(teacher), self._wandered(student))
        still = replace(self.model, tau=0.0)
        env = environment(still)
        for won in evenly_spread(round(score * games), games):
            pair = _game(env, still, *pair, student_won=won)
        return pair

    def _wandered(self, rating: Rating) -> Rating:
        return Rating(rating.mu, math.hypot(rating.sigma, self.model.tau))


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
