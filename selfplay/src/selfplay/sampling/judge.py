"""The judge: the sandbox's verdicts on proposals and on attempts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from code_verifier import (
    CodeVerifierError,
    Grade,
    Limits,
    Metrics,
    Proposal,
    Sandbox,
    SandboxUnavailable,
    Status,
    Task,
    Tasksets,
    Verdict,
    measure,
    ordered_map,
)
from selfplay.config import Config
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import FORM, Attempt, Proposed
from selfplay.tasks.kind import TASKSET, is_taskset


def open_sandbox(config: Config) -> Sandbox:
    """Return the sandbox of a run."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def validate(proposed: Iterable[Proposed], sandbox: Sandbox, prompts: Prompts) -> list[Proposed]:
    """Validate proposals while others are sampled; return them in the order of their numbers.

    Raises SandboxUnavailable, as `require_judged`.
    """

    def judge(p: Proposed) -> tuple[Proposed, Verdict | None]:
        kind = prompts.template.kind(p.kind)
        return p, None if p.proposal is None else kind.validate(p.proposal, sandbox)

    judged: list[Proposed] = []
    for p, verdict in ordered_map(judge, proposed, sandbox.workers):
        judged.append(p)
        if verdict is None or p.proposal is None:
            continue
        p.status, p.reason = verdict.status, verdict.reason
        if verdict.task is None:
            continue
        if control := prompts.control_tokens.why_not(verdict.task):
            p.status, p.reason = FORM, control
        elif too_long := prompts.why_too_long(verdict.task):
            p.status, p.reason = Status.TOO_LONG, too_long
        else:
            p.task, p.metrics = replace(verdict.task, id=p.id), program_metrics(p.proposal)
    failed, written = Status.SANDBOX_ERROR, [p for p in judged if p.proposal is not None]
    reasons = [(p.kind, p.reason if p.status == failed else None) for p in written]
    require_judged("proposals", reasons)
    return sorted(judged, key=lambda p: p.number)


def program_metrics(written: Proposal | Task) -> Metrics | None:
    """Return the measures of a program; None if there is none, or it cannot be parsed."""
    with suppress(CodeVerifierError):
        return measure(written.program) if written.program else None
    return None


def open_tasksets(config: Config) -> Tasksets:
    """Return those that `rollout.tasks` and `eval.held_out` name. Raises CodeVerifierError."""
    r, e = config.rollout, config.eval
    named = [(r.tasks, r.taskset), *((name, e.taskset) for name in e.held_out)]
    tasksets = [(name, values) for name, values in named if is_taskset(name)]
    sources = [{"name": n, "config": values, "limit": r.taskset_limit} for n, values in tasksets]
    return Tasksets(sources, config.sandbox.workers, config.sandbox.wall_s)


def grade(
    attempts: Iterable[Attempt], sandbox: Sandbox, prompts: Prompts, tasksets: Tasksets
) -> None:
    """Grade attempts while others are sampled. Raises SandboxUnavailable, as `require_judged`."""
    sampled: list[Attempt] = []

    def answers() -> Iterator[tuple[Task, str | None]]:
        for a in attempts:
            sampled.append(a)
            yield a.task, a.answer

    def judge(pair: tuple[Task, str | None]) -> Grade:
        task, answer = pair
        if answer is None:
            return Grade(0.0, "ill-formed")
        if task.kind == TASKSET:
            return tasksets.grade(task, answer)
        return prompts.template.kind(task.kind).grade(task, answer, sandbox)

    for i, result in enumerate(ordered_map(judge, answers(), sandbox.workers, share=True)):
        sampled[i].score, sampled[i].reason = result.score, result.reason
        sampled[i].infra_error, sampled[i].solved_from = not result.judged, prompts.solved_from
    answered = [a for a in sampled if a.answer is not None]
    reasons = [(a.task.kind, a.reason if a.infra_error else None) for a in answered]
    require_judged("answers", reasons)


def require_judged(noun: str, outcomes: Sequence[tuple[str, str | None]]) -> None:
    """Raise SandboxUnavailable, with the commonest cause, if most texts were not judged, of the
    kinds of task at which the sandbox failed: outputs, for example, are judged without it.

    outcomes: the kind of each text that could be read, and why it was not judged; None if it was. A
    single text stops nothing: another program may be judged.
    """
    failed = {kind for kind, reason in outcomes if reason is not None}
    texts = [reason for kind, reason in outcomes if kind in failed]
    causes = Counter(reason for reason in texts if reason is not None)
    if causes.total() > max(1, len(texts) // 2):
        ((cause, _),) = causes.most_common(1)
        raise SandboxUnavailable(
            f"{causes.total()} of {len(texts)} {noun} were not judged: {cause}; type "
            "`code-verifier doctor`"
        )
