"""What teachers write after references that never change, and how hard the frozen base finds it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from code_verifier import Metrics, Status, Task
from evals.engine.streams import stream
from selfplay.learning.reward import teacher_reward
from selfplay.population.writing import Draft, Trial
from selfplay.records.yardstick_row import TeachingRow
from selfplay.run.attempts import attempt, validate
from selfplay.run.run import Run
from selfplay.run.stages import Attempt


def teaching_rows(
    run: Run, members: Sequence[str | None], references: Sequence[Task]
) -> list[TeachingRow]:
    """Let members (None: the frozen base) write proposals, and the base attempt the valid ones.

    valid_share; base_solve_rate of the valid tasks; reward as if the base were the student, each
    proposal's in `rewards`; new_structures: program structures that the run has not seen; means of
    structural measures. The same seeds for every member at every measurement.
    """
    y = run.config.yardstick
    places = [(kind, i) for kind in run.config.rollout.kinds for i in range(y.proposals)]
    drafts = [
        Draft(
            member,
            kind,
            _drawn(run, references, kind, i),
            run.seed("yardstick", kind, i, "propose"),
        )
        for member in members
        for kind, i in places
    ]
    proposals = ((i, written.bare) for i, written in run.writers.proposals(drafts))
    verdicts = iter(validate(run, proposals))
    judged = [
        [
            _Judged(place, v.task, metrics)
            for place, (v, metrics) in zip(places, islice(verdicts, len(places)), strict=True)
            if v.status != Status.SANDBOX_ERROR
        ]
        for _ in members
    ]
    trials = [
        Trial(None, j.task, run.seed("yardstick", *j.place, i), run.config.rollout.temperature)
        for written in judged
        for j in written
        if j.task is not None
        for i in range(y.attempts)
    ]
    done = iter(attempt(run, trials))
    return [_row(run, written, done) for written in judged]


@dataclass(frozen=True)
class _Judged:
    """A proposal that the sandbox judged."""

    place: tuple[str, int]
    task: Task | None
    metrics: Metrics | None


def _row(run: Run, judged: Sequence[_Judged], done: Iterator[Attempt]) -> TeachingRow:
    """One member's row; takes the base's attempts at its tasks from those that are done."""
    valid = [j for j in judged if j.task is not None]
    attempts = run.config.yardstick.attempts
    tried = [[a for a in islice(done, attempts) if not a.void] for _ in valid]
    rates = [fmean(a.score >= 1.0 for a in tries) for tries in tried if tries]
    rewards = [-1.0] * (len(judged) - len(valid)) + [teacher_reward(True, r) for r in rates]
    programs = [j.metrics for j in judged if j.metrics is not None]
    return TeachingRow(
        proposals=len(judged),
        valid_share=_mean([float(j.task is not None) for j in judged]),
        base_solve_rate=_mean(rates),
        reward=_mean(rewards),
        new_structures=len({m.structure for m in programs} - run.structures),
        complexity={
            name: _mean([float(getattr(m, name)) for m in programs])
            for name in ("ast_depth", "cyclomatic", "loc", "variables")
        },
        rates=tuple(rates),
        rewards=tuple(rewards),
    )


def _drawn(run: Run, references: Sequence[Task], kind: str, i: int) -> tuple[Task, ...]:
    count = 1 if kind == "code_f" else run.config.rollout.num_references
    rng = stream(run.seed("yardstick", kind, i, "references"))
    picked = rng.choice(len(references), min(count, len(references)), replace=False)
    return tuple(references[int(k)] for k in picked)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
