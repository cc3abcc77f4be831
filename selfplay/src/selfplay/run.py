"""An open run: everything that a step works with, and how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from code_verifier import Task
from league import League
from lora_evo.model import derive_seed
from selfplay.config import Config
from selfplay.hashes import Hashes
from selfplay.population import Population
from selfplay.rollout import Attempt
from selfplay.tasks import HeldOutTask, TaskBuffer
from selfplay.tracking import Trackers
from selfplay.verifier import Verifier

if TYPE_CHECKING:  # Ray is optional
    from selfplay.workers.population import RemotePopulation


@dataclass
class Run:
    """The parts of a run and how far it is."""

    config: Config
    directory: Path
    population: "Population | RemotePopulation"
    verifier: Verifier
    seeds: Sequence[Task]
    """The tasks that the run starts from."""
    held_out: Sequence[HeldOutTask]
    """The tasks that members are measured on; they never change."""
    buffer: TaskBuffer
    """Tasks that teachers are shown as references."""
    born: dict[str, int]
    """Members ever born of each role; the next child's number."""
    league: League | None = None
    """None in mode azr: the one agent has no opponent."""
    structures: set[str] = field(default_factory=set)
    """Normalised structures of all accepted programs so far: the coverage."""
    base_attempts: list[list[Attempt]] | None = None
    """The frozen base's attempts at the held-out tasks: sampled once, and again after a resume."""
    step: int = 0
    """Steps done."""
    trackers: Trackers = field(default_factory=Trackers)
    hashes: Hashes = field(default_factory=Hashes)
    """Of files, as far as they have been written."""

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)
