"""Evaluation of a run on fixed tasks: members against the frozen base and the warm start.

Students attempt held-out tasks, teachers write proposals after fixed references. Every evaluation
uses the same seeds.
"""

import re
from collections.abc import Collection, Sequence
from itertools import chain, product
from math import comb
from typing import Any

from msgspec import UNSET, structs

from code_verifier import Status, Task
from lora_evo.model import stream
from selfplay.files import rows
from selfplay.files.intervals import Families, mean_and_error
from selfplay.files.rows import BASE, START, EvalRow, SolvingRow, TeachingRow, mean, role_of
from selfplay.learning.rewards import populora
from selfplay.run import Run
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.buffer import draw_from


def evaluate_members(run: Run, step: int, born: Collection[str] = ()) -> list[EvalRow]:
    """Return a row for every living member; at step 0, for the base and the warm start instead.

    Before the first step every member equals the base (B = 0), or the adapter of the warm start.
    Later rows are compared with both: the run keeps their solve rates. born: children of this step;
    their rows say so.
    """
    solvers: dict[str, str | None] = {m: m for m in run.solvers}
    teachers: dict[str, str | None] = {m: m for m in run.proposers}
    if step == 0:
        names = (BASE,) if run.config.warm_start is None else (BASE, START)
        solvers = dict(zip(names, (None, *solvers), strict=False))
        teachers = dict(zip(names, (None, *teachers), strict=False)) if teachers else {}
    e = run.config.eval
    solving = len(solvers) * len(run.held_out) * e.samples
    teaching = len(teachers) * len(run.template.in_play) * e.proposals * (1 + e.attempts)
    attempts = solve_held_out(run, [*solvers.values()], of=solving + teaching)
    attempts_of = dict(zip(solvers, attempts, strict=True))
    taught = teaching_rows(run, [*teachers.values()], after=solving)
    teaching_of = dict(zip(teachers, taught, strict=True))
    if step == 0:
        for of_task in chain.from_iterable(attempts):
            if any(a.infra_error for a in of_task):  # all later rates are compared with these
                for a in of_task:
                    a.infra_error = True
        run.baseline_rates = {name: list(map(_rate, of)) for name, of in attempts_of.items()}
    base, start = run.baseline_rates[BASE], run.baseline_rates.get(START) if step > 0 else None
    kinds = [task.kind for task in run.held_out]
    # A family: programs that differ in numbers alone; without a program, one task.
    programs = [re.sub(r"\d+", "#", task.program) or task.id for task in run.held_out]
    families = list(map(list(dict.fromkeys(programs)).index, programs))
    measured = attempts_of.items() if kinds else ()
    solving_of = {m: solving_row(kinds, of, base, start, families) for m, of in measured}
    if BASE in solving_of:
        solving_of[BASE] = structs.replace(solving_of[BASE], families=tuple(families))
    return [
        EvalRow(
            step=step,
            member=m,
            role=m if step == 0 else role_of(m),
            solving=solving_of.get(m, UNSET),
            teaching=teaching_of.get(m, UNSET),
            born=m in born or UNSET,
        )
        for m in (solvers if step == 0 else run.population.members)
    ]


def solve_held_out(
    run: Run, members: Sequence[str | None], of: int = 0
) -> list[list[list[Attempt]]]:
    """Let members (None: the frozen base) attempt the held-out tasks.

    of: the phase's total for the progress bar; 0: these attempts are all. Returns, by member and
    task, the attempts.
    """
    e = run.config.eval

    def attempts(member: str | None, task: Task) -> list[Attempt]:
        seeds = (run.seed("held-out", task.id, i) for i in range(e.samples))
        return [Attempt(member, task, seed, e.temperature) for seed in seeds]

    attempts_of = [[attempts(member, task) for task in run.held_out] for member in members]
    run.attempt([a for tasks in attempts_of for of_task in tasks for a in of_task], of)
    return attempts_of


