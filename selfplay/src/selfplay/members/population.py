"""Members: their names and roles, and what every population of them can do."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lora_evo import Adapter
from selfplay.config import Config
from selfplay.files.rows import BASE, MemberRow, WorkerRow
from selfplay.learning.batch import TrainingSample
from selfplay.members.pieces import batches, deal, even
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import Attempt, Proposed, W

T = TypeVar("T")
Advance = Callable[[int, int], None]
"""Hears how many pieces of a phase's work are done, and how many there are."""


def counted(
    pieces: Iterable[T], total: int, advance: Advance | None, before: int = 0
) -> Iterator[T]:
    """Yield pieces of a phase's work as they are done, and let `advance` hear of each.

    total: pieces of the phase, of which `before` are done.
    """
    for done, piece in enumerate(pieces, start=before + 1):
        if advance is not None:
            advance(done, total)
        yield piece


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


@dataclass(frozen=True)
class SavedMember:
    """A member as a checkpoint has it.

    - scalars: of its optimiser.
    - sha256: of its file of weights and moments.
    """

    name: str
    scalars: Mapping[str, float]
    sha256: str = ""


class Members(ABC):
    """All members of a run, in this process or on workers.

    - prompts: what makes requests of drafts and attempts.
    - shares_parameters: whether what a member learns is what it samples with, without `sync`.
    """

    def __init__(self, config: Config, prompts: Prompts, shares_parameters: bool) -> None:
        self.config, self.prompts, self.shares_parameters = config, prompts, shares_parameters

    @property
    @abstractmethod
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        """Sample every draft; yield proposals in the order in which they are finished."""
        return self.written(self._cut(drafts))

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        """Sample every attempt; yield them in the order in which they are finished."""
        return self.written(self._cut(attempts))

    @abstractmethod
    def written(self, pieces: Sequence[Sequence[W]]) -> Iterator[W]:
        """Sample what is asked, piece by piece, and read it."""

    @abstractmethod
    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, MemberRow]:
        """Let every member learn from its own samples; return statistics by member."""

    @abstractmethod
    def sync(self, step: int) -> None:
        """Let members sample as they are after this step."""

    @abstractmethod
    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""

    @abstractmethod
    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place, with a fresh optimiser state."""

    @abstractmethod
    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        """Write every member to a checkpoint's folder, and its adapter to `home/<name>`."""

    @abstractmethod
    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        """Continue from what `save` wrote to a folder; by place."""

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step; none without workers."""
        return {}

    def _cut(self, asked: Sequence[W]) -> list[list[W]]:
        """Return the pieces of what is to be sampled; one where the run is not cut.

        Equal prompts, which are read once, stay together, and long ones are spread evenly.
        """
        config = self.config
        if not config.pieces:
            return [list(asked)] if asked else []
        texts = [self.prompts.text_of(a) for a in asked]
        # An engine of its own makes up its batches, best of few members. Here company is cheap.
        apart = config.pieces == 1 or not self.shares_parameters
        rows: dict[str, list[int]] = defaultdict(list)
        for i in sorted(range(len(asked)), key=lambda i: (len(texts[i]), texts[i])):
            rows[(asked[i].writer or BASE) if apart else ""].append(i)
        sizes = {"teacher": config.teachers, "student": config.students}
        pieces = []
        for member, own in sorted(rows.items()):
            size = sizes.get(role_of(member), 1) if apart else 1
            fitting = batches(len(own)) if self.shares_parameters else len(own)
            count = even(min(fitting, -(-config.pieces // size)))
            hands = deal([texts[i] for i in own], count)
            pieces += [[asked[own[k]] for k in hand] for hand in hands]
        return pieces
