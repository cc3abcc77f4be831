"""What a comparison measures of each run: numbers of it, or one of each held-out task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np

from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.rows import BASE, SolvingRow, StepRow, TeachingRow
from selfplay.run_record import RunRecord, read_run
from selfplay.statistics import Floats, smooth, trend
from selfplay.tasks import held_out_tasks

T = TypeVar("T")
POINTS = "points"
PRETRAINED_LEVELS = 4
"""Programs of higher levels are longer than any in the pretraining of the nano model."""


@dataclass(frozen=True, slots=True)
class Group:
    """An arm, or an arm with a control."""

    arm: str
    control: str | None = None

    def __str__(self) -> str:
        return f"{self.arm}, {self.control}" if self.control else self.arm


@dataclass(frozen=True)
class Trial:
    """One run of a comparison."""

    group: Group
    seed: int
    run: RunRecord
    steps: int
    """Steps that the run is to have."""
    gains: Mapping[int, Mapping[str, Floats]]
    """By step and member: [tasks] solve rates on held-out tasks minus the frozen base's on the same
    tasks with the same random numbers; NaN where a task was not judged."""
    strata: tuple[tuple[str, int], ...]
    """Kind and level of each held-out task; empty where they are not known."""

    @property
    def complete(self) -> bool:
        """Whether the run has done its last step."""
        return self.run.last >= self.steps

    def until(self, step: int) -> "Trial":
        """Return the trial as it was after a step."""
        if step >= self.run.last:
            return self
        gains = {at: found for at, found in self.gains.items() if at <= step}
        return replace(self, run=self.run.until(step), gains=gains)


Of = Callable[[Trial], Floats | None]
"""A number of a run as an array: [tasks] or [1]; None where the run has none."""
Who = Callable[[Mapping[str, Floats]], Floats]
"""From the gains of all members at an evaluation: [tasks] gains."""


@dataclass(frozen=True)
class Measure:
    """A quantity with its unit; `points` are hundredths of a share."""

    name: str
    section: str
    unit: str
    definition: str
    of: Of
    is_share: bool = False
    """Whether it lies between 0 and 1."""

    @property
    def factor(self) -> float:
        """What a value is multiplied by to be shown in its unit."""
        return 100.0 if self.unit == POINTS else 1.0


def read_trial(directory: Path, group: Group, seed: int) -> Trial:
    """Read one run directory; raises RunDirectoryError where it cannot be read."""
    run = read_run(directory)
    rates = [
        (row.step, row.member, _rates(row.solving, directory))
        for row in run.evals
        if isinstance(row.solving, SolvingRow)
    ]
    base = next((found for _, member, found in rates if member == BASE), None)
    gains: dict[int, dict[str, Floats]] = {}
    for step, member, found in rates:
        if member != BASE and base is not None and len(found) == len(base):
            gains.setdefault(step, {})[member] = found - base
    try:
        y = run.config["eval"]
        strata = _kinds_and_levels(tuple(y["held_out"]), int(y["tasks"]))
    except (SelfplayError, KeyError):
        strata = ()  # tasks from a file that is gone; the rates are still there
    if base is None or len(strata) != len(base):
        strata = ()
    steps = int(run.config.get("steps", run.last))
    return Trial(group, seed, run, steps, dict(sorted(gains.items())), strata)


def _rates(solving: SolvingRow, directory: Path) -> Floats:
    solved, judged = np.array(solving.solved, float), np.array(solving.judged, float)
    if solved.shape != judged.shape:
        raise RunDirectoryError(f"{directory}: solved and judged of an evaluation differ in length")
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(solved / judged)


@lru_cache(maxsize=8)
def _kinds_and_levels(sources: tuple[str, ...], count: int) -> tuple[tuple[str, int], ...]:
    return tuple((held.task.kind, held.level) for held in held_out_tasks(sources, count))


# Held-out gain: whose, when, and on which tasks.


def population_mean(gains: Mapping[str, Floats]) -> Floats:
    """Return [tasks] gains, the mean over the living members."""
    return np.asarray(np.mean(list(gains.values()), axis=0))


def best_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the highest mean."""
    return max(gains.values(), key=lambda found: float(np.nanmean(found)))


def weakest_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the lowest mean."""
    return min(gains.values(), key=lambda found: float(np.nanmean(found)))


def at_end(who: Who) -> Of:
    """Return the gain at the last evaluation."""
    return lambda trial: who(list(trial.gains.values())[-1]) if trial.gains else None


def in_last_third(who: Who) -> Of:
    """Return the mean gain over the last third of the evaluations."""

    def of(trial: Trial) -> Floats | None:
        found = [who(gains) for gains in _last_third(list(trial.gains.values()))]
        return np.asarray(np.mean(found, axis=0)) if found else None

    return of


def on_tasks(kind: str = "", levels: Sequence[int] = ()) -> Of:
    """Return the population's gain at the end on the tasks of a kind or of some levels."""

    def part(trial: Trial) -> Floats | None:
        values = at_end(population_mean)(trial)
        mask = np.array([k == kind or level in levels for k, level in trial.strata], bool)
        return values[mask] if values is not None and mask.any() else None

    return part


