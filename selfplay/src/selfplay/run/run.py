"""An open run: everything a step works with."""

from dataclasses import dataclass, field
from pathlib import Path

from evals.engine.streams import derive_seed
from league import League
from selfplay.config.run_config import RunConfig
from selfplay.population.parts import Judge, Parts, PopulationLearner, Writers
from selfplay.run.buffer import TaskBuffer
from selfplay.run.yardstick_state import Yardstick
from selfplay.tracking.session import Trackers


@dataclass
class Run:
    """The parts of a run and how far it is. Only `loop` and `evolution` change it."""

    config: RunConfig
    directory: Path
    parts: Parts
    league: League | None
    """None in mode azr: one agent has nobody to be matched with."""
    buffer: TaskBuffer
    structures: set[str]
    """Normalised structures of all accepted programs so far: the coverage."""
    born: dict[str, int]
    """Members ever born of each role; the next child's number."""
    yardstick: Yardstick
    """What members are measured on."""
    step: int = 0
    """Steps done."""
    trackers: Trackers = field(default_factory=Trackers)
    """Told of every step; none are open before the first."""

    @property
    def learner(self) -> PopulationLearner:
        """All members, learning."""
        return self.parts.learner

    @property
    def writers(self) -> Writers:
        """All members, writing."""
        return self.parts.writers

    @property
    def judge(self) -> Judge:
        """Judges proposals and answers."""
        return self.parts.judge

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)
