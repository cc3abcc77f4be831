"""The measures of a comparison: one function of a run for each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

import numpy as np

from selfplay.experiments.kept import KeptRun
from selfplay.files.intervals import Floats
from selfplay.files.record import RunRecord, quarters, smooth
from selfplay.files.rows import BASE, START, mean, role_of
from selfplay.reports.findings import falls, moves

T = TypeVar("T")
POINTS, PERCENT = "points", "%"
"""Units of a difference of shares, and of a share; both are stored as numbers from 0 to 1."""
Of = Callable[[RunRecord], Floats | float | None]
"""Returns a measure of a run, a number or [tasks]; None if the run has none."""
Who = Callable[[Mapping[str, Floats]], Floats]
"""Returns [tasks] gains from those of all members at an evaluation."""


def measure(run: RunRecord) -> dict[str, Floats | None]:
    """Return all measures of a run by name, as arrays [tasks] or [1]."""
    values = {name: of(run) for name, (_, of) in MEASURES.items()}
    return {name: None if of is None else np.atleast_1d(of) for name, of in values.items()}


def population_mean(gains: Mapping[str, Floats]) -> Floats:
    """Return [tasks] gains, the mean over the living members."""
    return np.asarray(np.mean(list(gains.values()), axis=0))


def weakest_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the lowest mean."""
    return min(gains.values(), key=np.nanmean)


def last_third(items: Sequence[T]) -> Sequence[T]:
    """Return the last third, rounded up."""
    return items[len(items) - -(-len(items) // 3) :]


def _gain(who: Who, when: str, run: RunRecord | KeptRun) -> Floats | None:
    evaluations = [who(of_step) for of_step in run.held_out_gains().values()]
    late = last_third(evaluations) if when == "last third" else evaluations[-1:]
    return np.asarray(np.mean(late, axis=0)) if late else None


def _over_start(run: RunRecord) -> Floats | None:
    gains = run.held_out_gains()
    start = gains.get(0, {}).get(START)
    return None if start is None else population_mean([*gains.values()][-1]) - start


def _largest_fall(run: RunRecord) -> Floats | None:
    return max((move.lost for move in moves(run)), key=np.nanmean, default=None)


def _fallen(run: RunRecord) -> int | None:
    return len({fall.member for fall in falls(run)}) if moves(run) else None


def _oscillation(run: RunRecord) -> float | None:
    """Return the standard deviation of the smoothed solve rate around its linear trend."""
    points = smooth(run.series("solve_rate"))
    if len(points) < 4:
        return None
    x, y = np.array(points, float).T
    return float(np.std(y - np.polyval(np.polyfit(x, y, 1), x)))


def _changes_of_lead(run: RunRecord) -> float | None:
    """Return how often the role with the higher smoothed mean rating changes, per 100 steps."""
    leads = []
    for step in run.steps:
        of_roles: dict[str, list[float]] = {"teacher": [], "student": []}
        for name, (mu, _sigma) in step.ratings.items():
            of_roles.setdefault(role_of(name), []).append(mu)
        if not all(of_roles.values()):
            return None
        leads.append((step.step, fmean(of_roles["teacher"]) - fmean(of_roles["student"])))
    signs = [value > 0 for _, value in smooth(leads)]
    return 100 * sum(a != b for a, b in pairwise(signs)) / len(signs)


def _change(path: str, run: RunRecord) -> float | None:
    """Return the mean of a number in the last quarter of the steps minus that in the first."""
    means = quarters(run.series(path))
    return means[1] - means[0] if means else None


def _lately(path: str, run: RunRecord) -> float | None:
    return mean(number for _, number in last_third(run.series(path)))


def _teaching(field: str, run: RunRecord) -> float | None:
    """Return the mean over the teachers in the last third of their evaluations."""
    rows = [row for row in run.evals if row.taught and row.role != BASE]
    steps = set(last_third(sorted({row.step for row in rows})))
    return mean(getattr(row.taught, field) for row in rows if row.step in steps)


def _added_late(run: RunRecord) -> float | None:
    late, total = last_third(run.steps), run.steps[-1].coverage.structures
    return sum(step.coverage.new for step in late) / total if total else None


GAINS: Mapping[str, Callable[[RunRecord | KeptRun], Floats | None]] = {
    f"gain, {whose}, {when}": partial(_gain, who, when)
    for when in ("last third", "at the end")
    for whose, who in (("population mean", population_mean), ("weakest member", weakest_member))
}
"""The measures, in points, that kept runs have, too."""
HELD_OUT = (*GAINS, "gain over the warm start, at the end", "largest fall of one member")
HELD_OUT += ("members that fell",)
"""The measures on held-out tasks."""
MEASURES: Mapping[str, tuple[str, Of]] = {
    **{name: (POINTS, of) for name, of in GAINS.items()},
    "gain over the warm start, at the end": (POINTS, _over_start),
    "largest fall of one member": (POINTS, _largest_fall),
    "members that fell": ("", _fallen),
    "own tasks: students minus base": (POINTS, partial(_lately, "same_tasks.difference")),
    "own tasks: solve rate, change": (POINTS, partial(_change, "solve_rate")),
    "own tasks: flat": (PERCENT, partial(_lately, "flat")),
    "own tasks: commonest structure": (PERCENT, partial(_lately, "coverage.commonest")),
    "teachers: valid share": (PERCENT, partial(_teaching, "valid_share")),
    "teachers: solved by the base": (PERCENT, partial(_teaching, "base_solve_rate")),
    "teachers: reward against the base": ("", partial(_teaching, "reward")),
    "teachers: new structures": ("", partial(_teaching, "new_structures")),
    "programs: AST depth, change": ("levels", partial(_change, "complexity.ast_depth")),
    "programs: cyclomatic, change": ("paths", partial(_change, "complexity.cyclomatic")),
    "programs: lines, change": ("lines", partial(_change, "complexity.loc")),
    "programs: variables, change": ("names", partial(_change, "complexity.variables")),
    "programs: structures at the end": ("", lambda run: run.steps[-1].coverage.structures),
    "programs: structures added late": (PERCENT, _added_late),
    "oscillation of the solve rate": (POINTS, _oscillation),
    "changes of lead": ("per 100 steps", _changes_of_lead),
    "seconds": ("s", lambda run: sum(sum(s.seconds.values()) for s in run.steps)),
}
"""Unit and function by name; `gain` is the gain over the frozen base on held-out tasks."""
