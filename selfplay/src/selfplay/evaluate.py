"""Evaluation of a run: members against the frozen base, and what they started from, on fixed tasks.

Students attempt held-out tasks, teachers write after references that never change. Equal seeds at
every measurement.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice, product
from math import comb, sqrt
from typing import TypeVar

from msgspec import UNSET

from code_verifier import Status, Task
from lora_evo.model import stream
from selfplay.files.rows import BASE, START, EvalRow, RateRow, SolvingRow, TeachingRow, mean
from selfplay.learning.rewards import populora
from selfplay.members.population import Advance, counted, role_of
from selfplay.run import Run
from selfplay.sampling.judge import graded, validated
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.buffer import drawn_from
from selfplay.tasks.kind import TaskKind

T = TypeVar("T")
COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
"""Measures of programs whose means the rows hold."""


def evaluate_members(
    run: Run, step: int, advance: Advance | None = None, born: Collection[str] = ()
) -> list[EvalRow]:
    """Return a row for every living member; before the first step for what members start from.

    born: children of this step, which are marked so.

    That is the base, whose members have B = 0, and after a warm start also its adapter, which every
    member holds then. Later rows are compared with these two: the run keeps their solve rates.
    """
    members = run.population.members
    solvers: dict[str, str | None] = {m: m for m in members if role_of(m) != "teacher"}
    teachers: dict[str, str | None] = {m: m for m in members if role_of(m) != "student"}
    if step == 0:
        names = (BASE,) if run.config.warm_start is None else (BASE, START)
        solvers = dict(zip(names, (None, *solvers), strict=False))
        teachers = dict(zip(names, (None, *teachers), strict=False))
    e = run.config.eval
    solving = len(solvers) * len(run.held_out) * e.samples
    teaching = len(teachers) * len(run.template.in_play) * e.proposals * (1 + e.attempts)
    attempts = solve_held_out(run, list(solvers.values()), advance, later=teaching)
    solved = dict(zip(solvers, attempts, strict=True))
    rows = teaching_rows(run, list(teachers.values()), advance, earlier=solving)
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
    run: Run, members: Sequence[str | None], advance: Advance | None = None, *, later: int = 0
) -> list[list[list[Attempt]]]:
    """Let members (None: the frozen base) attempt the held-out tasks; attempts task by task.

    later: pieces of work of the same phase that come after these, for the count that is shown.
    """
    e = run.config.eval
    planned = [
        (member, held_out.task, run.seed("held-out", held_out.task.id, i))
        for member in members
        for held_out in run.held_out
        for i in range(e.samples)
    ]
    attempts = [Attempt(number, *a, e.temperature) for number, a in enumerate(planned)]
    answers = counted(run.population.solve(attempts), len(attempts) + later, advance)
    done = iter(graded(answers, run.sandbox, run.population.prompts))
    return [[list(islice(done, e.samples)) for _ in run.held_out] for _ in members]


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


def teaching_rows(
    run: Run, members: Sequence[str | None], advance: Advance | None = None, *, earlier: int = 0
) -> list[TeachingRow]:
    """Let members (None: the frozen base) write proposals, and the base attempt the valid ones.

    valid_share; base_solve_rate of the valid tasks; reward as if the base were the student, each
    proposal's in `rewards`; new_structures: program structures that the run has not seen; means of
    structural measures. earlier: pieces of work of the same phase that are done, for the count.
    """
    e, r, kinds = run.config.eval, run.config.rollout, run.template.in_play
    drafts: list[Proposed] = []
    for member, kind, i in product(members, kinds, range(e.proposals)):
        name, seed = f"{kind.name}-{i}", run.seed("yardstick", kind.name, i, "propose")
        shown = _drawn(run, kind, i)
        drafts.append(Proposed(len(drafts), name, member, None, kind.name, shown, seed))
    total = earlier + len(drafts) * (1 + e.attempts)
    proposals = counted(run.population.propose(drafts), total, advance, earlier)
    written = validated(proposals, run.sandbox, run.population.prompts)
    attempts: list[Attempt] = []
    for p in written:
        if p.task is not None:
            for i in range(e.attempts):
                seed = run.seed("yardstick", p.kind, int(p.id.rpartition("-")[2]), i)
                attempts.append(Attempt(len(attempts), None, p.task, seed, r.temperature))
    answers = counted(run.population.solve(attempts), total, advance, total - len(attempts))
    done = iter(graded(answers, run.sandbox, run.population.prompts))
    tried = [
        replace(p, attempts=tuple(islice(done, e.attempts if p.task is not None else 0)))
        for p in written
    ]
    per_member = len(kinds) * e.proposals
    return [_teaching_row(run, tried[i : i + per_member]) for i in range(0, len(tried), per_member)]


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
