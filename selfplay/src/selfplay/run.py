"""An open run: its configuration, its members, and how far it is."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from code_verifier import Sandbox, Task
from league import League
from lora_evo.model import derive_seed
from selfplay.config import Config
from selfplay.extensions import Extensions
from selfplay.members import Advance, Members
from selfplay.prompts.template import Template
from selfplay.records.tracking import Trackers
from selfplay.tasks import HeldOutTask, TaskBuffer

T = TypeVar("T")


@dataclass(repr=False)
class Run:
    """The parts of a run and how far it is.

    - held_out: the tasks that members are measured on; they never change.
    - born: members ever born of each role; the next child's number.
    - seeds: the tasks that the run starts from.
    - buffer: tasks that teachers are shown as references.
    - league: None in mode azr: the one agent has no opponent.
    - before: solve rate of each held-out task before the first step: of the base and of a warm
      start.
    - parents: what each child was made of: folders of `ancestors`.
    - structures: how often each normalised structure came in accepted programs: the coverage.
    - step: steps done.
    - extensions: rewards, operators and callbacks.
    - advance: hears how far a phase is.
    - changed_rewards: by role, what is to be said of rewards that hold something else than at the
      start, and have no `state_dict`.
    """

    config: Config
    directory: Path
    population: Members
    sandbox: Sandbox
    held_out: Sequence[HeldOutTask]
    born: dict[str, int]
    seeds: Sequence[Task] = ()
    buffer: TaskBuffer = field(default_factory=lambda: TaskBuffer(0))
    league: League | None = None
    before: dict[str, list[float | None]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    structures: Counter[str] = field(default_factory=Counter)
    step: int = 0
    trackers: Trackers = field(default_factory=Trackers)
    extensions: Extensions = field(default_factory=Extensions)
    advance: Advance = lambda done, total: None
    changed_rewards: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        done, members = (
            f"step {self.step} of {self.config.steps}",
            " ".join(self.population.members),
        )
        return f"Run({str(self.directory)!r}, {done}, members {members})"

    @property
    def template(self) -> Template:
        """The task kinds in play, and what they are asked in."""
        return self.population.prompts.template

    def start_from(self, seeds: Sequence[Task]) -> None:
        """Let the run start from these tasks."""
        r = self.config.rollout
        self.seeds, self.buffer = seeds, TaskBuffer(r.buffer_tasks, seeds, r.buffer_keeps)

    def counted(self, pieces: Iterable[T], total: int, before: int = 0) -> Iterator[T]:
        """Yield pieces of a phase's work as they are done, and let `advance` hear of each.

        total: pieces of the phase, of which `before` are done.
        """
        for done, piece in enumerate(pieces, start=before + 1):
            self.advance(done, total)
            yield piece

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)