# How a run moves.


def oscillation(trial: Trial) -> Floats | None:
    """Return the standard deviation of the solve rate around its straight trend, in [0, 1].

    The curve over steps is smoothed first (a Gaussian whose standard deviation is a twentieth of
    the run), then its least-squares line is taken off. Sampling noise is left in it, and in the
    control's as well.
    """
    points = smooth([(s.step, s.solve_rate) for s in trial.run.steps])
    if len(points) < 4:
        return None
    x, y = np.array(points, float).T
    return np.array([np.std(y - np.polyval(np.polyfit(x, y, 1), x))])


def changes_of_lead(trial: Trial) -> Floats | None:
    """Return how often the lead in ratings changes between teachers and students, per 100 steps.

    The role leads whose living members have the higher mean rating; the difference is smoothed as
    the solve rate is, so that a flicker around equality does not count as turns.
    """
    differences = []
    for step in trial.run.steps:
        means = [
            [mu for name, (mu, _) in step.ratings.items() if name.startswith(role)]
            for role in ("t", "s")
        ]
        if not all(means):
            return None
        differences.append((step.step, fmean(means[0]) - fmean(means[1])))
    signs = [value > 0 for _, value in smooth(differences)]
    changes = sum(a != b for a, b in pairwise(signs))
    return np.array([100 * changes / len(signs)])


def back_after(trial: Trial) -> list[tuple[int | None, int]]:
    """Return for each child after how many steps it was back at its parent's level.

    Back: at the first evaluation at which its held-out solve rate is not more than one standard
    error, paired over tasks, below its first parent's; None where it was not seen back. With it
    come the steps from birth to the last evaluation of both. Teachers of a population have no
    held-out solve rate, and a child that was never measured with its parent is left out.
    """
    found: list[tuple[int | None, int]] = []
    for born, birth in trial.run.births:
        parent = birth.parents[0] if birth.parents else ""
        behind = {
            step - born: _behind(gains[birth.child] - gains[parent])
            for step, gains in trial.gains.items()
            if step >= born and birth.child in gains and parent in gains
        }
        if behind:
            back = next((after for after, is_behind in behind.items() if not is_behind), None)
            found.append((back, max(behind)))
    return found


def share_back_within(steps: int) -> Of:
    """Return the share of children, in [0, 1], that are back within so many steps."""

    def of(trial: Trial) -> Floats | None:
        known = [
            back is not None and back <= steps
            for back, seen in back_after(trial)
            if seen >= steps or (back is not None and back <= steps)
        ]
        return np.array([np.mean(known)]) if known else None

    return of


def _behind(differences: Floats) -> bool:
    known = differences[~np.isnan(differences)]
    error = known.std(ddof=1) / sqrt(known.size) if known.size > 1 else 0.0
    return bool(known.size) and bool(known.mean() < -error)


# Numbers of steps.


def change(get: Callable[[StepRow], float | None]) -> Of:
    """Return by how much a number rose: last quarter of the steps minus the first."""

    def of(trial: Trial) -> Floats | None:
        found = trend([(step.step, get(step)) for step in trial.run.steps])
        return None if found is None else np.array([found.change])

    return of


def coverage_growth(trial: Trial) -> Floats | None:
    """Return the share of all structures that the last third of the steps added."""
    steps = trial.run.steps
    late = sum(step.coverage.new for step in _last_third(steps))
    return _one([late / total]) if (total := steps[-1].coverage.structures) else None


def _complexity(name: str) -> Of:
    return change(lambda step: (step.complexity or {}).get(name))


def _teaching(get: Callable[[TeachingRow], float | None]) -> Of:
    def of(trial: Trial) -> Floats | None:
        rows = [row for row in trial.run.evals if row.taught and row.role != BASE]
        steps = set(_last_third(sorted({row.step for row in rows})))
        return _one(get(row.taught) for row in rows if row.step in steps and row.taught)

    return of


def _noise(name: str) -> Of:
    def of(trial: Trial) -> Floats | None:
        steps = _last_third(trial.run.steps)
        values = [m.number(name) for step in steps for m in step.members.values()]
        found = [value for value in values if value is not None]
        return np.array([median(found)]) if found else None

    return of


def _pass_at_k(trial: Trial) -> Floats | None:
    base = [r.rate.pass_at_k for r in trial.run.evals if r.role == BASE and r.rate]
    last = [r.rate.pass_at_k for r in trial.run.latest_evals() if r.rate and r.role != BASE]
    members = _one(last)
    return members - base[0] if members is not None and base and base[0] is not None else None


def _one(values: Iterable[float | None]) -> Floats | None:
    known = [value for value in values if value is not None]
    return np.array([fmean(known)]) if known else None


