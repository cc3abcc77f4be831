"""The judge: the sandbox's verdicts on proposals and on attempts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from code_verifier import (
    CodeVerifierError,
    Grade,
    Limits,
    Metrics,
    Proposal,
    Sandbox,
    Status,
    Task,
    Verdict,
    measure,
    ordered_map,
)
from selfplay.config import Config
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import FORM, Attempt, Proposed


def open_sandbox(config: Config) -> Sandbox:
    """Return the sandbox of a run."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def validated(proposed: Iterable[Proposed], sandbox: Sandbox, prompts: Prompts) -> list[Proposed]:
    """Validate proposals as they are written; return them in the order of their numbers."""

    def judge(p: Proposed) -> tuple[Proposed, Verdict | None]:
        if p.proposal is None:
            return p, None
        return p, prompts.template.kind(p.kind).validate(p.proposal, sandbox)

    judged: list[Proposed] = []
    for p, verdict in ordered_map(judge, proposed, sandbox.workers):
        if verdict is None or p.proposal is None:
            judged.append(p)
        elif verdict.task is None:
            judged.append(replace(p, status=verdict.status, reason=verdict.reason))
        elif control := prompts.control_token_in(verdict.task):
            judged.append(replace(p, status=FORM, reason=control))
        elif too_long := prompts.why_too_long(verdict.task):
            judged.append(replace(p, status=Status.TOO_LONG, reason=too_long))
        else:
            task, metrics = replace(verdict.task, id=p.id), _measured(p.proposal)
            judged.append(
                replace(p, status=verdict.status, reason=verdict.reason, task=task, metrics=metrics)
            )
    return sorted(judged, key=lambda p: p.number)


def _measured(proposal: Proposal) -> Metrics | None:
    """Return the measures of a proposal's program; None where that is no Python."""
    try:
        return measure(proposal.parsed)
    except CodeVerifierError:
        return None


def graded(attempts: Iterable[Attempt], sandbox: Sandbox, prompts: Prompts) -> list[Attempt]:
    """Grade attempts as they are written; return them in the order of their numbers."""
    read: list[Attempt] = []

    def answers() -> Iterator[tuple[Task, str | None]]:
        for a in attempts:
            read.append(a)
            yield a.task, a.answer

    def judge(pair: tuple[Task, str | None]) -> Grade:
        task, answer = pair
        if answer is None:
            return Grade(0.0, "ill-formed")
        return prompts.template.kind(task.kind).grade(task, answer, sandbox)

    judged = [
        replace(read[i], score=grade.score, reason=grade.reason, infra_error=not grade.judged)
        for i, grade in enumerate(ordered_map(judge, answers(), sandbox.workers, share=True))
    ]
    return sorted(judged, key=lambda a: a.number)
