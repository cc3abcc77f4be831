"""The measures of a comparison: one function of a run for each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

import numpy as np

from selfplay.files.intervals import Floats
from selfplay.files.record import RunRecord, quarters, smooth
from selfplay.files.rows import BASE, START, role_of
from selfplay.reports.findings import falls, largest_fall, moves

T = TypeVar("T")
POINTS, PERCENT = "points", "%"
"""Units of a difference of shares, and of a share; both are stored as numbers from 0 to 1."""
Gains = Mapping[int, Mapping[str, Floats]]
"""By step and member: [tasks] held-out solve rates minus the frozen base's."""
Of = Callable[[RunRecord, Gains], Floats | None]
"""Returns a measure of a run as an array, [tasks] or [1]; None if the run has none."""
Who = Callable[[Mapping[str, Floats]], Floats]
"""Returns [tasks] gains from those of all members at an evaluation."""


def measure(run: RunRecord) -> dict[str, Floats | None]:
    """Return all measures of a run by name."""
    gains = run.held_out_gains()
    return {name: of(run, gains) for name, (_, of) in MEASURES.items()}


def population_mean(gains: Mapping[str, Floats]) -> Floats:
    """Return [tasks] gains, the mean over the living members."""
    return np.asarray(np.mean(list(gains.values()), axis=0))


def weakest_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the lowest mean."""
    return min(gains.values(), key=np.nanmean)


def last_third(items: Sequence[T]) -> Sequence[T]:
    """Return the last third, rounded up."""
    return items[len(items) - -(-len(items) // 3) :]


def _gain(who: Who, when: str) -> Callable[[Gains], Floats | None]:
    def of(gains: Gains) -> Floats | None:
        evaluations = [who(of_step) for of_step in gains.values()]
        late = last_third(evaluations) if when == "last third" else evaluations[-1:]
        return np.asarray(np.mean(late, axis=0)) if late else None

    return of


def _of_gains(of: Callable[[Gains], Floats | None]) -> Of:
    return lambda _, gains: of(gains)


def _over_start(_: RunRecord, gains: Gains) -> Floats | None:
    start = gains.get(0, {}).get(START)
    return None if start is None else population_mean([*gains.values()][-1]) - start


def _fallen(run: RunRecord, _: Gains) -> Floats | None:
    return np.array([len({fall.member for fall in falls(run)})]) if moves(run) else None


def _oscillation(run: RunRecord, _: Gains) -> Floats | None:
    """Return the standard deviation of the smoothed solve rate around its linear trend."""
    points = smooth(run.series("solve_rate"))
    if len(points) < 4:
        return None
    x, y = np.array(points, float).T
    return np.array([np.std(y - np.polyval(np.polyfit(x, y, 1), x))])


def _changes_of_lead(run: RunRecord, _: Gains) -> Floats | None:
    """Return how often the role with the higher smoothed mean rating changes, per 100 steps."""
    leads = []
    for step in run.steps:
        of_roles = [
            [mu for name, (mu, _) in step.ratings.items() if role_of(name) == role]
            for role in ("teacher", "student")
        ]
        if not all(of_roles):
            return None
        leads.append((step.step, fmean(of_roles[0]) - fmean(of_roles[1])))
    signs = [value > 0 for _, value in smooth(leads)]
    return np.array([100 * sum(a != b for a, b in pairwise(signs)) / len(signs)])


def _change(path: str) -> Of:
    """Return the measure: mean of a number in the last quarter of the steps minus the first."""

    def of(run: RunRecord, _: Gains) -> Floats | None:
        means = quarters(run.series(path))
        return np.array([means[1] - means[0]]) if means else None

    return of


def _lately(path: str) -> Of:
    return lambda run, _: _mean(number for _, number in last_third(run.series(path)))


def _teaching(field: str) -> Of:
    """Return the measure: mean over the teachers in the last third of their evaluations."""

    def of(run: RunRecord, _: Gains) -> Floats | None:
        rows = [row for row in run.evals if row.taught and row.role != BASE]
        steps = set(last_third(sorted({row.step for row in rows})))
        return _mean(getattr(row.taught, field) for row in rows if row.step in steps)

    return of


def _added_late(run: RunRecord, _: Gains) -> Floats | None:
    late, total = last_third(run.steps), run.steps[-1].coverage.structures
    return _mean([sum(step.coverage.new for step in late) / total]) if total else None


def _mean(values: Iterable[float | None]) -> Floats | None:
    numbers = [value for value in values if value is not None]
    return np.array([fmean(numbers)]) if numbers else None


GAINS: Mapping[str, Callable[[Gains], Floats | None]] = {
    f"gain, {whose}, {when}": _gain(who, when)
    for when in ("last third", "at the end")
    for whose, who in (("population mean", population_mean), ("weakest member", weakest_member))
}
"""The measures, in points, that need only the gains; kept runs have them, too."""
MEASURES: Mapping[str, tuple[str, Of]] = {
    **{name: (POINTS, _of_gains(of)) for name, of in GAINS.items()},
    "gain over the warm start, at the end": (POINTS, _over_start),
    "largest fall of one member": (
        POINTS,
        lambda run, _: fall.lost if (fall := largest_fall(run)) else None,
    ),
    "members that fell": ("", _fallen),
    "own tasks: students minus base": (POINTS, _lately("same_tasks.difference")),
    "own tasks: solve rate, change": (POINTS, _change("solve_rate")),
    "own tasks: flat": (PERCENT, _lately("flat")),
    "own tasks: commonest structure": (PERCENT, _lately("coverage.commonest")),
    "teachers: valid share": (PERCENT, _teaching("valid_share")),
    "teachers: solved by the base": (PERCENT, _teaching("base_solve_rate")),
    "teachers: reward against the base": ("", _teaching("reward")),
    "teachers: new structures": ("", _teaching("new_structures")),
    "programs: AST depth, change": ("levels", _change("complexity.ast_depth")),
    "programs: cyclomatic, change": ("paths", _change("complexity.cyclomatic")),
    "programs: lines, change": ("lines", _change("complexity.loc")),
    "programs: variables, change": ("names", _change("complexity.variables")),
    "programs: structures at the end": (
        "",
        lambda run, _: _mean([run.steps[-1].coverage.structures]),
    ),
    "programs: structures added late": (PERCENT, _added_late),
    "oscillation of the solve rate": (POINTS, _oscillation),
    "changes of lead": ("per 100 steps", _changes_of_lead),
    "seconds": ("s", lambda run, _: _mean([sum(sum(s.seconds.values()) for s in run.steps)])),
}
"""Unit and function by name; `gain` is the gain over the frozen base on held-out tasks."""
