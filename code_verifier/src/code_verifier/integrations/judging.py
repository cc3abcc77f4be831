"""What the integrations share: tasks from rows, a sandbox opened when needed, one score."""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.outcomes import Grade
from code_verifier.tasks.task import Task

Parse = Callable[[str], str | None]


class Judge:
    """Grades answers in a sandbox: the one given, or one opened at first use in each process. A
    copy sent to another process (pickle) opens a sandbox of its own there."""

    def __init__(self, sandbox: Sandbox | None, partial_credit: bool) -> None:
        self._sandbox = sandbox
        self._partial_credit = partial_credit
        self._lock = threading.Lock()

    def sandbox(self) -> Sandbox:
        """The sandbox in use; the first call may take a while, for it starts processes."""
        with self._lock:
            if self._sandbox is None:
                self._sandbox = Sandbox(workers=os.cpu_count() or 1)
            return self._sandbox

    def scores(self, pairs: Sequence[tuple[Task, str]]) -> list[float | None]:
        """The score of each (task, answer), in order; None for a fault of the sandbox. Pairs are
        judged in parallel, and equal ones once."""
        different = list(dict.fromkeys(pairs))
        if not different:
            return []
        grades = self.sandbox().grade_many(different)
        found = dict(zip(different, map(self.score, grades), strict=True))
        return [found[pair] for pair in pairs]

    def score(self, grade: Grade) -> float | None:
        """0.0 to 1.0, or None when the sandbox failed and the answer was not judged."""
        if not grade.judged:
            return None
        if self._partial_credit and grade.total:
            return (grade.passed or 0) / grade.total
        return grade.score

    def __reduce__(self) -> tuple[Any, ...]:
        return Judge, (None, self._partial_credit)
