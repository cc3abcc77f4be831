"""Whom replacement culls: how often a newborn, and how far from the true worst."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from league_studies.contenders import Contender, fractional
from league_studies.follow import newcomers, rated
from league_studies.world import Round, World, solve, solve_rates

from league.basics.data import Floats, Ints
from league.basics.streams import stream
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch

SETTINGS = (
    ("reset", "mu - 3 sigma", 0),
    ("inherit", "mu - 3 sigma", 0),
    ("inherit + inflate", "mu - 3 sigma", 0),
    ("inherit + inflate", "mu - 3 sigma", 5),
    ("inherit + inflate", "mu", 0),
    ("inherit + inflate", "mu", 5),
)
"""(rating of a child, what is ranked by, matches of grace); the fourth is the league's default."""


@dataclass(frozen=True)
class ReplacementRow:
    """One setting; teachers and students are culled alike, the weakest of each role.

    every: rounds between two replacements. newborn: share of the culled that had come at the
    replacement before; chance is 1 / members. regret: mean true solve rate (teachers: of failure)
    that the culled one had above the worst of its role; both None if none was culled. spared:
    share of replacements that did not happen, for all were within their grace. rmse: of predicted
    solve rates, over all rounds.
    """

    every: int
    child: str
    ranked_by: str
    grace: int
    newborn: float | None
    regret: float | None
    spared: float
    rmse: float


@dataclass
class _Side:
    """One role: true skills, beliefs, matches since birth and order of birth, all [W, M]."""

    skill: Floats
    belief: Skills
    matches: Ints
    birth: Ints


def replacement_table(
    world: World,
    intervals: Sequence[int] = (10, 2),
    jump: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> list[ReplacementRow]:
    """Play worlds in which every so many rounds the weakest of each role gives way to a child.

    A child's true skill is that of a random survivor, plus a normal jump of that standard
    deviation.
    """
    rows = []
    for every in intervals:
        for setting in SETTINGS:
            rows.append(_played(world, every, *setting, jump))
            if progress:
                progress(len(rows), len(intervals) * len(SETTINGS))
    return rows


def _played(
    world: World, every: int, child: str, ranked_by: str, grace: int, jump: float
) -> ReplacementRow:
    rng = stream(world.seed, "replacement")
    model = replace(RatingModel(), tau=world.drift)
    batch = Batch(model)
    rater = Contender("", fractional(batch, 1.0), batch)
    shape = (world.worlds, world.members)
    teachers, students = (
        _Side(
            world.spread * rng.standard_normal(shape),
            newcomers(world, model),
            np.full(shape, grace),
            np.tile(-np.arange(world.members), (world.worlds, 1)) - 1,
        )
        for _ in range(2)
    )
    newborn, regret, errors = [], [], []
    tried = 0
    for number in range(world.rounds):
        partner = np.argsort(rng.random(shape), axis=1)
        gaps = students.skill[:, None, :] - teachers.skill[:, :, None]
        met = np.take_along_axis(gaps, partner[:, :, None], axis=2)[:, :, 0]
        turn = Round(number, partner, solve(world, met, rng), gaps)
        teachers.belief, students.belief = rated(
            rater, world, teachers.belief, students.belief, turn
        )
        truth = solve_rates(gaps / world.scale)
        column, row = teachers.belief, students.belief
        predicted = batch.predict(
            Skills(column.mu[:, :, None], column.sigma[:, :, None]),
            Skills(row.mu[:, None, :], row.sigma[:, None, :]),
        )
        errors.append(((predicted - truth) ** 2).mean())
        for side in (teachers, students):
            side.matches = side.matches + 1
            side.skill = side.skill + world.drift * rng.standard_normal(shape)
        if (number + 1) % every == 0:
            quality = (1.0 - truth.mean(axis=2), truth.mean(axis=1))
            for side, good in zip((teachers, students), quality, strict=True):
                found = _replaced(side, good, number, child, ranked_by, grace, jump, model, rng)
                newborn.append(found[0])
                regret.append(found[1])
                tried += world.worlds
    culled = np.concatenate(newborn) if newborn else np.zeros(0)
    return ReplacementRow(
        every,
        child,
        ranked_by,
        grace,
        newborn=float(culled.mean()) if culled.size else None,
        regret=float(np.concatenate(regret).mean()) if culled.size else None,
        spared=1.0 - culled.size / tried if tried else 0.0,
        rmse=float(np.mean(errors) ** 0.5),
    )


def _replaced(
    side: _Side,
    good: Floats,
    number: int,
    child: str,
    ranked_by: str,
    grace: int,
    jump: float,
    model: RatingModel,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Cull the weakest of every world that has an eligible one; who was newborn, and regret."""
    doubt = 3.0 if ranked_by == "mu - 3 sigma" else 0.0
    fitness = side.belief.mu - doubt * side.belief.sigma
    fitness = np.where(side.matches >= grace, fitness, np.inf)
    worlds, size = fitness.shape
    weakest = fitness.argmin(axis=1)
    parent = (weakest + rng.integers(1, size, worlds)) % size
    step = np.asarray(jump * rng.standard_normal(worlds))
    chosen = np.flatnonzero(np.isfinite(fitness.min(axis=1)))
    out, origin = weakest[chosen], parent[chosen]
    born = side.birth[chosen, out]
    newest = (born == side.birth[chosen].max(axis=1)) & (born >= 0)
    regret = good[chosen, out] - good[chosen].min(axis=1)
    mu, sigma = side.belief.mu.copy(), side.belief.sigma.copy()
    if child == "reset":
        mu[chosen, out], sigma[chosen, out] = model.mu, model.sigma
    else:
        inflation = 0.3 * model.sigma if child == "inherit + inflate" else 0.0
        mu[chosen, out] = mu[chosen, origin]
        wide = np.hypot(sigma[chosen, origin], inflation)
        sigma[chosen, out] = np.minimum(wide, model.sigma)
    side.belief = Skills(mu, sigma)
    side.skill[chosen, out] = side.skill[chosen, origin] + step[chosen]
    side.matches[chosen, out] = 0
    side.birth[chosen, out] = number
    return newest.astype(np.float64), regret
