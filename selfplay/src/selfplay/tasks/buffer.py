"""The buffer of a run's accepted tasks, from which references are drawn."""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, TypeVar

from numpy.random import Generator

from code_verifier import Task
from lora_evo.model import stream
from selfplay.tasks.held_out import Guard, equal_task
from selfplay.tasks.kind import CALLS

T = TypeVar("T")


class TaskBuffer:
    """The accepted tasks of a run without duplicates, newest last.

    Tasks of code_o and code_i share a pool of `size` tasks; each other kind has its own pool.
    """

    def __init__(
        self, size: int, tasks: Iterable[Task] = (), keeps: Literal["newest", "oldest"] = "newest"
    ) -> None:
        self._size, self._keeps = size, keeps
        self._pools: dict[tuple[str, ...], deque[Task]] = {}
        self._steps: dict[Hashable, int] = {}
        """Step of each task."""
        self._seeds = list(tasks)
        for task in self._seeds:
            self.add(task)

    def _pool(self, kind: str) -> deque[Task]:
        return self._pools.setdefault(CALLS if kind in CALLS else (kind,), deque())

    def add(self, task: Task, step: int = 0) -> bool:
        """Add a task of this step; return False for a duplicate, or if the buffer is full."""
        pool = self._pool(task.kind)
        full = len(pool) == self._size
        if content(task) in self._steps or (full and self._keeps == "oldest"):
            return False
        if full:
            del self._steps[content(pool.popleft())]
        self._steps[content(task)] = step
        pool.append(task)
        return True

    def draw(
        self, count: int, seed: int, seed_share: float = 0.0, shows: Sequence[str] = CALLS
    ) -> list[Task]:
        """Return up to `count` different tasks of these kinds, drawn by the seed.

        With probability `seed_share` they are drawn from the tasks that the run started from.
        """
        rng = stream(seed)
        seeds = [task for task in self._seeds if task.kind in shows]
        of_seeds = bool(seeds) and seed_share > 0.0 and rng.random() < seed_share
        accepted = [t for p in self._pools.values() for t in p if t.kind in shows]
        return draw_from(seeds if of_seeds else accepted, count, rng)

    def draw_newest(
        self, kind: str, count: int, step: int, seed: int, guard: Guard | None = None
    ) -> list[Task]:
        """Return up to `count` different tasks of a kind: those of the last step, then older ones.

        The run's seeds count for both code_o and code_i, but for those that guard holds as such.
        """
        fitting = [t for t in self._pool(kind) if t.kind == kind or self._steps[content(t)] == 0]
        newest = [t for t in fitting if self._steps[content(t)] == step - 1]
        others = [t for t in fitting if self._steps[content(t)] != step - 1]
        rng = stream(seed)
        drawn = [group[int(i)] for group in (newest, others) for i in rng.permutation(len(group))]
        of_kind = (replace(t, kind=kind) for t in drawn)
        return list(islice((t for t in of_kind if not equal_task(t, guard or {})), count))


def draw_from(tasks: Sequence[Task], most: int, rng: Generator) -> list[Task]:
    """Return up to `most` of the tasks, drawn without replacement."""
    places = rng.choice(len(tasks), min(most, len(tasks)), replace=False)
    return [tasks[int(i)] for i in places]


def shuffled(items: Sequence[T], seed: int) -> list[T]:
    """Return the items in an order drawn by the seed."""
    return [items[int(i)] for i in stream(seed).permutation(len(items))]


def content(task: Task) -> Hashable:
    """Return what duplicates have in common; those of code_o and code_i are duplicates, too."""
    return task.kind not in CALLS and task.kind, task.program, task.input, task.inputs
