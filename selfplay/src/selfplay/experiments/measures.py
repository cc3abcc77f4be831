"""What a comparison measures of each run: numbers of it, or one of each held-out task."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import numpy as np

from selfplay.errors import ConfigError, SelfplayError, first_line
from selfplay.files.read import Floats, RunRecord, largest_fall, read_run, smooth, trend
from selfplay.files.rows import BASE, START
from selfplay.objects import load_object
from selfplay.tasks.buffer import HeldOutTask, held_out_tasks

T = TypeVar("T")
_COUNT = re.compile(r"of ([1-9]\d*)")
POINTS, PERCENT, TASKS = "points", "%", "% of tasks"
"""Units of a difference of shares; of a share, which may be all or nothing in a run; and of a share
of so many tasks that it is not. They are numbers from 0 to 1."""


class Group(NamedTuple):
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
    tasks: tuple[HeldOutTask, ...]
    """The held-out tasks, in the order of gains; empty where they are not known."""

    @property
    def complete(self) -> bool:
        """Whether the run has done its last step."""
        return self.run.last >= self.steps

    def until(self, step: int) -> "Trial":
        """Return the trial as it was after a step."""
        gains = {at: by_member for at, by_member in self.gains.items() if at <= step}
        return replace(self, run=self.run.until(step), gains=gains)


Of = Callable[[Trial], Floats | None]
"""A number of a run as an array: [tasks] or [1]; None where the run has none."""
Who = Callable[[Mapping[str, Floats]], Floats]
"""From the gains of all members at an evaluation: [tasks] gains."""


class Measure(NamedTuple):
    """A quantity, its unit, and how to get it from a run."""

    name: str
    unit: str
    of: Of

    @property
    def factor(self) -> float:
        """What a value is multiplied by to be shown in its unit."""
        return 100.0 if self.unit in (POINTS, PERCENT, TASKS) else 1.0

    @property
    def most(self) -> float | None:
        """The number that is all, of a share or of a count such as `of 8`; None of other units."""
        if self.unit in (PERCENT, TASKS):
            return 1.0
        known = _COUNT.fullmatch(self.unit)
        return float(known[1]) if known else None

    @property
    def title(self) -> str:
        """The name with its unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def read_trial(directory: Path, group: Group, seed: int) -> Trial:
    """Read one run directory; raises RunDirectoryError where it cannot be read."""
    run = read_run(directory)
    gains = run.held_out_gains()
    count = next((len(g) for by_member in gains.values() for g in by_member.values()), 0)
    tasks: tuple[HeldOutTask, ...] = ()
    try:
        settings = run.config["eval"]
        tasks = _held_out(tuple(settings["held_out"]), int(settings["tasks"]))
    except (SelfplayError, KeyError):
        pass  # tasks from a file that is gone; the rates are still there
    tasks = tasks if len(tasks) == count else ()
    steps = int(run.config.get("steps", run.last))
    return Trial(group, seed, run, steps, gains, tasks)


@lru_cache(maxsize=8)
def _held_out(sources: tuple[str, ...], count: int) -> tuple[HeldOutTask, ...]:
    return tuple(held_out_tasks(sources, count))


# Held-out gain: whose, when, and on which tasks.


def population_mean(gains: Mapping[str, Floats]) -> Floats:
    """Return [tasks] gains, the mean over the living members."""
    return np.asarray(np.mean(list(gains.values()), axis=0))


def best_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the highest mean."""
    return max(gains.values(), key=np.nanmean)


def weakest_member(gains: Mapping[str, Floats]) -> Floats:
    """Return the gains of the member with the lowest mean."""
    return min(gains.values(), key=np.nanmean)


def at_end(who: Who) -> Of:
    """Return the gain at the last evaluation."""
    return lambda trial: who(list(trial.gains.values())[-1]) if trial.gains else None


def over_start(trial: Trial) -> Floats | None:
    """Return the population's gain at the last evaluation over the warm start's; None without."""
    start, end = trial.gains.get(0, {}).get(START), at_end(population_mean)(trial)
    return None if start is None or end is None else np.asarray(end - start)


def in_last_third(who: Who) -> Of:
    """Return the mean gain over the last third of the evaluations."""

    def of(trial: Trial) -> Floats | None:
        late = [who(gains) for gains in _last_third(list(trial.gains.values()))]
        return np.asarray(np.mean(late, axis=0)) if late else None

    return of


def forgetting(trial: Trial) -> Floats | None:
    """Return the best the population was minus what it is at the end, each over three evaluations.

    The best of many is above the last by chance, too: compare it between arms.
    """
    track = [population_mean(gains) for gains in trial.gains.values()]
    if len(track) < 3:
        return None
    means = [np.mean(track[i : i + 3], axis=0) for i in range(len(track) - 2)]
    return np.asarray(max(means, key=np.nanmean) - means[-1])


def on_tasks(part: str | int) -> Of:
    """Return the population's gain at the end on the tasks of a kind or a level."""

    def of(trial: Trial) -> Floats | None:
        values = at_end(population_mean)(trial)
        mask = np.array([part in (task.task.kind, task.level) for task in trial.tasks], bool)
        return values[mask] if values is not None and mask.any() else None

    return of


