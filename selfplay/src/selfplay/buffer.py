"""The newest accepted tasks, from which teachers are shown references."""

from collections import deque
from collections.abc import Iterable

from code_verifier import Task
from selfplay.sampling import stream


class TaskBuffer:
    """Holds code_o and code_i tasks (whose programs also serve code_f), newest last, no repeats."""

    def __init__(self, size: int, tasks: Iterable[Task] = ()) -> None:
        self._size = size
        self._tasks: deque[Task] = deque()
        self._known: set[tuple[str, str | None]] = set()
        for task in tasks:
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

    def draw(self, count: int, seed: int) -> list[Task]:
        """Return up to `count` different tasks, the same for the same seed and contents."""
        picked = stream(seed).choice(len(self._tasks), min(count, len(self._tasks)), replace=False)
        return [self._tasks[int(i)] for i in picked]
