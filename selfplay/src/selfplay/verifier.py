"""The sandbox's verdicts on what members write: proposals, and answers to tasks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from code_verifier import Grade, Limits, Proposal, Sandbox, Status, Task, Verdict, measure
from selfplay.config import Config
from selfplay.rollout import Attempt, Proposed


class Verifier(Protocol):
    """A sandbox, or several on several machines; verdicts come in the order of the questions."""

    def validate_many(self, proposals: Iterable[Proposal], /) -> Iterator[Verdict]:
        """Validate proposals as they come."""

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Grade answers as they come."""


def open_sandbox(config: Config) -> Sandbox:
    """Return the sandbox of a run."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def validated(
    proposed: Iterable[Proposed], verifier: Verifier, excess: Callable[[Task], str]
) -> list[Proposed]:
    """Validate proposals as they are written; return them in the order of their numbers.

    excess says why the prompts of a task are too long; empty where they fit.
    """
    found: list[Proposed] = []
    asked: list[Proposed] = []

    def readable() -> Iterator[Proposal]:
        for p in proposed:
            if p.proposal is None:
                found.append(p)
            else:
                asked.append(p)
                yield p.proposal

    for i, verdict in enumerate(verifier.validate_many(readable())):
        p, proposal = asked[i], asked[i].proposal
        if verdict.task is None or proposal is None:
            found.append(replace(p, status=verdict.status, reason=verdict.reason))
        elif too_long := excess(verdict.task):
            found.append(replace(p, status=Status.TOO_LONG, reason=too_long))
        else:
            task, metrics = replace(verdict.task, id=p.id), measure(proposal.parsed)
            found.append(replace(p, status=verdict.status, reason="", task=task, metrics=metrics))
    return sorted(found, key=lambda p: p.number)


def graded(attempts: Iterable[Attempt], verifier: Verifier) -> list[Attempt]:
    """Grade attempts as they are written; return them in the order of their numbers."""
    found: list[Attempt] = []
    asked: list[Attempt] = []

    def answers() -> Iterator[tuple[Task, str]]:
        for a in attempts:
            if a.answer is None:
                found.append(replace(a, reason="ill-formed"))
            else:
                asked.append(a)
                yield a.task, a.answer

    for i, grade in enumerate(verifier.grade_many(answers())):
        a = asked[i]
        infra_error = not grade.judged
        found.append(replace(a, score=grade.score, reason=grade.reason, infra_error=infra_error))
    return sorted(found, key=lambda a: a.number)
