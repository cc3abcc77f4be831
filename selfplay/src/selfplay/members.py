"""Members: their names and roles, and what every population of them can do."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lora_evo import Adapter
from selfplay.config import Config
from selfplay.learning.batch import TrainingSample
from selfplay.learning.statistics import UpdateStats
from selfplay.pieces import deal, piece_count
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Attempt, Prompts, Proposed, W

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


def cut(asked: Sequence[W], prompts: Prompts, config: Config) -> list[list[int]]:
    """Return the pieces, by number, of what is to be sampled; one where the run is not cut.

    Equal prompts, which are read once, stay together, and long ones are spread evenly.
    """
    if not config.pieces:
        return [list(range(len(asked)))] if asked else []
    texts = [prompts.text_of(a) for a in asked]
    rows: dict[str | None, list[int]] = defaultdict(list)
    for i in sorted(range(len(asked)), key=lambda i: (len(texts[i]), texts[i])):
        a = asked[i]
        rows[a.member if isinstance(a, Attempt) else a.teacher].append(i)
    sizes = {"teacher": config.teachers, "student": config.students}
    pieces = []
    for member in sorted(rows, key=lambda name: (name is None, name or "")):
        own = rows[member]
        if member is None:
            count = -(-len(own) // max(1, config.rollout.max_rows // 4))
        else:
            count = piece_count(len(own), config.pieces, sizes.get(role_of(member), 1))
        pieces += [[own[k] for k in hand] for hand in deal([texts[i] for i in own], count)]
    return pieces


@dataclass(frozen=True)
class SavedMember:
    """A member as a checkpoint has it.

    - scalars: of its optimiser.
    - sha256: of its file of weights and moments.
    """

    name: str
    scalars: Mapping[str, float]
    sha256: str = ""


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

    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        """Write every member to a checkpoint's folder, and its adapter to `home/<name>`."""

    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        """Continue from what `save` wrote to a folder; by place."""

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step; none without workers."""
