"""Leagues of members whose true skills are known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from league import League, LeagueConfig, Outcome
from league.pairing import stream
from league.ratings import Floats, log_cdf_pair

TEACHERS, STUDENTS = ([f"{side}{i}" for i in range(4)] for side in "ts")
TASKS = 16
ROLLOUTS = 8
SPREAD = 4.0
"""Standard deviation of the true skills."""
ALIKE = 0.5
"""The share of a performance's variance that belongs to the task, so that rollouts of one task
agree more than chance."""

Skills = dict[str, float]


def play(
    directory: Path,
    rounds: int,
    drift: float,
    *,
    world: int = 0,
    config: LeagueConfig | None = None,
    broken: str = "",
    replace_at: int | None = None,
    look: Callable[[League, Skills], None] = lambda _league, _skills: None,
) -> None:
    """Found a league of four teachers and four students and play some rounds.

    drift: standard deviation of each skill's step between rounds. world: another one has other
    skills. broken: the teacher who writes invalid tasks, and one in 16 valid but impossible.
    replace_at: the round after which a copy of t0 takes the slot of t3. look: called after every
    round with the true skills.
    """
    config = config or LeagueConfig()
    rng = stream(config.seed, "world", world)
    skills = {name: SPREAD * rng.standard_normal() for name in (*TEACHERS, *STUDENTS)}
    scale = config.model.performance_scale
    with League(directory, TEACHERS, STUDENTS, config) as league:
        for number in range(rounds):
            for pair in league.pair(number):
                gap = skills[pair.student] - skills[pair.teacher]
                outcome = Outcome(TASKS, 1, ROLLOUTS, 0, 1)
                if pair.teacher != broken:
                    outcome = match(gap, scale, rng)
                league.record(pair, outcome)
            if number == replace_at:
                league.replace("t3", "t4", ["t0"], "mutate")
                skills["t4"] = skills["t0"]
            look(league, skills)
            for name in skills:
                skills[name] += drift * rng.standard_normal()


def match(gap: float, scale: float, rng: np.random.Generator) -> Outcome:
    """Return what a student wins whose skill is above the teacher's by `gap` rating units."""
    offsets = scale * np.sqrt(ALIKE) * rng.standard_normal(TASKS)
    chances = win_chance(gap - offsets, scale * np.sqrt(1.0 - ALIKE))
    solved = rng.binomial(ROLLOUTS, chances)
    unsolved = int((solved == 0).sum())
    return Outcome(TASKS, TASKS, TASKS * ROLLOUTS, int(solved.sum()), unsolved)


def win_chance(gap: Floats, scale: float) -> Floats:
    """Return the true solve rate at gaps of skill, of gap's shape."""
    return np.exp(log_cdf_pair(gap / scale)[0])
