"""The rows that a step leaves behind: one of metrics, and one of every proposal."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import msgspec

from code_verifier import Status
from selfplay.learning.update_stats import UpdateStats
from selfplay.records.step_row import (
    BirthRow,
    CoverageRow,
    KindRow,
    MatchRow,
    MemberRow,
    StepRow,
    TokensRow,
    VoidRow,
)
from selfplay.records.task_row import AttemptRow, TaskRow
from selfplay.run.run import Run
from selfplay.run.stages import Attempt, Match, Solved, by_match
from selfplay.step.credit import Credit
from selfplay.yardstick.same_tasks import same_tasks_row

COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")


def task_rows(solved: Sequence[Solved], credit: Credit, step: int) -> list[TaskRow]:
    """Return the rows of tasks.jsonl: every proposal with verdict, metrics, rho and attempts."""
    rows = []
    moved = iter([sample.advantage for sample in credit.samples])
    taught = {r.task: (r.reward, next(moved)) for r in credit.proposals}
    learned = defaultdict(list)
    for r in credit.attempts:
        learned[r.task].append((r.reward, next(moved)))
    for s in solved:
        v = s.verified
        p, task = v.proposed, v.task
        source = task or p.written.proposal
        reward, advantage = taught.get(p.id, (None, None))
        row = TaskRow(
            id=p.id,
            step=step,
            teacher=p.match.teacher,
            student=p.match.student,
            kind=p.kind,
            references=p.references,
            program=source.program if source else None,
            input=source.input if source else None,
            output=task.output if task else None,
            inputs=source.inputs if source else (),
            outputs=task.outputs if task else (),
            message=source.message if source else "",
            visible=task.visible if task else 0,
            status=v.status,
            reason=v.reason,
            metrics=asdict(v.metrics) if v.metrics else None,
            rho=s.rho if s.judged else None,
            base_rho=s.base_rho if s.base_judged else None,
            reward=reward,
            advantage=advantage,
            attempts=_attempts(s, learned[p.id]),
            text=p.written.text if p.written.proposal is None else msgspec.UNSET,
        )
        rows.append(row)
    return rows


def metrics_row(
    run: Run,
    step: int,
    matches: Sequence[Match],
    solved: Sequence[Solved],
    credit: Credit,
    stats: Mapping[str, UpdateStats],
    births: Sequence[BirthRow],
    new_structures: int,
    sampled: int,
) -> StepRow:
    """Return the row of metrics.jsonl, all but its `seconds`."""
    valid = [s for s in solved if s.verified.task is not None]
    solvable = [s for s in valid if s.judged]
    judged = [s for s in solved if s.verified.status != Status.SANDBOX_ERROR]
    programs = [s.verified.metrics for s in valid if s.verified.metrics]
    kinds: dict[str, KindRow] = {}
    for kind in run.config.rollout.kinds:
        mine = [s for s in judged if s.verified.proposed.kind == kind]
        good = [s for s in mine if s.judged]
        kinds[kind] = KindRow(
            proposed=len(mine),
            valid_share=_mean([float(s.verified.task is not None) for s in mine]),
            solve_rate=_mean([s.rho for s in good]),
        )
    refused = Counter(s.verified.status for s in solved if s.verified.task is None)
    return StepRow(
        step=step,
        teacher_reward=_mean([r.reward for r in credit.proposals]),
        student_reward=_mean([r.reward for r in credit.attempts]),
        valid_share=len(valid) / max(1, len(judged)),
        solve_rate=_mean([s.rho for s in solvable]),
        same_tasks=same_tasks_row(solved),
        void=VoidRow(
            proposals=len(solved) - len(judged),
            attempts=sum(a.void for s in solved for a in s.attempts),
        ),
        kinds=kinds,
        rejected=dict(sorted(refused.items())),
        complexity={name: fmean(getattr(m, name) for m in programs) for name in COMPLEXITY}
        if programs
        else None,
        coverage=CoverageRow(structures=len(run.structures), new=new_structures),
        rho=_histogram([s.rho for s in solvable]),
        members=_members(solved, credit, stats),
        ratings=_ratings(run),
        matches=tuple(_match_row(m, mine) for m, mine in by_match(matches, solved)),
        evolution=tuple(births),
        frac_reward_zero_std=credit.frac_reward_zero_std,
        tokens=TokensRow(sampled=sampled, trained=sum(s.tokens for s in stats.values())),
    )


def _attempts(s: Solved, learned: Sequence[tuple[float, float]]) -> tuple[AttemptRow, ...]:
    """Group equal answers; learned: reward and advantage of each judged attempt."""
    groups: dict[tuple[str | None, float], list[Attempt]] = defaultdict(list)
    for a in s.attempts:
        groups[a.answer, a.score].append(a)
    of_attempt = {id(a): earned for a, earned in zip(s.judged, learned, strict=False)}
    rows = []
    for (answer, score), group in groups.items():
        text = group[0].text
        thought = text if answer is None else text[: text.rfind(answer)]
        earned = next((of_attempt[id(a)] for a in group if id(a) in of_attempt), (None, None))
        rows.append(AttemptRow(thought, answer, score, len(group), *earned))
    return tuple(rows)


def _members(
    solved: Sequence[Solved], credit: Credit, stats: Mapping[str, UpdateStats]
) -> dict[str, MemberRow]:
    rows: dict[str, dict[str, Any]] = {}
    # A student whose teacher wrote nothing valid has no attempts, but it played.
    players = [
        ("teacher", [s.verified.proposed.match.teacher for s in solved], credit.proposals),
        ("student", [s.verified.proposed.match.student for s in solved], credit.attempts),
    ]
    for role, names, rewarded in players:
        rewards = defaultdict(list)
        for r in rewarded:
            rewards[r.member].append(r.reward)
        for name in dict.fromkeys(names):
            row = rows.setdefault(name, {"role": role})
            key = "reward" if row["role"] == role else f"{role}_reward"
            row[key] = _mean(rewards[name])
            row["role"] = row["role"] if row["role"] == role else "agent"
    of_teacher, of_student = defaultdict(list), defaultdict(list)
    for s in solved:
        of_teacher[s.verified.proposed.match.teacher].append(s)
        of_student[s.verified.proposed.match.student].append(s)
    for name, row in rows.items():
        taught, faced = of_teacher[name], of_student[name]
        attempts = [a for s in faced for a in s.judged]
        row["solve_rate"] = _mean([s.rho for s in taught or faced if s.judged])
        if taught:
            row["valid_share"] = _mean(
                [
                    float(s.verified.task is not None)
                    for s in taught
                    if s.verified.status != Status.SANDBOX_ERROR
                ]
            )
            row["base_solve_rate"] = _mean([s.base_rho for s in taught if s.base_judged])
        if attempts:
            row["well_formed"] = _mean([float(a.answer is not None) for a in attempts])
        if name in stats:
            numbers = asdict(stats[name])
            scales = numbers.pop("noise_scale")
            if numbers["kl"] is None:
                del numbers["kl"]
            row |= numbers | {f"noise_scale_{what}": scale for what, scale in scales.items()}
    return {name: MemberRow(**row) for name, row in rows.items()}


def _match_row(m: Match, solved: Sequence[Solved]) -> MatchRow:
    rates = [s.rho for s in solved if s.judged]
    return MatchRow(m.teacher, m.student, predicted=m.predicted, observed=_mean(rates))


def _ratings(run: Run) -> dict[str, tuple[float, float]]:
    if run.league is None:
        return {}
    names = [n for role in ("teacher", "student") for n in run.league.members(role)]
    return {n: ((r := run.league.rating(n)).mu, r.sigma) for n in names}


def _histogram(rates: Sequence[float]) -> tuple[int, int, int, int, int, int]:
    bins = [0] * 6
    for rho in rates:
        inner = 1 + sum(rho > edge for edge in (0.25, 0.5, 0.75))
        bins[0 if rho == 0.0 else -1 if rho == 1.0 else inner] += 1
    return (bins[0], bins[1], bins[2], bins[3], bins[4], bins[5])


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
