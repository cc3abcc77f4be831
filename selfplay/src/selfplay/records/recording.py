"""The rows that a step leaves behind: one of metrics, and one of every proposal."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from statistics import fmean
from typing import Any

import msgspec

from code_verifier import Status
from league import Pair
from selfplay.evaluation import COMPLEXITY
from selfplay.learning.batch import TrainingSample
from selfplay.learning.statistics import UpdateStats
from selfplay.records import rows
from selfplay.records.rows import mean
from selfplay.rewards import ZERO_STD
from selfplay.rollout import Attempt, Proposed
from selfplay.run import Run


def task_rows(
    solved: Sequence[Proposed], samples: Sequence[TrainingSample], step: int
) -> list[rows.TaskRow]:
    """Return the rows of tasks.jsonl: every proposal with its verdict, metrics and attempts."""
    of_task = {s.task_id: s for s in samples if s.phase == "propose"}
    of_attempts = defaultdict(list)
    for s in samples:
        if s.phase == "solve":
            of_attempts[s.task_id].append(s)
    found = []
    for p in solved:
        source, task, sample = p.task or p.proposal, p.task, of_task.get(p.id)
        row = rows.TaskRow(
            id=p.id,
            step=step,
            teacher=p.teacher or "",
            student=p.student,
            kind=p.kind,
            references=tuple(reference.id for reference in p.references),
            program=source.program if source else None,
            input=source.input if source else None,
            output=task.output if task else None,
            inputs=source.inputs if source else (),
            outputs=task.outputs if task else (),
            message=source.message if source else "",
            visible=task.visible if task else 0,
            status=p.status,
            reason=p.reason,
            metrics=asdict(p.metrics) if p.metrics else None,
            solve_rate=p.solve_rate if p.judged else None,
            base_solve_rate=p.base_solve_rate if p.base_judged else None,
            rival_solve_rate=p.rival_solve_rate if p.rival_judged else msgspec.UNSET,
            reward=sample.reward if sample else None,
            advantage=sample.advantage if sample else None,
            attempts=_attempt_rows(p.attempts, of_attempts[p.id]),
            base_attempts=_attempt_rows(p.base_attempts, ()),
            text=p.text if p.proposal is None else msgspec.UNSET,
        )
        found.append(row)
    return found


def metrics_row(
    run: Run,
    step: int,
    matches: Sequence[Pair],
    solved: Sequence[Proposed],
    samples: Sequence[TrainingSample],
    stats: Mapping[str, UpdateStats],
    births: Sequence[rows.BirthRow],
    new_structures: int,
) -> rows.StepRow:
    """Return the row of metrics.jsonl, all but its `seconds`."""
    valid = [p for p in solved if p.task is not None]
    judged = [p for p in solved if p.status != Status.SANDBOX_ERROR]
    programs = [p.metrics for p in valid if p.metrics]
    rollouts = [p.rollout for p in solved]
    rollouts += [
        a.rollout for p in solved for a in (*p.attempts, *p.base_attempts, *p.rival_attempts)
    ]
    refused = Counter(p.status for p in solved if p.task is None)
    return rows.StepRow(
        step=step,
        teacher_reward=mean([s.reward for s in samples if s.phase == "propose"]),
        student_reward=mean([s.reward for s in samples if s.phase == "solve"]),
        valid_share=len(valid) / max(1, len(judged)),
        solve_rate=_solve_rate(valid),
        same_tasks=_same_tasks_row(solved),
        infra_errors={
            "proposals": len(solved) - len(judged),
            "attempts": sum(a.infra_error for p in solved for a in p.attempts),
        },
        kinds={
            kind.name: rows.KindRow(
                proposed=len(mine := [p for p in judged if p.kind == kind.name]),
                valid_share=_valid_share(mine),
                solve_rate=_solve_rate(mine),
            )
            for kind in run.template.in_play
        },
        rejected=dict(sorted(refused.items())),
        complexity={name: fmean(getattr(m, name) for m in programs) for name in COMPLEXITY}
        if programs
        else None,
        coverage=rows.CoverageRow(structures=len(run.structures), new=new_structures),
        solve_rates=_histogram([p.solve_rate for p in valid if p.judged]),
        members=_member_rows(solved, samples, stats),
        ratings=_ratings(run),
        matches=tuple(_match_row(m, solved) for m in matches),
        evolution=tuple(births),
        frac_reward_zero_std=frac_reward_zero_std(samples),
        tokens=rows.TokensRow(
            sampled=sum(len(r.completion_ids) for r in rollouts),
            trained=sum(s.tokens for s in stats.values()),
        ),
    )


def _same_tasks_row(solved: Sequence[Proposed]) -> rows.SameTasksRow:
    """Return the solve rates of students and base on the tasks that both attempted."""
    both = [p for p in solved if p.judged and p.base_judged]
    if not both:
        return rows.SameTasksRow()
    students, base = fmean(p.solve_rate for p in both), fmean(p.base_solve_rate for p in both)
    return rows.SameTasksRow(len(both), students, base, students - base)


def frac_reward_zero_std(samples: Sequence[TrainingSample]) -> float:
    """Return the share of tasks all of whose several attempts earned the same; 0 without such."""
    rewards: dict[tuple[str, str], list[float]] = defaultdict(list)
    for s in samples:
        if s.phase == "solve":
            rewards[s.member, s.task_id].append(s.reward)
    several = [r for r in rewards.values() if len(r) > 1]
    return mean([float(max(r) - min(r) <= ZERO_STD) for r in several]) or 0.0


def _attempt_rows(
    attempts: Sequence[Attempt], samples: Sequence[TrainingSample]
) -> tuple[rows.AttemptRow, ...]:
    """Group equal answers; samples: one for each judged attempt, none if none was learned from."""
    groups: dict[tuple[str | None, float], list[Attempt]] = defaultdict(list)
    for a in attempts:
        groups[a.answer, a.score].append(a)
    judged = (a for a in attempts if not a.infra_error)
    learned = {a.number: s for a, s in zip(judged, samples, strict=False)}
    found = []
    for (answer, score), group in groups.items():
        text = group[0].text
        thought = text if answer is None else text[: text.rfind(answer)]
        s = next((learned[a.number] for a in group if a.number in learned), None)
        earned = (None, None) if s is None else (s.reward, s.advantage)
        found.append(rows.AttemptRow(thought, answer, score, len(group), *earned))
    return tuple(found)


def _member_rows(
    solved: Sequence[Proposed],
    samples: Sequence[TrainingSample],
    stats: Mapping[str, UpdateStats],
) -> dict[str, rows.MemberRow]:
    found: dict[str, dict[str, Any]] = {}
    # A student whose teacher wrote nothing valid has no attempts, but it played.
    for role, names, done in (
        ("teacher", [p.teacher for p in solved], "propose"),
        ("student", [p.student for p in solved], "solve"),
    ):
        for name in dict.fromkeys(name for name in names if name is not None):
            row = found.setdefault(name, {"role": role})
            key = "reward" if row["role"] == role else f"{role}_reward"
            row[key] = mean([s.reward for s in samples if (s.member, s.phase) == (name, done)])
            row["role"] = row["role"] if row["role"] == role else "agent"
    for name, row in found.items():
        taught = [p for p in solved if p.teacher == name]
        faced = [p for p in solved if p.student == name]
        attempts = [a for p in faced for a in p.judged]
        row["solve_rate"] = _solve_rate(taught or faced)
        if taught:
            row["valid_share"] = _valid_share(
                [p for p in taught if p.status != Status.SANDBOX_ERROR]
            )
            row["base_solve_rate"] = mean([p.base_solve_rate for p in taught if p.base_judged])
        if attempts:
            row["well_formed"] = mean([float(a.answer is not None) for a in attempts])
        if name in stats:
            numbers = asdict(stats[name])
            if numbers["kl"] is None:
                del numbers["kl"]
            row |= numbers
    return {name: rows.MemberRow(**row) for name, row in found.items()}


def _match_row(m: Pair, solved: Sequence[Proposed]) -> rows.MatchRow:
    mine = [p for p in solved if (p.teacher, p.student) == (m.teacher, m.student)]
    predicted = None if isnan(m.predicted) else m.predicted
    return rows.MatchRow(m.teacher, m.student, predicted, observed=_solve_rate(mine))


def _ratings(run: Run) -> dict[str, tuple[float, float]]:
    if run.league is None:
        return {}
    names = [n for role in ("teacher", "student") for n in run.league.members(role)]
    return {n: ((r := run.league.rating(n)).mu, r.sigma) for n in names}


def _histogram(rates: Sequence[float]) -> tuple[int, int, int, int, int, int]:
    bins = [0] * 6
    for rate in rates:
        inner = 1 + sum(rate > edge for edge in (0.25, 0.5, 0.75))
        bins[0 if rate == 0.0 else -1 if rate == 1.0 else inner] += 1
    return (bins[0], bins[1], bins[2], bins[3], bins[4], bins[5])


def _solve_rate(proposed: Sequence[Proposed]) -> float | None:
    return mean([p.solve_rate for p in proposed if p.judged])


def _valid_share(proposed: Sequence[Proposed]) -> float | None:
    return mean([float(p.task is not None) for p in proposed])
