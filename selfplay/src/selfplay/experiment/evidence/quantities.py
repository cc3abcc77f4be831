"""What is compared: each quantity of a run with its unit and its definition."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from selfplay.experiment.evidence.gains import (
    Of,
    at_end,
    best_member,
    beyond_pretraining,
    in_last_third,
    last_third,
    of_kind,
    of_level,
    population_mean,
    weakest_member,
)
from selfplay.experiment.evidence.statistics import Floats
from selfplay.experiment.evidence.trials import Trial
from selfplay.records.step_row import StepRow
from selfplay.records.yardstick_row import BASE, TeachingRow
from selfplay.report.reading.standing import latest, teachers
from selfplay.report.reading.trend import trend

POINTS = "points"
COMPLEXITY = {
    "ast_depth": ("AST depth", "levels"),
    "cyclomatic": ("cyclomatic complexity", "paths"),
    "loc": ("lines", ""),
    "variables": ("variables", ""),
}
"""Title and unit of every measure of a program."""


@dataclass(frozen=True)
class Quantity:
    """A number of a run, or one of each held-out task."""

    title: str
    unit: str
    """`points` are hundredths of a share."""
    definition: str
    of: Of
    missing: str = "no run has a number for it yet"
    """What is said where there is no number."""

    @property
    def titled(self) -> str:
        """The title with its unit, where that adds something."""
        named = not self.unit or self.unit in self.title
        return self.title if named else f"{self.title} ({self.unit})"

    @property
    def factor(self) -> float:
        """What a value is multiplied by to be shown in its unit."""
        return 100.0 if self.unit == POINTS else 1.0


def sections(trials: Sequence[Trial]) -> dict[str, list[Quantity]]:
    """Return all quantities by the heading they stand under."""
    mean = at_end(population_mean)
    strata = {stratum for trial in trials for stratum in trial.strata}
    kinds, levels = sorted({k for k, _ in strata}), sorted({n for _, n in strata if n})
    return {
        "Held-out gain over the frozen base": HELD_OUT,
        "Held-out gain by kind, at the end": [
            Quantity(kind, POINTS, f"Population mean on {kind} tasks.", of_kind(kind, mean))
            for kind in kinds
        ],
        "Held-out gain by level, at the end": [
            Quantity(f"level {n}", POINTS, f"Population mean on level {n}.", of_level(n, mean))
            for n in levels
        ]
        + [OUT_OF_DISTRIBUTION],
        "The run's own tasks": OWN_TASKS,
        "Teachers": TEACHERS,
        "Programs: last quarter of the steps minus the first": [
            Quantity(title, unit, "Mean over accepted programs.", complexity_change(name))
            for name, (title, unit) in COMPLEXITY.items()
        ],
        "Coverage": COVERAGE,
        "Gradient noise scale": NOISE,
        "Cost": COST,
    }


def complexity_change(name: str) -> Of:
    """Return by how much a measure of the programs rose, last quarter minus first quarter."""
    return _change(lambda step: (step.complexity or {}).get(name))


def solve_rate_change(trial: Trial) -> Floats | None:
    """Return by how much the solve rate on the run's own tasks rose."""
    return _change(lambda step: step.solve_rate)(trial)


def coverage_growth(trial: Trial) -> Floats | None:
    """Return the share of all structures that the last third of the steps added."""
    steps = trial.run.steps
    late = sum(step.coverage.new for step in last_third(steps))
    return _one([late / total]) if (total := steps[-1].coverage.structures) else None


def _one(values: Iterable[float | None]) -> Floats | None:
    known = [value for value in values if value is not None]
    return np.array([fmean(known)]) if known else None


def _change(get: Callable[[StepRow], float | None]) -> Of:
    def of(trial: Trial) -> Floats | None:
        found = trend([(step.step, get(step)) for step in trial.run.steps])
        return None if found is None else np.array([found.change])

    return of


def _late(get: Callable[[StepRow], float | None]) -> Of:
    return lambda trial: _one(get(step) for step in last_third(trial.run.steps))


