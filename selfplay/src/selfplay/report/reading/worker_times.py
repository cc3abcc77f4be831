"""How long each worker of a run worked, how long it waited, and who was waited for."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from selfplay.report.reading.run_data import Run

_STRAGGLES = 1.25
"""A worker that works this many times as long a step as the others' median is waited for."""


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """One worker over the steps in which it worked."""

    name: str
    host: str
    members: tuple[str, ...]
    """At the end."""
    steps: int
    busy: float
    """Seconds."""
    wall: float
    """Seconds that these steps took."""
    memory_mb: float

    @property
    def share(self) -> float:
        """Share of the time in which it worked; the rest it was idle."""
        return self.busy / self.wall if self.wall > 0 else 0.0


def worker_times(run: Run) -> list[WorkerTime]:
    """Return the workers in the order in which they joined; none of a run in one process."""
    found: dict[str, WorkerTime] = {}
    for step in run.steps:
        wall = sum(step.seconds.values())
        resources = run.resources.get(step.step)
        for name, row in (resources.workers if resources else {}).items():
            old = found.get(name) or WorkerTime(name, row.host, row.members, 0, 0.0, 0.0, 0.0)
            found[name] = WorkerTime(
                name,
                row.host,
                row.members,
                old.steps + 1,
                old.busy + row.busy,
                old.wall + wall,
                max(old.memory_mb, row.memory_mb),
            )
    return list(found.values())


def straggler(times: Sequence[WorkerTime]) -> WorkerTime | None:
    """Return the worker for whom the others wait, if there is one."""
    if len(times) < 2:
        return None
    slowest = max(times, key=lambda w: w.busy / w.steps)
    others = [w.busy / w.steps for w in times if w is not slowest]
    return slowest if slowest.busy / slowest.steps > _STRAGGLES * median(others) else None
