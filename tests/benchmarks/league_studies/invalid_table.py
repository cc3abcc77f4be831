"""What an invalid task should count as: the rank of a broken teacher under three policies."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from league_studies.follow import matched, newcomers
from league_studies.world import World, play

from league.basics.data import Floats, Ints, Mask
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch

POLICIES = ("ignore invalid", "invalid = student wins", "teacher loses, student unmoved")


@dataclass(frozen=True)
class InvalidRow:
    """One policy, at the end of all worlds. The last teacher writes 15 invalid tasks of 16, and
    its valid ones are impossible.

    broken_mu: its mean rating. broken_first, broken_last: share of worlds in which it ranks so.
    teachers, students: mean mu of the sound ones. order: mean rank correlation of the students'
    ratings with their true skills.
    """

    policy: str
    broken_mu: float
    broken_first: float
    broken_last: float
    teachers: float
    students: float
    order: float


def invalid_table(
    world: World, progress: Callable[[int, int], None] | None = None
) -> list[InvalidRow]:
    """Rate the same worlds, each with one broken teacher, under every policy."""
    rows = []
    for policy in POLICIES:
        rows.append(_under(policy, world))
        if progress:
            progress(len(rows), len(POLICIES))
    return rows


def _under(policy: str, world: World) -> InvalidRow:
    batch = Batch(replace(RatingModel(), tau=world.drift))
    teachers = students = newcomers(world, batch.model)
    broken = np.zeros((world.worlds, world.members), dtype=bool)
    broken[:, -1] = True
    for turn in play(world):
        share = turn.solved.mean(axis=2) / world.rollouts
        weight = np.full(share.shape, float(world.tasks))
        valid = max(world.tasks // 16, 1)
        score = np.where(broken, (world.tasks - valid) / world.tasks, share)
        if policy == POLICIES[0]:
            score, weight = np.where(broken, 0.0, share), np.where(broken, float(valid), weight)
        teachers, students = _rated(
            batch, teachers, students, turn.partner, score, weight, broken & (policy == POLICIES[2])
        )
        truth = turn.gaps.mean(axis=1)
    better = (teachers.mu[:, :-1] > teachers.mu[:, -1:]).sum(axis=1)
    return InvalidRow(
        policy,
        broken_mu=float(teachers.mu[:, -1].mean()),
        broken_first=float((better == 0).mean()),
        broken_last=float((better == world.members - 1).mean()),
        teachers=float(teachers.mu[:, :-1].mean()),
        students=float(students.mu.mean()),
        order=_rank_correlation(students.mu, truth),
    )


def _rated(
    batch: Batch,
    teachers: Skills,
    students: Skills,
    partner: Ints,
    score: Floats,
    weight: Floats,
    unmoved: Mask,
) -> tuple[Skills, Skills]:
    shape = partner.shape
    met = matched(students, partner)
    flat = [Skills(s.mu.ravel(), s.sigma.ravel()) for s in (teachers, met)]
    new = batch.update(flat[0], flat[1], score.ravel(), weight.ravel())
    mu, sigma = new[1].mu.reshape(shape), new[1].sigma.reshape(shape)
    kept = Skills(np.where(unmoved, met.mu, mu), np.where(unmoved, met.sigma, sigma))
    return (
        Skills(new[0].mu.reshape(shape), new[0].sigma.reshape(shape)),
        matched(kept, np.argsort(partner, axis=1)),
    )


def _rank_correlation(a: Floats, b: Floats) -> float:
    ranks = [np.argsort(np.argsort(x, axis=1), axis=1).astype(np.float64) for x in (a, b)]
    centred = [x - x.mean(axis=1, keepdims=True) for x in ranks]
    return float((centred[0] * centred[1]).sum() / (centred[0] ** 2).sum())
