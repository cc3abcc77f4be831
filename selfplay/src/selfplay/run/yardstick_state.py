"""What a run is measured on, and what the frozen base made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from code_verifier import Task
from selfplay.run.held_out import HeldOutTask
from selfplay.run.stages import Attempt


@dataclass(frozen=True)
class Solving:
    """A member's attempts at the held-out tasks, task by task."""

    tasks: tuple[HeldOutTask, ...]
    attempts: tuple[tuple[Attempt, ...], ...]

    @property
    def judged(self) -> list[list[Attempt]]:
        """The attempts at each task that the sandbox judged."""
        return [[a for a in tries if not a.void] for tries in self.attempts]

    @property
    def rates(self) -> list[float | None]:
        """Share of the judged attempts that solved each task; None where there is none."""
        return [fmean(a.score >= 1.0 for a in tries) if tries else None for tries in self.judged]


@dataclass
class Yardstick:
    """What a run is measured on; it never changes while the run lasts."""

    tasks: Sequence[HeldOutTask]
    references: Sequence[Task]
    """The tasks that the run started from."""
    base: Solving | None = None
    """The frozen base's attempts: sampled once, and again after a resume."""
