"""A row of tasks.jsonl: one proposal, its verdict, and what the matched student made of it."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins

from code_verifier import Task
from selfplay.records.ranges import AtLeastOne


class AttemptRow(Struct, frozen=True):
    """Equal answers of a student."""

    thought: str = ""
    answer: str | None = None
    """None where none could be read."""
    score: float = 0.0
    """In [0, 1]."""
    count: AtLeastOne = 1
    reward: float | None = None
    """None where nobody learned from it, and in older runs."""
    advantage: float | None = None
    """By which it moved its student."""

    @property
    def verdict(self) -> str:
        """`right`, `partly`, `wrong` or `ill-formed`."""
        if self.answer is None:
            return "ill-formed"
        if self.score >= 1.0:
            return "right"
        return "partly" if self.score > 0.0 else "wrong"


class TaskRow(Struct, frozen=True, kw_only=True):
    """One proposal."""

    id: str
    step: int
    teacher: str
    student: str | None = None
    kind: str
    references: tuple[str, ...] = ()
    """Ids of the tasks that the teacher was shown."""
    program: str | None = None
    input: str | None = None
    output: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    message: str = ""
    visible: int = 0
    status: str
    """`ok` where the proposal became a task."""
    reason: str = ""
    metrics: dict[str, Any] | None = None
    rho: float | None = None
    """Share of the judged attempts that solved the task."""
    base_rho: float | None = None
    """The frozen base's, where the task was drawn for comparison."""
    reward: float | None = None
    """The teacher's."""
    advantage: float | None = None
    """By which it moved its teacher."""
    attempts: tuple[AttemptRow, ...] = ()
    text: str | UnsetType | None = UNSET
    """What the teacher wrote, where it could not be read as a proposal."""

    @property
    def accepted(self) -> bool:
        """Whether the proposal became a task."""
        return self.status == "ok"

    def task(self) -> Task:
        """Return the task of an accepted proposal."""
        return Task.from_row(to_builtins(self), complete=True)