def _teachers(get: Callable[[TeachingRow], float | None]) -> Of:
    def of(trial: Trial) -> Floats | None:
        found = teachers(trial.run.standings)
        steps = set(last_third(sorted({standing.step for standing in found})))
        return _one(get(s.taught) for s in found if s.step in steps and s.taught)

    return of


def _noise(name: str) -> Of:
    def of(trial: Trial) -> Floats | None:
        steps = last_third(trial.run.steps)
        values = (m.number(name) for step in steps for m in step.members.values())
        found = [value for value in values if value is not None]
        return np.array([median(found)]) if found else None

    return of


def _pass_at_k(trial: Trial) -> Floats | None:
    solvers = [s for s in trial.run.standings if s.rate]
    base = next((s.rate.pass_at_k for s in solvers if s.role == BASE and s.rate), None)
    members = _one(s.rate.pass_at_k for s in latest(solvers) if s.role != BASE and s.rate)
    return None if members is None or base is None else members - base


def _total(get: Callable[[StepRow], float]) -> Of:
    return lambda trial: np.array([sum(get(step) for step in trial.run.steps)])


HELD_OUT = [
    Quantity(
        f"{name}, {when}",
        POINTS,
        f"Solve rate on held-out tasks minus the frozen base's on the same: {name}, {meaning}.",
        timing(who),
    )
    for when, meaning, timing in (
        ("at the end", "at the last measurement", at_end),
        ("last third", "mean of the last third of the measurements", in_last_third),
    )
    for name, who in (
        ("population mean", population_mean),
        ("best member", best_member),
        ("weakest member", weakest_member),
    )
] + [
    Quantity(
        "pass@k, at the end",
        POINTS,
        "Share of tasks solved by any of the samples, population mean minus the frozen base.",
        _pass_at_k,
    )
]
OUT_OF_DISTRIBUTION = Quantity(
    "above level 4",
    POINTS,
    "Population mean on programs longer than any in pretraining.",
    beyond_pretraining(at_end(population_mean)),
    "no held-out task is that long",
)
OWN_TASKS = [
    Quantity(
        "students minus frozen base",
        POINTS,
        "Both on a sample of each step's own tasks; mean of the last third of the steps.",
        _late(lambda step: step.same_tasks.difference),
    ),
    Quantity(
        "solve rate, change",
        POINTS,
        "Solve rate on the run's own tasks, last quarter of the steps minus the first.",
        solve_rate_change,
    ),
]
TEACHERS = [
    Quantity(
        "solved by the frozen base",
        POINTS,
        "What the frozen base solves of the teachers' valid tasks, written after references that "
        "never change; mean of the last third of the measurements.",
        _teachers(lambda s: s.base_solve_rate),
    ),
    Quantity(
        "valid share", POINTS, "Share of valid proposals there.", _teachers(lambda s: s.valid_share)
    ),
    Quantity(
        "reward against the base",
        "",
        "What these tasks would earn with the frozen base as the student.",
        _teachers(lambda s: s.reward),
    ),
    Quantity(
        "new structures",
        "",
        "Structures of these programs that the run has not seen, a teacher and measurement.",
        _teachers(lambda s: s.new_structures),
    ),
]
COVERAGE = [
    Quantity(
        "structures at the end",
        "",
        "Different structures of accepted programs.",
        lambda trial: _one([trial.run.steps[-1].coverage.structures]),
    ),
    Quantity(
        "added in the last third",
        POINTS,
        "Share of them that the last third of the steps added; 33 would be even growth.",
        coverage_growth,
    ),
]
NOISE = [
    Quantity(
        f"{role}s",
        unit,
        f"{unit.capitalize()} a step at which a {role}'s gradient is as much signal as noise; "
        "median over members and steps of the last third that show a signal.",
        _noise(name),
    )
    for role, unit, name in (
        ("student", "attempts", "noise_scale_solve"),
        ("teacher", "proposals", "noise_scale_propose"),
    )
]
COST = [
    Quantity("seconds", "s", "Time of all steps.", _total(lambda s: sum(s.seconds.values()))),
    Quantity("sampled tokens", "", "In all steps.", _total(lambda s: s.tokens.sampled)),
]
