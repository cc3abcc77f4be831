"""How well students solve held-out tasks, paired with the frozen base."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from math import comb, sqrt
from statistics import fmean, stdev

from selfplay.population.writing import Trial
from selfplay.records.yardstick_row import RateRow, SolvingRow
from selfplay.run.attempts import attempt
from selfplay.run.held_out import HeldOutTask
from selfplay.run.run import Run
from selfplay.run.stages import Attempt
from selfplay.run.yardstick_state import Solving


def solve_held_out(
    run: Run, members: Sequence[str | None], tasks: Sequence[HeldOutTask]
) -> list[Solving]:
    """Let members (None: the frozen base) attempt the tasks; the same seeds for all."""
    y = run.config.yardstick
    trials = [
        Trial(member, held_out.task, run.seed("held-out", held_out.task.id, i), y.temperature)
        for member in members
        for held_out in tasks
        for i in range(y.samples)
    ]
    done = iter(attempt(run, trials))
    return [
        Solving(tuple(tasks), tuple(tuple(islice(done, y.samples)) for _ in tasks)) for _ in members
    ]


def solving_row(solving: Solving, base: Solving) -> SolvingRow:
    """Return a member's row: rates, and the difference to the base with its standard error.

    pass_at_k is the unbiased estimate (Chen et al. 2021) at k = all samples of a task.
    """
    rates, judged = solving.rates, solving.judged
    tries = [a for attempts in solving.attempts for a in attempts]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for i, held_out in enumerate(solving.tasks):
        by_kind[held_out.task.kind].append(i)
    return SolvingRow(
        **_paired(rates, base.rates),
        kinds={
            kind: RateRow(**_paired([rates[i] for i in chosen], [base.rates[i] for i in chosen]))
            for kind, chosen in sorted(by_kind.items())
        },
        pass_at_k=_mean(
            [_pass_at(len(t), j) for t, j in zip(solving.attempts, judged, strict=True)]
        ),
        well_formed=_mean([float(a.answer is not None) for a in tries]),
        tokens=_mean([float(len(a.rollout.completion_ids)) for a in tries]),
        solved=tuple(sum(a.score >= 1.0 for a in j) for j in judged),
        judged=tuple(len(j) for j in judged),
    )


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
