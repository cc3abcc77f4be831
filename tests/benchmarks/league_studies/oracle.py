"""The filter that knows what no league can know: the floor under every rating error.

It is told the true drift, spread and likeness of tasks, and keeps the covariance of all members,
which one mean and sigma per member forget. What error it leaves comes from too few rollouts.
"""

from collections.abc import Iterable

import numpy as np
from league_studies.follow import Ledger
from league_studies.world import Round, World, solve_rates

from league.basics.data import Floats
from league.rating.normal import Z95
from league.rating.posterior import GapProblem, gap_moments
from league.rating.rating import RatingModel


def oracle(world: World, rounds: Iterable[Round], evidence: float, first: int) -> Ledger:
    """Return how the joint filter knew the worlds, from round number `first` on.

    evidence: games that a task is worth, 1 / `noise_per_task`. Matches of a round enter one by
    one, each with the update of `rating.posterior` spread over all members by their covariance.
    """
    size, model = world.members, RatingModel()
    mean = np.full((world.worlds, 2 * size), model.mu)
    cov = np.tile(np.eye(2 * size) * max(world.spread, 1e-3) ** 2, (world.worlds, 1, 1))
    every = np.arange(world.worlds)
    ledger = Ledger()
    for turn in rounds:
        if turn.number:
            cov = cov + np.eye(2 * size) * world.drift**2
        won = turn.solved.sum(axis=2) / world.rollouts * evidence
        games = evidence * world.tasks
        for teacher in range(size):
            student = size + turn.partner[:, teacher]
            column = cov[every, :, student] - cov[:, :, teacher]
            prior = mean[every, student] - mean[:, teacher]
            variance = column[every, student] - column[:, teacher]
            problem = GapProblem(
                prior, variance, won[:, teacher], games - won[:, teacher], world.scale
            )
            gap, left = gap_moments(problem)
            mean = mean + column * ((gap - prior) / variance)[:, None]
            shrink = ((left - variance) / variance**2)[:, None, None]
            cov = cov + column[:, :, None] * column[:, None, :] * shrink
        if turn.number >= first:
            _compare(ledger, mean, cov, turn.gaps, world.scale)
    return ledger


def _compare(ledger: Ledger, mean: Floats, cov: Floats, gaps: Floats, c: float) -> None:
    size = mean.shape[1] // 2
    middle = mean[:, None, size:] - mean[:, :size, None]
    own = np.diagonal(cov, axis1=1, axis2=2)
    variance = own[:, None, size:] + own[:, :size, None] - 2.0 * cov[:, :size, size:]
    reach = Z95 * np.sqrt(variance)
    ledger.add(
        solve_rates(middle / np.sqrt(c * c + variance)),
        solve_rates(gaps / c),
        solve_rates((middle - reach) / c),
        solve_rates((middle + reach) / c),
    )