# How a run moves.


def oscillation(trial: Trial) -> Floats | None:
    """Return the standard deviation of the smoothed solve rate around its straight trend.

    Sampling noise is left in it, and in the control's as well.
    """
    points = smooth(trial.run.series("solve_rate"))
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


# Numbers of steps.


def change(path: str) -> Of:
    """Return by how much a number rose: last quarter of the steps minus the first."""

    def of(trial: Trial) -> Floats | None:
        quarters = trend(trial.run.series(path))
        return np.array([quarters.last.mean - quarters.first.mean]) if quarters else None

    return of


def lately(path: str) -> Of:
    """Return the mean of a number over the last third of the steps."""
    return lambda trial: _mean(n for _, n in _last_third(trial.run.series(path)))


def coverage_growth(trial: Trial) -> Floats | None:
    """Return the share of all structures that the last third of the steps added."""
    steps = trial.run.steps
    late = sum(step.coverage.new for step in _last_third(steps))
    return _mean([late / total]) if (total := steps[-1].coverage.structures) else None


def _teaching(field: str) -> Of:
    def of(trial: Trial) -> Floats | None:
        rows = [row for row in trial.run.evals if row.taught and row.role != BASE]
        steps = set(_last_third(sorted({row.step for row in rows})))
        return _mean(getattr(row.taught, field) for row in rows if row.step in steps)

    return of


def _mean(values: Iterable[float | None]) -> Floats | None:
    known = [value for value in values if value is not None]
    return np.array([fmean(known)]) if known else None


