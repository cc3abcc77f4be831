"""The newest accepted tasks, from which teachers are shown references."""

from collections import deque
from collections.abc import Iterable

from code_verifier import Task
from evals.engine.streams import stream


class TaskBuffer:
    """Holds code_o and code_i tasks (whose programs also serve code_f), newest last, no repeats."""

    def __init__(self, size: int, tasks: Iterable[Task] = ()) -> None:
        self._size = size
        self._tasks: deque[Task] = deque()
        self._known: set[tuple[str, str | None]] = set()
        self._seeds = list(tasks)
        for task in self._seeds:
            self.add(task)

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: Task) -> bool:
        """Add a task; False when the same program and input is in the buffer already."""
        key = (task.program, task.input)
        if key in self._known:
            return False
        self._known.add(key)
        self._tasks.append(task)
        if len(self._tasks) > self._size:
            old = self._tasks.popleft()
            self._known.remove((old.program, old.input))
        return True

    def draw(self, count: int, seed: int, seed_share: float = 0.0) -> list[Task]:
        """Return up to `count` different tasks, the same for the same seed and contents.

        With probability `seed_share` they come from the tasks that the run started from.
        """
        rng = stream(seed)
        seeds = bool(self._seeds) and seed_share > 0.0 and rng.random() < seed_share
        pool = self._seeds if seeds else self._tasks
        picked = rng.choice(len(pool), min(count, len(pool)), replace=False)
        return [pool[int(i)] for i in picked]
