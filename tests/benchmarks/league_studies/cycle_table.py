"""Rock, paper and scissors: what ratings miss, what pair history mends, and whether it is seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from league_studies.contenders import Contender, fractional
from league_studies.events import world_events
from league_studies.follow import newcomers, rated
from league_studies.world import Round, World, play, solve_rates

from league.basics.data import Floats
from league.basics.errors import LeagueError
from league.games.interaction import interaction
from league.history.history import history_of
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch
from league.state.config import LeagueConfig

CYCLES = (0.0, 2.0, 4.0, 8.0)
"""Skill units that a planted circle gives and takes; 0 is a transitive league."""

HISTORIES = ((0.0, 0.0), (100.0, 0.5), (20.0, 0.99))
"""(history_tasks, history_decay): ratings alone, the default, and a long memory."""


@dataclass(frozen=True)
class CycleRow:
    """One strength of circle. found: share of worlds in which `interaction` reports one (p below
    0.05); share: its mean share of the variance between pairs. rating_rmse, default_rmse,
    memory_rmse: of the predicted solve rate over the last three quarters of the rounds, by ratings
    alone, with the default pair history (100, 0.5), and with a long one (20, 0.99)."""

    cycle: float
    found: float
    share: float
    rating_rmse: float
    default_rmse: float
    memory_rmse: float


def cycle_table(
    world: World,
    cycles: Sequence[float] = CYCLES,
    progress: Callable[[int, int], None] | None = None,
) -> list[CycleRow]:
    """Look for a planted circle in logs, and predict with and without pair history."""
    if world.members < 3:
        raise LeagueError(f"members is {world.members}; a circle needs at least 3, expected more")
    rows: list[CycleRow] = []
    for cycle in cycles:
        here = replace(world, cycle=cycle)
        rounds = list(play(here))
        found = []
        for which in range(world.worlds):
            config = LeagueConfig(tau=world.drift, seed=which)
            past = history_of(config, world_events(here, rounds, which))
            seen = interaction(past, seed=which, draws=199)
            found.append((float(seen.p_value < 0.05), seen.share))
            if progress:
                progress(len(rows) * world.worlds + which + 1, len(cycles) * world.worlds)
        share = np.array(found).mean(axis=0)
        errors = _errors(here, rounds)
        rows.append(CycleRow(cycle, float(share[0]), float(share[1]), *errors))
    return rows


def _errors(world: World, rounds: Sequence[Round]) -> tuple[float, float, float]:
    model = replace(RatingModel(), tau=world.drift)
    batch = Batch(model)
    rater = Contender("", fractional(batch, 1.0), batch)
    teachers = students = newcomers(world, model)
    shape = (world.worlds, world.members, world.members)
    tasks = [np.zeros(shape) for _ in HISTORIES]
    won = [np.zeros(shape) for _ in HISTORIES]
    squared: list[list[float]] = [[] for _ in HISTORIES]
    for turn in rounds:
        teachers, students = rated(rater, world, teachers, students, turn)
        here = np.arange(world.members) == turn.partner[:, :, None]
        share = turn.solved.mean(axis=2)[:, :, None] / world.rollouts
        p = batch.predict(
            Skills(teachers.mu[:, :, None], teachers.sigma[:, :, None]),
            Skills(students.mu[:, None, :], students.sigma[:, None, :]),
        )
        truth = solve_rates(turn.gaps / world.scale)
        for i, (worth, keep) in enumerate(HISTORIES):
            tasks[i] = np.where(here, keep * tasks[i] + world.tasks, tasks[i])
            won[i] = np.where(here, keep * won[i] + world.tasks * share, won[i])
            blend = (won[i] + worth * p) / (tasks[i] + worth) if worth else p
            if 4 * turn.number >= world.rounds:
                squared[i].append(_mean_square(blend - truth))
    first, second, third = (float(np.mean(s)) ** 0.5 for s in squared)
    return first, second, third


def _mean_square(error: Floats) -> float:
    return float((error * error).mean())
