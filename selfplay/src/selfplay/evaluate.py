"""Evaluation of a run: members against the frozen base, and what they started from, on fixed tasks.

Students attempt held-out tasks, teachers write after references that never change. Equal seeds at
every measurement.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import product
from math import comb, sqrt
from typing import TypeVar

from msgspec import UNSET

from code_verifier import Status, Task
from lora_evo.model import stream
from selfplay.files.rows import (
    BASE,
    COMPLEXITY,
    START,
    EvalRow,
    RateRow,
    SolvingRow,
    TeachingRow,
    mean,
    role_of,
)
from selfplay.learning.rewards import populora
from selfplay.run import Run
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.buffer import drawn_from
from selfplay.tasks.kind import TaskKind

T = TypeVar("T")


def evaluate_members(run: Run, step: int, born: Collection[str] = ()) -> list[EvalRow]:
    """Return a row for every living member; before the first step for what members start from.

    born: children of this step, which are marked so.

    That is the base, whose members have B = 0, and after a warm start also its adapter, which every
    member holds then. Later rows are compared with these two: the run keeps their solve rates.
    """
    members = run.population.members
    solvers: dict[str, str | None] = {m: m for m in members if role_of(m) != "teacher"}
    teachers: dict[str, str | None] = {m: m for m in members if role_of(m) != "student"}
    if run.config.rollout.tasks is not None:
        teachers = {}
    if step == 0:
        names = (BASE,) if run.config.warm_start is None else (BASE, START)
        solvers = dict(zip(names, (None, *solvers), strict=False))
        if run.config.rollout.tasks is None:
            teachers = dict(zip(names, (None, *teachers), strict=False))
    e = run.config.eval
    solving = len(solvers) * len(run.held_out) * e.samples
    teaching = len(teachers) * len(run.template.in_play) * e.proposals * (1 + e.attempts)
    tried = solve_held_out(run, list(solvers.values()), of=solving + teaching)
    solved = dict(zip(solvers, tried, strict=True))
    rows = teaching_rows(run, list(teachers.values()), after=solving)
    taught = dict(zip(teachers, rows, strict=True))
    if step == 0:
        run.baseline_rates = {
            name: [_rate(tries) for tries in tasks] for name, tasks in solved.items()
        }
    start = run.baseline_rates.get(START) if step > 0 else None
    kinds = [held_out.task.kind for held_out in run.held_out]
    families = [_family(held_out.task.program) for held_out in run.held_out]
    return [
        EvalRow(
            step=step,
            member=m,
            role=m if step == 0 else role_of(m),
            solving=solving_row(kinds, solved[m], run.baseline_rates[BASE], start, families)
            if kinds and m in solved
            else UNSET,
            teaching=taught.get(m, UNSET),
            born=m in born or UNSET,
        )
        for m in (solvers if step == 0 else members)
    ]


def solve_held_out(
    run: Run, members: Sequence[str | None], of: int = 0
) -> list[list[list[Attempt]]]:
    """Let members (None: the frozen base) attempt the held-out tasks; attempts task by task.

    of: pieces of work of the phase, where these are not all.
    """
    e = run.config.eval
    tried = [
        [
            [
                Attempt(m, h.task, run.seed("held-out", h.task.id, i), e.temperature)
                for i in range(e.samples)
            ]
            for h in run.held_out
        ]
        for m in members
    ]
    run.attempt([a for tasks in tried for attempts in tasks for a in attempts], of)
    return tried


def solving_row(
    kinds: Sequence[str],
    attempts: Sequence[Sequence[Attempt]],
    base: Sequence[float | None],
    start: Sequence[float | None] | None = None,
    families: Sequence[str] | None = None,
) -> SolvingRow:
    """Return a member's row: rates, and the difference to the base with its standard error.

    kinds, attempts, and solve rates of the base and of a warm start: one for each held-out task.
    families: of tasks that are right or wrong together, whose errors are added up; None: each task
    is its own. pass_at_k is the unbiased estimate (Chen et al. 2021) at k = all samples of a task.
    """
    judged = [[a for a in tries if not a.infra_error] for tries in attempts]
    rates = [_rate(tries) for tries in attempts]
    names = list(map(str, range(len(rates)))) if families is None else families
    over_start = {} if start is None else _paired(rates, start, names)
    every = [a for tries in attempts for a in tries]

    def of(kind: str, values: Sequence[T]) -> list[T]:
        return [value for value, task_kind in zip(values, kinds, strict=True) if task_kind == kind]

    return SolvingRow(
        **_paired(rates, base, names),
        kinds={
            k: RateRow(**_paired(of(k, rates), of(k, base), of(k, names)))
            for k in sorted(set(kinds))
        },
        pass_at_k=mean([_pass_at(len(t), j) for t, j in zip(attempts, judged, strict=True)]),
        well_formed=mean([float(a.answer is not None) for a in every]),
        tokens=mean([float(len(a.rollout.completion_ids)) for a in every]),
        solved=tuple(sum(a.score >= 1.0 for a in j) for j in judged),
        judged=tuple(len(j) for j in judged),
        over_start=over_start.get("difference", UNSET),
        over_start_error=over_start.get("standard_error", UNSET),
    )


def teaching_rows(run: Run, members: Sequence[str | None], after: int = 0) -> list[TeachingRow]:
    """Let members (None: the frozen base) write proposals, and the base attempt the valid ones.

    valid_share; base_solve_rate of the valid tasks; reward as if the base were the student, each
    proposal's in `rewards`; new_structures: program structures that the run has not seen; means of
    structural measures. after: pieces of work of the same phase that are done.
    """
    e, r, kinds = run.config.eval, run.config.rollout, run.template.in_play
    drafts = []
    for number, (member, kind, i) in enumerate(product(members, kinds, range(e.proposals))):
        name, seed = f"{kind.name}-{i}", run.seed("yardstick", kind.name, i, "propose")
        shown = _drawn(run, kind, i)
        drafts.append(Proposed(number, name, member, None, kind.name, shown, seed))
    of = after + len(drafts) * (1 + e.attempts)
    for p in run.validated(run.sampled(drafts, of, after)):
        if p.task is not None:
            number = int(p.id.rpartition("-")[2])
            seeds = [run.seed("yardstick", p.kind, number, i) for i in range(e.attempts)]
            p.attempts = [Attempt(None, p.task, seed, r.temperature) for seed in seeds]
    attempts = [a for p in drafts for a in p.attempts]
    run.attempt(attempts, of, of - len(attempts))
    size = len(kinds) * e.proposals
    return [_teaching_row(run, drafts[i : i + size]) for i in range(0, len(drafts), size)]


def _teaching_row(run: Run, tried: Sequence[Proposed]) -> TeachingRow:
    judged = [p for p in tried if p.status != Status.SANDBOX_ERROR]
    valid = [p for p in judged if p.task is not None]
    rates = [p.solve_rate for p in valid if p.judged]
    rewards = [populora(p) for p in judged if p.task is None]
    rewards += [populora(p) for p in valid if p.judged]
    programs = [p.metrics for p in judged if p.metrics is not None]
    return TeachingRow(
        proposals=len(judged),
        valid_share=mean([float(p.task is not None) for p in judged]),
        base_solve_rate=mean(rates),
        reward=mean(rewards),
        new_structures=len({m.structure for m in programs} - run.structures.keys()),
        complexity={name: mean([float(getattr(m, name)) for m in programs]) for name in COMPLEXITY},
        rates=tuple(rates),
        rewards=tuple(rewards),
    )


def _drawn(run: Run, kind: TaskKind, i: int) -> tuple[Task, ...]:
    rng = stream(run.seed("yardstick", kind.name, i, "references"))
    seeds = [task for task in run.seed_tasks if task.kind in kind.shows]
    return tuple(drawn_from(seeds, kind.references(run.config.rollout.num_references), rng))


def _rate(tries: Sequence[Attempt]) -> float | None:
    return mean([float(a.score >= 1.0) for a in tries if not a.infra_error])


def _family(program: str) -> str:
    """Return what programs have in common that differ in their numbers only."""
    return re.sub(r"\d+", "#", program)


def _paired(
    rates: Sequence[float | None], base: Sequence[float | None], families: Sequence[str]
) -> dict[str, float | None]:
    known = [
        (family, a - b)
        for family, a, b in zip(families, rates, base, strict=True)
        if a is not None and b is not None
    ]
    gains = [gain for _, gain in known]
    return {
        "solve_rate": mean(rates),
        "base_solve_rate": mean(base),
        "difference": mean(gains),
        "standard_error": _clustered_error(known),
    }


def _clustered_error(gains: Sequence[tuple[str, float]]) -> float | None:
    """Return the standard error of the mean over clusters (Liang and Zeger 1986, Biometrika 73);
    that of independent numbers where each is a cluster of its own. None below two clusters."""
    centre, sums = mean([gain for _, gain in gains]), defaultdict[str, float](float)
    for family, gain in gains:
        sums[family] += gain - (centre or 0.0)
    count = len(sums)
    if count < 2:
        return None
    return sqrt(count / (count - 1) * sum(of**2 for of in sums.values())) / len(gains)


def _pass_at(k: int, judged: Sequence[Attempt]) -> float | None:
    n, solved = len(judged), sum(a.score >= 1.0 for a in judged)
    return None if n < k else 1.0 - comb(n - solved, k) / comb(n, k)
