"""Evaluation of a run: members against the frozen base on tasks that never change.

Students attempt held-out tasks, teachers write after references that never change, and in every
step the base attempts a sample of the students' tasks. Equal seeds at every measurement.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from math import comb, sqrt
from statistics import fmean, stdev

from msgspec import UNSET, UnsetType

from code_verifier import Status, Task
from lora_evo.model import stream
from selfplay.config import Config
from selfplay.population import role_of
from selfplay.rewards import teacher_reward
from selfplay.rollout import Attempt, Proposed, share_solved
from selfplay.rows import BASE, EvalRow, RateRow, SameTasksRow, SolvingRow, TeachingRow
from selfplay.run import Run
from selfplay.verifier import graded, validated

COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
"""Measures of programs whose means the rows hold."""


def is_due(config: Config, step: int) -> bool:
    """Whether members are measured after this step: every `eval_every`, at the start and end."""
    every = config.eval.eval_every
    return every > 0 and (step % every == 0 or step == config.steps)


def evaluate_members(run: Run, step: int) -> list[EvalRow]:
    """Return a row for every living member, and before the first step for the base.

    Without a warm start every member is the base before the first step (its B is 0): only the base
    is sampled then.
    """
    members: list[str | None] = [None] if step == 0 else []
    if step > 0 or run.config.warm_start is not None:
        members += run.population.members
    if run.base_attempts is None:
        (run.base_attempts,) = solve_held_out(run, [None])
    roles = {m: BASE if m is None else role_of(m) for m in members}
    students = [m for m in members if roles[m] != "teacher"] if run.held_out else []
    teachers = [m for m in members if roles[m] != "student"]
    sampled = [m for m in students if m is not None]
    solved = dict(zip(sampled, solve_held_out(run, sampled), strict=True))
    kinds = [held_out.task.kind for held_out in run.held_out]
    taught = dict(zip(teachers, teaching_rows(run, teachers), strict=True))
    rows = []
    for member in members:
        solving: SolvingRow | UnsetType = UNSET
        if member in students:
            attempts = run.base_attempts if member is None else solved[member]
            solving = solving_row(kinds, attempts, run.base_attempts)
        rows.append(
            EvalRow(
                step=step,
                member=member or BASE,
                role=roles[member],
                solving=solving,
                teaching=taught.get(member, UNSET),
            )
        )
    return rows


def solve_held_out(run: Run, members: Sequence[str | None]) -> list[list[list[Attempt]]]:
    """Let members (None: the frozen base) attempt the held-out tasks; attempts task by task."""
    e = run.config.eval
    asked = [
        (member, held_out.task, run.seed("held-out", held_out.task.id, i))
        for member in members
        for held_out in run.held_out
        for i in range(e.samples)
    ]
    attempts = [Attempt(number, *a, e.temperature) for number, a in enumerate(asked)]
    done = iter(graded(run.population.solve(attempts), run.verifier))
    return [[list(islice(done, e.samples)) for _ in run.held_out] for _ in members]


def solving_row(
    kinds: Sequence[str], attempts: Sequence[Sequence[Attempt]], base: Sequence[Sequence[Attempt]]
) -> SolvingRow:
    """Return a member's row: rates, and the difference to the base with its standard error.

    kinds, attempts, base: one for each held-out task. pass_at_k is the unbiased estimate (Chen et
    al. 2021) at k = all samples of a task.
    """
    judged = [_judged(tries) for tries in attempts]
    rates = [share_solved(tries) if tries else None for tries in judged]
    of_base = [share_solved(j) if (j := _judged(tries)) else None for tries in base]
    every = [a for tries in attempts for a in tries]
    of_kind: dict[str, list[int]] = defaultdict(list)
    for i, kind in enumerate(kinds):
        of_kind[kind].append(i)
    return SolvingRow(
        **_paired(rates, of_base),
        kinds={
            kind: RateRow(**_paired([rates[i] for i in chosen], [of_base[i] for i in chosen]))
            for kind, chosen in sorted(of_kind.items())
        },
        pass_at_k=_mean([_pass_at(len(t), j) for t, j in zip(attempts, judged, strict=True)]),
        well_formed=_mean([float(a.answer is not None) for a in every]),
        tokens=_mean([float(len(a.rollout.completion_ids)) for a in every]),
        solved=tuple(sum(a.score >= 1.0 for a in j) for j in judged),
        judged=tuple(len(j) for j in judged),
    )


def teaching_rows(run: Run, members: Sequence[str | None]) -> list[TeachingRow]:
    """Let members (None: the frozen base) write proposals, and the base attempt the valid ones.

    valid_share; base_solve_rate of the valid tasks; reward as if the base were the student, each
    proposal's in `rewards`; new_structures: program structures that the run has not seen; means of
    structural measures.
    """
    e = run.config.eval
    places = [(kind, i) for kind in run.config.rollout.kinds for i in range(e.proposals)]
    asked = [(member, *place) for member in members for place in places]
    drafts = [
        Proposed(
            number,
            f"{kind}-{i}",
            member,
            None,
            kind,
            _drawn(run, kind, i),
            run.seed("yardstick", kind, i, "propose"),
        )
        for number, (member, kind, i) in enumerate(asked)
    ]
    proposed = iter(
        validated(run.population.propose(drafts), run.verifier, run.population.prompts.excess)
    )
    judged = [
        [p for p in islice(proposed, len(places)) if p.status != Status.SANDBOX_ERROR]
        for _ in members
    ]
    tasks = [
        (p.task, run.seed("yardstick", p.kind, int(p.id.rpartition("-")[2]), i))
        for written in judged
        for p in written
        if p.task is not None
        for i in range(e.attempts)
    ]
    attempts = [
        Attempt(number, None, task, seed, run.config.rollout.temperature)
        for number, (task, seed) in enumerate(tasks)
    ]
    done = iter(graded(run.population.solve(attempts), run.verifier))
    return [_teaching_row(run, written, done) for written in judged]


def _teaching_row(run: Run, judged: Sequence[Proposed], done: Iterator[Attempt]) -> TeachingRow:
    """Return one member's row; takes the base's attempts at its tasks from those done."""
    valid = [p for p in judged if p.task is not None]
    tried = [_judged(list(islice(done, run.config.eval.attempts))) for _ in valid]
    rates = [share_solved(tries) for tries in tried if tries]
    rewards = [-1.0] * (len(judged) - len(valid)) + [teacher_reward(True, r) for r in rates]
    programs = [p.metrics for p in judged if p.metrics is not None]
    return TeachingRow(
        proposals=len(judged),
        valid_share=_mean([float(p.task is not None) for p in judged]),
        base_solve_rate=_mean(rates),
        reward=_mean(rewards),
        new_structures=len({m.structure for m in programs} - run.structures),
        complexity={
            name: _mean([float(getattr(m, name)) for m in programs]) for name in COMPLEXITY
        },
        rates=tuple(rates),
        rewards=tuple(rewards),
    )


def _drawn(run: Run, kind: str, i: int) -> tuple[Task, ...]:
    count = 1 if kind == "code_f" else run.config.rollout.num_references
    rng = stream(run.seed("yardstick", kind, i, "references"))
    picked = rng.choice(len(run.seeds), min(count, len(run.seeds)), replace=False)
    return tuple(run.seeds[int(k)] for k in picked)


def chosen_for_base(run: Run, proposed: Sequence[Proposed], step: int) -> set[str]:
    """Draw the ids of the accepted tasks, up to `same_tasks` a match, that the base attempts too.

    On equal tasks harder ones cannot hide learning. The base's attempts train no member.
    """
    of_match: dict[tuple[str, str], list[str]] = defaultdict(list)
    for p in proposed:
        if p.task is not None:
            of_match[p.teacher or BASE, p.student or BASE].append(p.id)
    chosen: set[str] = set()
    for match, ids in of_match.items():
        rng = stream(run.seed(step, *match, "same-tasks"))
        count = min(run.config.eval.same_tasks, len(ids))
        chosen |= {ids[int(i)] for i in rng.choice(len(ids), count, replace=False)}
    return chosen


def same_tasks_row(solved: Sequence[Proposed]) -> SameTasksRow:
    """Return the solve rates of students and base on the tasks that both attempted."""
    both = [p for p in solved if p.judged and p.base_judged]
    if not both:
        return SameTasksRow()
    students, base = fmean(p.solve_rate for p in both), fmean(p.base_solve_rate for p in both)
    return SameTasksRow(len(both), students, base, students - base)


def _judged(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [a for a in attempts if not a.infra_error]


def _paired(rates: Sequence[float | None], base: Sequence[float | None]) -> dict[str, float | None]:
    gains = [a - b for a, b in zip(rates, base, strict=True) if a is not None and b is not None]
    return {
        "solve_rate": _mean(rates),
        "base_solve_rate": _mean(base),
        "difference": _mean(gains),
        "standard_error": stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else None,
    }


def _pass_at(k: int, judged: Sequence[Attempt]) -> float | None:
    n, solved = len(judged), sum(a.score >= 1.0 for a in judged)
    return None if n < k else 1.0 - comb(n - solved, k) / comb(n, k)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return fmean(known) if known else None