def _last_third(items: Sequence[T]) -> Sequence[T]:
    return items[len(items) - -(-len(items) // 3) :]


_MEMBERS = {
    "population mean": population_mean,
    "best member": best_member,
    "weakest member": weakest_member,
}
SECTIONS: dict[str, tuple[str, tuple[Measure, ...]]] = {
    "Held-out gain over the frozen base": (
        "Solve rate on held-out tasks minus the frozen base's on the same tasks with the same "
        "random numbers, at the last evaluation or the mean of the last third of them. Over the "
        "warm start: minus the solve rate of the adapter that the run's members began with. "
        "Forgetting: the best mean of three evaluations minus that of the last three. Largest "
        "fall: of any member from one of its evaluations to the next. Both are above 0 by chance, "
        "too.",
        (
            *(Measure(f"{who}, at the end", POINTS, at_end(f)) for who, f in _MEMBERS.items()),
            *(Measure(f"{w}, last third", POINTS, in_last_third(f)) for w, f in _MEMBERS.items()),
            Measure("population mean over the warm start, at the end", POINTS, over_start),
            Measure("forgetting", POINTS, forgetting),
            Measure(
                "largest fall of one member",
                POINTS,
                lambda trial: fall.lost if (fall := largest_fall(trial.run)) else None,
            ),
        ),
    ),
    "Held-out gain by task": (
        "Population mean at the last evaluation. Programs above level 4 are longer than any in "
        "pretraining.",
        (
            *(Measure(kind, POINTS, on_tasks(kind)) for kind in ("code_f", "code_i", "code_o")),
            *(Measure(f"level {n}", POINTS, on_tasks(n)) for n in (1, 2, 3, 4)),
            Measure("above level 4", POINTS, on_tasks(5)),
        ),
    ),
    "The run's own tasks": (
        "Students and the frozen base on a sample of each step's tasks; flat tasks, which all "
        "attempts solved or none; the structure of programs that is most common in a step: means "
        "of the last third of the steps. Solve rate of all tasks, last quarter of the steps minus "
        "the first.",
        (
            Measure("students minus frozen base", POINTS, lately("same_tasks.difference")),
            Measure("flat tasks", TASKS, lately("flat")),
            Measure("commonest structure", TASKS, lately("coverage.commonest")),
            Measure("solve rate, change", POINTS, change("solve_rate")),
        ),
    ),
    "Teachers": (
        "Proposals after references that never change, in the last third of the evaluations: what "
        "the frozen base solves of the valid ones, their reward as if the base were the student, "
        "and structures of programs that the run has not seen.",
        (
            Measure("solved by the frozen base", TASKS, _teaching("base_solve_rate")),
            Measure("valid share", TASKS, _teaching("valid_share")),
            Measure("reward against the base", "", _teaching("reward")),
            Measure("new structures", "", _teaching("new_structures")),
        ),
    ),
    "Programs": (
        "Means over accepted programs, last quarter of the steps minus the first; different "
        "structures, and the share of them that the last third of the steps added (33 would be "
        "even growth).",
        (
            Measure("AST depth, change", "levels", change("complexity.ast_depth")),
            Measure("cyclomatic complexity, change", "paths", change("complexity.cyclomatic")),
            Measure("lines, change", "lines", change("complexity.loc")),
            Measure("variables, change", "names", change("complexity.variables")),
            Measure(
                "structures at the end",
                "",
                lambda trial: _mean([trial.run.steps[-1].coverage.structures]),
            ),
            Measure("structures added late", TASKS, coverage_growth),
        ),
    ),
    "Motion": (
        "Oscillation: standard deviation of the smoothed solve rate on own tasks around its "
        "straight trend. Changes of lead: how often the mean rating of one role overtakes the "
        "other's, after smoothing.",
        (
            Measure("oscillation", POINTS, oscillation),
            Measure("changes of lead", "per 100 steps", changes_of_lead),
        ),
    ),
    "Cost": (
        "Seconds of all steps.",
        (
            Measure(
                "seconds",
                "s",
                lambda trial: _mean([sum(sum(s.seconds.values()) for s in trial.run.steps)]),
            ),
        ),
    ),
}
"""By title: what the measures mean, and the measures."""
MEASURES = {measure.name: measure for _, some in SECTIONS.values() for measure in some}


def sections_with(named: str | None) -> Mapping[str, tuple[str, tuple[Measure, ...]]]:
    """Return all sections: ours, and one of measures of a user's own.

    named: `module:object` of a mapping from names to (unit, function); None: there are none. A
    function takes a `Trial`, and returns a number, one of each held-out task, or None where there
    is nothing to say. Raises ConfigError for any other object, and for a name that is ours.
    """
    if named is None:
        return SECTIONS
    table = load_object(named, "measures")
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"measures: {named} is of type {type(table).__name__}; expected a mapping from names "
            "to (unit, function)"
        )
    return {**SECTIONS, f"Measures of {named}": _section(named, table)}


def measures_with(named: str | None) -> dict[str, Measure]:
    """Return all measures by name: ours, and a user's own as in `sections_with`."""
    return {m.name: m for _, measures in sections_with(named).values() for m in measures}


def _section(named: str, table: Mapping[Any, Any]) -> tuple[str, tuple[Measure, ...]]:
    """Return measures of a user's own, and what the first lines of their docstrings say."""
    measures, meanings = [], []
    for name, pair in table.items():
        fits = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
        if not isinstance(name, str) or not fits or not callable(pair[1]):
            raise ConfigError(f"measures: {named}[{name!r}] is {pair!r}; expected (unit, function)")
        if name in MEASURES:
            raise ConfigError(f"measures: {named} names {name!r}, which is ours; choose another")
        unit, function = pair
        measures.append(Measure(name, unit, _of_user(name, function)))
        doc = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
        meanings.append(f"{name}: {doc}" if doc else f"{name}.")
    return " ".join(meanings), tuple(measures)


def _of_user(name: str, function: Callable[[Trial], Any]) -> Of:
    def of(trial: Trial) -> Floats | None:
        try:
            value = function(trial)
            return None if value is None else np.atleast_1d(np.asarray(value, np.float64))
        except Exception as error:  # the user's function may raise what it likes
            raise SelfplayError(
                f"measure {name!r} of {trial.run.directory}: {type(error).__name__}: "
                f"{first_line(error)}; expected a number, one of each held-out task, or None"
            ) from error

    return of
