"""A teacher whose tasks are all valid and all impossible: it never loses, and teaches nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from league_studies.contenders import Contender, fractional
from league_studies.follow import newcomers, rated
from league_studies.world import World, play

from league.basics.data import Floats
from league.rating.rating import RatingModel
from league.rating.schemes import Batch


@dataclass(frozen=True)
class ImpossibleRow:
    """One fitness: share of worlds in which the impossible teacher ranks first and last by it."""

    fitness: str
    first: float
    last: float


def impossible_table(
    world: World, progress: Callable[[int, int], None] | None = None
) -> list[ImpossibleRow]:
    """Rank teachers of worlds whose last teacher is impossible, by each named fitness.

    The blend is half rating and half reward, each in standard deviations of the role. Reward per
    task is the paper's: 0 if nobody solved it, else 1 - solve rate.
    """
    model = replace(RatingModel(), tau=world.drift)
    batch = Batch(model)
    rater = Contender("", fractional(batch, 1.0), batch)
    teachers = students = newcomers(world, model)
    reward = np.zeros((world.worlds, world.members))
    for turn in play(world):
        turn.solved[:, -1] = 0
        teachers, students = rated(rater, world, teachers, students, turn)
        rates = turn.solved / world.rollouts
        reward += np.where(rates > 0.0, 1.0 - rates, 0.0).mean(axis=2) / world.rounds
        if progress:
            progress(turn.number + 1, world.rounds)
    blend = 0.5 * _standard(teachers.mu) + 0.5 * _standard(reward)
    columns = {
        "rating": teachers.mu,
        "lower_bound": teachers.mu - 3.0 * teachers.sigma,
        "reward": reward,
        "blend": blend,
    }
    return [_row(name, values) for name, values in columns.items()]


def _row(name: str, values: Floats) -> ImpossibleRow:
    better = (values[:, :-1] > values[:, -1:]).sum(axis=1)
    return ImpossibleRow(
        name, float((better == 0).mean()), float((better == values.shape[1] - 1).mean())
    )


def _standard(values: Floats) -> Floats:
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(values.std(axis=1, keepdims=True), 1e-12))
