"""Ways to turn a match's rollouts into ratings: ours, the obvious ones, and the neighbours'."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from league_studies.draws import draw_margin, games_with_draws

from league.basics.data import Floats, Ints
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch, Elo, RatingScheme, WengLin, evenly_spread

Update = Callable[[Skills, Skills, Ints, int], tuple[Skills, Skills]]
"""(teachers, students, right rollouts per task of shape [n, tasks], rollouts per task)."""


@dataclass(frozen=True)
class Contender:
    """A way to rate: its name, its update, and the scheme that predicts from its ratings."""

    name: str
    update: Update
    predictor: RatingScheme


def contenders(model: RatingModel) -> tuple[Contender, ...]:
    """Return all of them, for the constants of one model."""
    batch = Batch(model)
    elo = Elo(model, 0.16 * model.beta)
    weng_lin = WengLin(model)
    return (
        Contender("every rollout a game", _rollouts(model), batch),
        Contender("every task win/draw/lose at 1/2", _tasks(model), batch),
        Contender("whole batch win/lose at 1/2", _whole(model), batch),
        Contender("whole batch vs expected value", _whole(model, batch), batch),
        Contender("share of tasks, game by game (trueskill)", _games(model), batch),
        Contender("fractional, weight = tasks (batch)", fractional(batch, 1.0), batch),
        Contender("fractional, weight from task variance", _by_variance(batch), batch),
        Contender("fractional, weight 1", _weight_one(batch), batch),
        Contender("Kalman on probit(solve rate)", _kalman(model), batch),
        Contender("Weng-Lin (weng_lin)", fractional(weng_lin, 1.0), weng_lin),
        Contender("Elo (elo)", fractional(elo, 1.0), elo),
    )


def fractional(scheme: RatingScheme, evidence: float) -> Update:
    """Return the update of a scheme whose matches weigh `evidence` per task."""

    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        weight = np.full(len(solved), evidence * solved.shape[1])
        return scheme.update(teachers, students, solved.mean(axis=1) / rollouts, weight)

    return update


def _weight_one(batch: Batch) -> Update:
    return lambda t, s, solved, n: batch.update(t, s, solved.mean(axis=1) / n, np.ones(len(solved)))


def _by_variance(batch: Batch) -> Update:
    """A task counts as q (1 - q) over the variance of task rates, pooled over the matches."""

    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        rates = solved / rollouts
        q = rates.mean(axis=1)
        tasks = rates.shape[1]
        between = float(rates.var(axis=1, ddof=1).mean()) if tasks > 1 else 0.0
        games = float((q * (1.0 - q)).mean()) / between if between > 0.0 else 1.0
        weight = np.full(len(q), tasks * float(np.clip(games, 1.0, rollouts)))
        return batch.update(teachers, students, q, weight)

    return update


def _wandered(model: RatingModel, *sides: Skills) -> list[Skills]:
    return [Skills(s.mu, np.hypot(s.sigma, model.tau)) for s in sides]


def _in_turn(
    model: RatingModel, teachers: Skills, students: Skills, results: Floats, margin: float
) -> tuple[Skills, Skills]:
    """Games in the order of the columns of `results`, shape [n, games]; NaN is no game."""
    teachers, students = _wandered(model, teachers, students)
    for result in results.T:
        teachers, students = games_with_draws(teachers, students, result, margin, model)
    return teachers, students


def _rollouts(model: RatingModel) -> Update:
    """All rollouts of a task one after the other, its right ones evenly spread among them."""

    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        order = np.array([evenly_spread(wins, rollouts) for wins in range(rollouts + 1)])
        games = order[solved].reshape(len(solved), -1).astype(np.float64)
        return _in_turn(model, teachers, students, games, 0.0)

    return update


def _tasks(model: RatingModel) -> Update:
    margin = draw_margin(0.10, model)
    return lambda t, s, solved, n: _in_turn(model, t, s, _against(solved / n, 0.5), margin)


def _games(model: RatingModel) -> Update:
    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        tasks = solved.shape[1]
        wins = [round(share * tasks) for share in (solved.mean(axis=1) / rollouts).tolist()]
        games = np.array([evenly_spread(won, tasks) for won in wins], dtype=np.float64)
        return _in_turn(model, teachers, students, games, 0.0)

    return update


def _whole(model: RatingModel, expectation: Batch | None = None) -> Update:
    margin = draw_margin(0.10, model)

    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        bar: Floats | float = expectation.predict(teachers, students) if expectation else 0.5
        result = _against(solved.mean(axis=1) / rollouts, bar)
        return _in_turn(model, teachers, students, result[:, None], margin)

    return update


def _against(rates: Floats, bar: Floats | float) -> Floats:
    return np.where(rates > bar, 1.0, np.where(rates < bar, 0.0, 0.5))


def _kalman(model: RatingModel) -> Update:
    """A linear filter that sees sqrt(2) beta Φ⁻¹(q) with the variance of the delta method."""
    normal = NormalDist()
    c = model.performance_scale

    def update(
        teachers: Skills, students: Skills, solved: Ints, rollouts: int
    ) -> tuple[Skills, Skills]:
        tasks = solved.shape[1]
        edge = 0.5 / tasks
        q = np.clip(solved.mean(axis=1) / rollouts, edge, 1.0 - edge)
        z = np.array([normal.inv_cdf(x) for x in q.tolist()])
        density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        noise = c * c * q * (1.0 - q) / (tasks * density**2)
        t, s = _wandered(model, teachers, students)
        total = t.sigma**2 + s.sigma**2 + noise
        pull = (c * z - (s.mu - t.mu)) / total
        return (
            Skills(t.mu - t.sigma**2 * pull, t.sigma * np.sqrt(1.0 - t.sigma**2 / total)),
            Skills(s.mu + s.sigma**2 * pull, s.sigma * np.sqrt(1.0 - s.sigma**2 / total)),
        )

    return update
