"""The rows of a step: one of metrics, and one of every proposal."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from code_verifier import Status
from selfplay.files import rows
from selfplay.files.rows import COMPLEXITY, finite, mean
from selfplay.learning.batch import TrainingSample
from selfplay.learning.pieces import grouped
from selfplay.learning.rewards import ZERO_STD
from selfplay.run import Run
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.held_out import HELD_OUT


def task_row(p: Proposed, step: int) -> rows.TaskRow:
    """Return the row of tasks.jsonl: a proposal with its verdict, metrics and attempts."""
    optional: dict[str, Any] = {}
    if source := p.task or p.proposal:
        names = ("program", "input", "inputs", "message")
        optional = {name: getattr(source, name) for name in names}
    if p.task:
        optional |= {name: getattr(p.task, name) for name in ("output", "outputs", "visible")}
    if p.rival_judged:
        optional["rival_solve_rate"] = p.rival_solve_rate
    if p.proposal is None and p.task is None:
        optional["text"] = p.text
    return rows.TaskRow(
        id=p.id,
        step=step,
        teacher=p.teacher or "",
        student=p.student,
        kind=p.kind,
        references=tuple(reference.id for reference in p.references),
        status=p.status,
        reason=p.reason,
        metrics=asdict(p.metrics) if p.metrics else None,
        solve_rate=p.solve_rate if p.judged else None,
        base_solve_rate=p.base_solve_rate if p.base_judged else None,
        reward=finite(p.reward),
        advantage=finite(p.advantage),
        attempts=tuple(_attempt_rows(p.attempts)),
        base_attempts=tuple(_attempt_rows(p.base_attempts)),
        **optional,
    )


def metrics_row(
    run: Run,
    solved: Sequence[Proposed],
    samples: Sequence[TrainingSample],
    stats: Mapping[str, rows.MemberRow],
    births: Sequence[rows.BirthRow],
    new_structures: int,
    seconds: Mapping[str, float],
) -> rows.StepRow:
    """Return the row of metrics.jsonl for the step after `run.step`. seconds: by phase."""
    valid = [p for p in solved if p.task is not None]
    judged = [p for p in solved if p.status not in (Status.SANDBOX_ERROR, HELD_OUT)]
    refused = Counter(p.status for p in solved if p.task is None)
    complexity, commonest = _programs(valid)
    trained = sum(s.tokens or 0 for s in stats.values() if s.learning_rate)
    return rows.StepRow(
        step=run.step + 1,
        teacher_reward=_mean_reward(samples, "propose"),
        student_reward=_mean_reward(samples, "solve"),
        valid_share=_valid_share(judged),
        solve_rate=_solve_rate(valid),
        same_tasks=_same_tasks_row([p for p in solved if p.judged and p.base_judged]),
        infra_errors={
            "proposals": sum(p.status == Status.SANDBOX_ERROR for p in solved),
            "attempts": sum(p.not_judged for p in solved),
        },
        kinds={kind.name: _kind_row(kind.name, judged) for kind in run.template.in_play},
        rejected=dict(sorted(refused.items())),
        complexity=complexity,
        coverage=rows.CoverageRow(len(run.structures), new_structures, commonest),
        solve_rates=_histogram([p.solve_rate for p in valid if p.judged]),
        members={
            name: _member_row(name, solved, samples, stats.get(name, rows.MemberRow()))
            for name in dict.fromkeys([*(p.teacher for p in solved), *(p.student for p in solved)])
            if name is not None
        },
        ratings=_ratings(run),
        evolution=tuple(births),
        frac_reward_zero_std=frac_reward_zero_std(samples),
        tokens=rows.TokensRow(_sampled(solved, samples), trained),
        seconds=dict(seconds),
    )


def _programs(valid: Sequence[Proposed]) -> tuple[dict[str, float] | None, float | None]:
    """Return the mean complexity of valid programs, and the share of the commonest structure."""
    programs = [p.metrics for p in valid if p.metrics]
    if not programs:
        return None, None
    structures = Counter(m.structure for m in programs)
    complexity = {name: mean([getattr(m, name) for m in programs]) or 0.0 for name in COMPLEXITY}
    return complexity, max(structures.values()) / len(programs)


def _sampled(solved: Sequence[Proposed], samples: Sequence[TrainingSample]) -> int:
    """Return the number of tokens of all proposals and attempts, including replayed ones."""
    texts = [p.rollout for p in solved] + [a.rollout for p in solved for a in p.all_attempts]
    texts += [s.rollout for s in samples]
    return sum({id(text): len(text.completion_ids) for text in texts}.values())


def _kind_row(kind: str, judged: Sequence[Proposed]) -> rows.KindRow:
    of_kind = [p for p in judged if p.kind == kind]
    return rows.KindRow(len(of_kind), _valid_share(of_kind), _solve_rate(of_kind))


def _mean_reward(samples: Sequence[TrainingSample], phase: str, member: str = "") -> float | None:
    """Return the mean of the finite rewards of a phase; member: whose, "" for all."""
    of_phase = (s for s in samples if s.phase == phase)
    return mean([finite(s.reward) for s in of_phase if member in ("", s.member)])


def _same_tasks_row(both: Sequence[Proposed]) -> rows.SameTasksRow:
    """Return the solve rates of students and base on tasks that both attempted."""
    if not both:
        return rows.SameTasksRow()
    students, base = fmean(p.solve_rate for p in both), fmean(p.base_solve_rate for p in both)
    return rows.SameTasksRow(len(both), students, base, students - base)


def frac_reward_zero_std(samples: Sequence[TrainingSample]) -> float:
    """Return the share of tasks with several attempts of equal reward, as in TRL; 0 without any."""
    solving = [s for s in samples if s.phase == "solve"]
    groups = grouped((s.member, s.kind, s.task_id) for s in solving)
    several = [[solving[i].reward for i in group] for group in groups if len(group) > 1]
    return mean([float(max(r) - min(r) <= ZERO_STD * max(map(abs, r))) for r in several]) or 0.0


def _attempt_rows(attempts: Sequence[Attempt]) -> Iterator[rows.AttemptRow]:
    """Yield a row for each group of equal answers that earned the same."""
    groups: dict[tuple[Any, ...], list[Attempt]] = defaultdict(list)
    for a in attempts:
        earned = finite(a.reward), finite(a.advantage)
        groups[a.answer, None if a.infra_error else a.score, *earned].append(a)
    for (answer, score, reward, advantage), group in groups.items():
        text = group[0].text
        thought = text if answer is None else text[: text.rfind(answer)]
        solved = UNSET if group[0].solved_from == 1.0 else group[0].solved
        yield rows.AttemptRow(thought, answer, score, len(group), reward, advantage, solved)


def _member_row(
    name: str, solved: Sequence[Proposed], samples: Sequence[TrainingSample], stats: rows.MemberRow
) -> rows.MemberRow:
    """Return the statistics of a matched member's update, texts and rewards."""
    proposals = [p for p in solved if p.teacher == name]
    tasks = [p for p in solved if p.student == name]
    row: dict[str, Any] = {"solve_rate": _solve_rate(proposals or tasks)}
    if proposals:
        judged = [p for p in proposals if p.status not in (Status.SANDBOX_ERROR, HELD_OUT)]
        row["valid_share"] = _valid_share(judged)
        row["base_solve_rate"] = mean([p.base_solve_rate for p in proposals if p.base_judged])
        row["reward"] = _mean_reward(samples, "propose", name)
    if tasks:
        row["student_reward" if proposals else "reward"] = _mean_reward(samples, "solve", name)
    if attempts := [a for p in tasks for a in p.judged]:
        row["well_formed"] = mean([float(a.answer is not None) for a in attempts])
    rollouts = [p.rollout for p in proposals] + [a.rollout for p in tasks for a in p.attempts]
    row["length"] = mean([float(len(rollout.completion_ids)) for rollout in rollouts])
    row["cut"] = mean([float(rollout.finish_reason == "length") for rollout in rollouts])
    role = "agent" if proposals and tasks else "teacher" if proposals else "student"
    return replace(stats, role=role, **row)


def _ratings(run: Run) -> dict[str, tuple[float, float]]:
    if run.league is None:
        return {}
    names = [n for role in ("teacher", "student") for n in run.league.members(role)]
    return {n: ((r := run.league.rating(n)).mu, r.sigma) for n in names}


def _histogram(rates: Sequence[float]) -> tuple[int, int, int, int, int, int]:
    edges = (0.0, 0.25, 0.5, 0.75, 1.0)
    bins = Counter(bisect_left(edges, rate) + (rate == 1.0) for rate in rates)
    return (bins[0], bins[1], bins[2], bins[3], bins[4], bins[5])


def _solve_rate(proposed: Sequence[Proposed]) -> float | None:
    return mean([p.solve_rate for p in proposed if p.judged])


def _valid_share(proposed: Sequence[Proposed]) -> float | None:
    return mean([float(p.task is not None) for p in proposed])
