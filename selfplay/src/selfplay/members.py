"""Members: their names and roles, and what every population of them can do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from lora_evo import Adapter
from selfplay.config import Config
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import NamedState
from selfplay.learning.statistics import UpdateStats
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Attempt, Prompts, Proposed

Advance = Callable[[int, int], None]
"""Hears how many pieces of a phase's work are done, and how many there are."""


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def founders(config: Config) -> tuple[list[str], list[str]]:
    """Return the names of the first teachers and students; one agent in mode azr."""
    if config.mode == "azr":
        return ["a0"], ["a0"]
    return [f"t{i}" for i in range(config.teachers)], [f"s{i}" for i in range(config.students)]


def all_founders(config: Config) -> list[str]:
    """Return the names of all first members in the order of their places."""
    teachers, students = founders(config)
    return list(dict.fromkeys(teachers + students))


class Members(Protocol):
    """All members of a run, in this process or on workers.

    - members: names in the order of their places.
    - prompts: what makes requests of drafts and attempts.
    """

    prompts: Prompts

    @property
    def members(self) -> tuple[str, ...]: ...

    @property
    def shares_parameters(self) -> bool:
        """Whether what a member learns is what it samples with, without being synchronised."""

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        """Sample every draft; yield proposals in the order in which they are finished."""

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        """Sample every attempt; yield them in the order in which they are finished."""

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, UpdateStats]:
        """Let every member learn from its own samples; return statistics by member."""

    def sync(self, step: int) -> None:
        """Let members sample as they are after this step."""

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place, with a fresh optimiser state."""

    def state_dict(self) -> NamedState:
        """Return all that continues the members."""

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step; none without workers."""
