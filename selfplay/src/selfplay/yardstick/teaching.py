"""What teachers write after references that never change, and how hard the frozen base finds it."""

from collections.abc import Sequence
from statistics import fmean

from code_verifier import Status, Task
from evals.engine.sampling import stream
from selfplay.learning.reward import teacher_reward
from selfplay.records.yardstick_row import TeachingRow
from selfplay.run.attempts import Draft, Trial, attempt, validate, write_proposals
from selfplay.run.run import Run


def teaching_row(run: Run, member: str | None, references: Sequence[Task]) -> TeachingRow:
    """Let a member (None: the frozen base) write proposals, and the base attempt the valid ones.

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
        for kind, i in places
    ]
    proposals = [proposal for _, _, proposal in write_proposals(run, drafts)]
    verdicts = [
        (v, metrics, place)
        for (v, metrics), place in zip(validate(run, proposals), places, strict=True)
        if v.status != Status.SANDBOX_ERROR
    ]
    valid = [(v.task, place) for v, _, place in verdicts if v.task is not None]
    trials = [
        Trial(None, task, run.seed("yardstick", *place, j), run.config.rollout.temperature)
        for task, place in valid
        for j in range(y.attempts)
    ]
    done = iter(attempt(run, trials))
    tried = [[a for _ in range(y.attempts) if not (a := next(done)).void] for _ in valid]
    rates = [fmean(a.score >= 1.0 for a in judged) for judged in tried if judged]
    rewards = [-1.0] * (len(verdicts) - len(valid)) + [teacher_reward(True, r) for r in rates]
    programs = [metrics for _, metrics, _ in verdicts if metrics is not None]
    return TeachingRow(
        proposals=len(verdicts),
        valid_share=_mean([float(v.task is not None) for v, _, _ in verdicts]),
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
