"""A made-up world: members of known skill, and what happens when two of them meet."""

from dataclasses import dataclass, field

import numpy as np

from league.config import LeagueConfig
from league.errors import LeagueError
from league.rating.normal import cdf
from league.state.outcome import Outcome


@dataclass(frozen=True)
class Simulation:
    """A made-up world, repeated."""

    teachers: int = 4
    students: int = 4
    rounds: int = 60
    tasks: int = 16
    """Per batch."""
    rollouts: int = 8
    """Per task."""
    worlds: int = 8
    spread: float = 4.0
    """Standard deviation of the true skills."""
    drift: float | None = None
    """Of each skill's step between rounds; None means config.tau, that is, a world that moves as
    the model believes."""
    alike: float = 0.5
    """The share of a performance's variance that belongs to the task, so that rollouts of one task
    agree more than chance."""
    broken: bool = False
    """Whether the last teacher writes invalid tasks, and one in 16 valid but impossible."""
    seed: int = 0
    config: LeagueConfig = field(default_factory=LeagueConfig)

    def __post_init__(self) -> None:
        for name in ("teachers", "students", "rounds", "tasks", "rollouts", "worlds"):
            if getattr(self, name) < 1:
                raise LeagueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.broken and self.teachers < 2:
            raise LeagueError("a broken teacher needs at least one other; expected teachers >= 2")
        if not (
            0.0 <= self.alike < 1.0
            and 0.0 <= self.spread < float("inf")
            and 0.0 <= (self.drift or 0.0) < float("inf")
        ):
            raise LeagueError("expected 0 <= alike < 1, and finite spread >= 0 and drift >= 0")


def made_up_match(
    simulation: Simulation, gap: float, broken: bool, rng: np.random.Generator
) -> Outcome:
    tasks = simulation.tasks
    if broken:
        valid = max(tasks // 16, 1) if tasks > 1 else 0
        return Outcome(tasks, valid, valid * simulation.rollouts, 0, valid)
    scale = float(np.sqrt(2.0)) * simulation.config.beta
    task_scale = scale * float(np.sqrt(simulation.alike))
    own_scale = scale * float(np.sqrt(1.0 - simulation.alike))
    offsets = task_scale * rng.standard_normal(tasks)
    chances = [cdf((gap - float(offset)) / own_scale) for offset in offsets]
    solved = rng.binomial(simulation.rollouts, chances)
    return Outcome(
        tasks, tasks, tasks * simulation.rollouts, int(solved.sum()), int((solved == 0).sum())
    )