def solving_row(
    kinds: Sequence[str],
    attempts: Sequence[Sequence[Attempt]],
    base: Sequence[float | None],
    start: Sequence[float | None] | None = None,
    families: Families | None = None,
) -> SolvingRow:
    """Return a member's row: rates, and the difference to the base with its standard error.

    kinds, attempts, base, start: one entry for each held-out task; base and start are solve rates
    of the frozen base and of a warm start. families: the cluster of each task, whose tasks tend to
    be right or wrong together; None: each task is its own cluster. pass_at_k is the unbiased
    estimate (Chen et al. 2021) with k = all samples of a task.
    """
    judged = [[a for a in of_task if not a.infra_error] for of_task in attempts]
    rates = [_rate(of_task) for of_task in attempts]
    names = range(len(rates)) if families is None else families
    over_start = {} if start is None else _paired(rates, start, names)
    flat = [a for of_task in attempts for a in of_task]

    def of(kind: str) -> rows.RateRow:
        of_kind = [i for i, task_kind in enumerate(kinds) if task_kind == kind]
        pairs = [rates[i] for i in of_kind], [base[i] for i in of_kind]
        return rows.RateRow(**_paired(*pairs, [names[i] for i in of_kind]))

    return SolvingRow(
        **_paired(rates, base, names),
        kinds={kind: of(kind) for kind in sorted(set(kinds))},
        pass_at_k=mean([_pass_at(len(t), j) for t, j in zip(attempts, judged, strict=True)]),
        well_formed=mean([float(a.answer is not None) for a in flat]),
        tokens=mean([float(len(a.rollout.completion_ids)) for a in flat]),
        solved=tuple(sum(a.solved for a in j) for j in judged),
        judged=tuple(len(j) for j in judged),
        not_judged=(len(flat) - sum(map(len, judged))) or UNSET,
        over_start=over_start.get("difference", UNSET),
        over_start_error=over_start.get("standard_error", UNSET),
    )


def teaching_rows(run: Run, members: Sequence[str | None], after: int = 0) -> list[TeachingRow]:
    """Let members (None: the frozen base) write proposals, and the base attempt the valid ones.

    `reward` and `rewards` are as if the base were the student. after: the count of attempts before
    these, for the progress bar.
    """
    e, r, kinds = run.config.eval, run.config.rollout, run.template.in_play
    drafts = []
    for number, (member, kind, i) in enumerate(product(members, kinds, range(e.proposals))):
        name, seed = f"{kind.name}-{i}", run.seed("yardstick", kind.name, i, "propose")
        seeds = [task for task in run.seed_tasks if task.kind in kind.shows]
        rng = stream(run.seed("yardstick", kind.name, i, "references"))
        references = tuple(draw_from(seeds, kind.references(r.num_references), rng))
        drafts.append(Proposed(number, name, member, None, kind.name, references, seed))
    of = after + len(drafts) * (1 + e.attempts)
    for p in run.validate(run.sample(drafts, of, after)):
        if p.task is not None:
            for i in range(e.attempts):
                seed = run.seed("yardstick", p.kind, p.number % e.proposals, i)
                p.attempts.append(Attempt(None, p.task, seed, r.temperature))
    attempts = [a for p in drafts for a in p.attempts]
    run.attempt(attempts, of, of - len(attempts))
    size = len(kinds) * e.proposals
    return [_teaching_row(run, drafts[i : i + size]) for i in range(0, len(drafts), size)]


def _teaching_row(run: Run, proposals: Sequence[Proposed]) -> TeachingRow:
    judged = [p for p in proposals if p.status != Status.SANDBOX_ERROR]
    solved = [p for p in judged if p.task is not None and p.judged]
    rates = [p.solve_rate for p in solved]
    rewards = [populora(p) for p in (*(p for p in judged if p.task is None), *solved)]
    programs = [p.metrics for p in judged if p.metrics is not None]
    return TeachingRow(
        proposals=len(judged),
        valid_share=mean([float(p.task is not None) for p in judged]),
        base_solve_rate=mean(rates),
        reward=mean(rewards),
        new_structures=len({m.structure for m in programs} - run.structures.keys()),
        rates=tuple(rates),
        rewards=tuple(rewards),
        not_judged=len(proposals) - len(judged) + sum(p.not_judged for p in judged) or UNSET,
    )


def _rate(attempts: Sequence[Attempt]) -> float | None:
    return mean([float(a.solved) for a in attempts if not a.infra_error])


def _paired(
    rates: Sequence[float | None], base: Sequence[float | None], families: Families
) -> dict[str, Any]:
    """Return the means and their difference over the tasks that were judged on both sides."""
    both = zip(families, rates, base, strict=True)
    pairs = [(family, a, b) for family, a, b in both if a is not None and b is not None]
    gains = [a - b for _, a, b in pairs]
    error = mean_and_error(gains, [family for family, _, _ in pairs])
    return {
        "solve_rate": mean([a for _, a, _ in pairs]),
        "base_solve_rate": mean([b for _, _, b in pairs]),
        "difference": mean(gains),
        "standard_error": error and error[1],
    }


def _pass_at(k: int, judged: Sequence[Attempt]) -> float | None:
    n, solved = len(judged), sum(a.solved for a in judged)
    return None if n < k else 1.0 - comb(n - solved, k) / comb(n, k)
