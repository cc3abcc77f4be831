"""Grade math answers in child processes: own rules, and Math-Verify for what they cannot read."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from code_verifier.sandbox.closing import Closing
from evals.errors import EvalsError
from evals.math import symbolic
from evals.math.golds import Gold
from evals.math.workers import Reply, Worker

AHEAD = 2
"""Pairs under way in each process."""


@dataclass(frozen=True)
class MathVerdict:
    """correct is None when the grading process, not the answer, failed.

    extracted: the answer that was found; None where there was none, or where it ended its judge.
    gold: what it was compared with. reason: the name of the rule that decided.
    """

    correct: bool | None
    extracted: str | None
    gold: str
    reason: str


class MathGrader(Closing):
    """A context manager that owns the grading processes.

    workers: processes for the own rules; one more starts when Math-Verify is first needed.
    seconds: of processor time that one comparison may take; then the answer is wrong, "timeout".
    Raises EvalsError when Math-Verify is not installed: verdicts do not depend on what is.
    """

    def __init__(self, workers: int = 1, seconds: float = 1.5) -> None:
        if workers < 1 or not seconds > 0:
            raise EvalsError(
                f"workers={workers}, seconds={seconds}; expected at least 1 and more than 0"
            )
        symbolic.require()
        self._stack = ExitStack()
        self._workers = [self._stack.enter_context(Worker(False, seconds)) for _ in range(workers)]
        self._symbolic = self._stack.enter_context(Worker(True, seconds))

    def grade_many(self, pairs: Iterable[tuple[Gold, str]]) -> Iterator[MathVerdict]:
        """Verdicts on (gold, response) in order; reads only a few pairs ahead."""
        waiting: deque[tuple[Worker, Gold, str]] = deque()
        for number, (gold, response) in enumerate(pairs):
            if len(waiting) == AHEAD * len(self._workers):
                yield self._next(waiting)
            worker = self._workers[number % len(self._workers)]
            worker.send(gold, response)
            waiting.append((worker, gold, response))
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: deque[tuple[Worker, Gold, str]]) -> MathVerdict:
        worker, gold, response = waiting.popleft()
        reply: Reply = worker.receive()
        if reply.deferred:
            self._symbolic.send(gold, response)
            reply = self._symbolic.receive()
        return MathVerdict(reply.correct, reply.extracted, gold.text, reply.reason)

    def close(self) -> None:
        """End all processes."""
        self._stack.close()