def _last_third(items: Sequence[T]) -> Sequence[T]:
    return items[len(items) - -(-len(items) // 3) :]


_GAIN = "Held-out gain over the frozen base"
_TASKS = "Held-out gain by task, population mean at the end"
_OWN, _TAUGHT = "The run's own tasks", "Teachers: last third of the evaluations"
_PROGRAMS, _MOTION, _COST = "Programs", "Motion", "Cost"
_QUARTERS = "Mean over accepted programs, last quarter of the steps minus the first."
_TABLE: tuple[tuple[Any, ...], ...] = (
    *(
        (f"{who}, {when}", _GAIN, POINTS, f"Solve rate minus the frozen base's, {when}.", of(f))
        for when, of in (("at the end", at_end), ("last third", in_last_third))
        for who, f in (
            ("population mean", population_mean),
            ("best member", best_member),
            ("weakest member", weakest_member),
        )
    ),
    ("pass@k", _GAIN, POINTS, "Tasks solved by any sample, mean minus the base.", _pass_at_k),
    *(
        (kind, _TASKS, POINTS, f"On {kind} tasks.", on_tasks(kind=kind))
        for kind in ("code_f", "code_i", "code_o")
    ),
    *(
        (f"level {n}", _TASKS, POINTS, f"On level {n}.", on_tasks(levels=(n,)))
        for n in (1, 2, 3, 4)
    ),
    (
        "above level 4",
        _TASKS,
        POINTS,
        "On programs longer than any in pretraining.",
        on_tasks(levels=(PRETRAINED_LEVELS + 1,)),
    ),
    (
        "students minus frozen base",
        _OWN,
        POINTS,
        "Both on a sample of each step's own tasks; mean of the last third of the steps.",
        lambda trial: _one(s.same_tasks.difference for s in _last_third(trial.run.steps)),
    ),
    (
        "solve rate, change",
        _OWN,
        POINTS,
        "Solve rate on the run's own tasks, last quarter of the steps minus the first.",
        change(lambda step: step.solve_rate),
    ),
    (
        "solved by the frozen base",
        _TAUGHT,
        POINTS,
        "What the base solves of their valid tasks, written after references that never change.",
        _teaching(lambda row: row.base_solve_rate),
    ),
    ("valid share", _TAUGHT, POINTS, "Of these proposals.", _teaching(lambda r: r.valid_share)),
    (
        "reward against the base",
        _TAUGHT,
        "",
        "What these tasks would earn with the frozen base as the student.",
        _teaching(lambda row: row.reward),
    ),
    (
        "new structures",
        _TAUGHT,
        "",
        "Structures of these programs that the run has not seen.",
        _teaching(lambda row: row.new_structures),
    ),
    ("AST depth, change", _PROGRAMS, "levels", _QUARTERS, _complexity("ast_depth")),
    ("cyclomatic complexity, change", _PROGRAMS, "paths", _QUARTERS, _complexity("cyclomatic")),
    ("lines, change", _PROGRAMS, "lines", _QUARTERS, _complexity("loc")),
    ("variables, change", _PROGRAMS, "names", _QUARTERS, _complexity("variables")),
    (
        "structures at the end",
        _PROGRAMS,
        "",
        "Different structures of accepted programs.",
        lambda trial: _one([trial.run.steps[-1].coverage.structures]),
    ),
    (
        "structures added late",
        _PROGRAMS,
        POINTS,
        "Share of them that the last third of the steps added; 33 would be even growth.",
        coverage_growth,
    ),
    (
        "oscillation",
        _MOTION,
        POINTS,
        "Standard deviation of the smoothed solve rate on own tasks around its straight trend.",
        oscillation,
    ),
    (
        "changes of lead",
        _MOTION,
        "per 100 steps",
        "How often the mean rating of one role overtakes the other's, after smoothing.",
        changes_of_lead,
    ),
    *(
        (
            f"back within {n} steps",
            _MOTION,
            POINTS,
            "Share of children not more than one standard error below their first parent.",
            share_back_within(n),
            True,
        )
        for n in (10, 20)
    ),
    *(
        (
            f"noise scale of {role}s",
            _COST,
            unit,
            f"{unit.capitalize()} a step at which signal equals noise; median, last third.",
            _noise(name),
        )
        for role, unit, name in (
            ("student", "attempts", "noise_scale_solve"),
            ("teacher", "proposals", "noise_scale_propose"),
        )
    ),
    (
        "seconds",
        _COST,
        "s",
        "Time of all steps.",
        lambda trial: np.array([sum(sum(s.seconds.values()) for s in trial.run.steps)]),
    ),
    (
        "sampled tokens",
        _COST,
        "",
        "In all steps.",
        lambda trial: np.array([sum(s.tokens.sampled for s in trial.run.steps)]),
    ),
)
MEASURES = {row[0]: Measure(*row) for row in _TABLE}
"""All measures by name."""
