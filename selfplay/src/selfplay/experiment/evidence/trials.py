"""Finished and unfinished runs as a comparison reads them: by arm, control and seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.experiment.design.plan import Plan, flat
from selfplay.experiment.design.plan_file import open_plan
from selfplay.experiment.design.runs import planned_runs
from selfplay.experiment.evidence.statistics import Floats
from selfplay.records.yardstick_row import BASE, SolvingRow
from selfplay.report.reading.run_data import Run, read_run
from selfplay.run.directory import METRICS
from selfplay.run.held_out import held_out_tasks


@dataclass(frozen=True, slots=True)
class Group:
    """An arm, or an arm with a control."""

    arm: str
    control: str | None = None

    def __str__(self) -> str:
        return f"{self.arm}, {self.control}" if self.control else self.arm


@dataclass(frozen=True, slots=True)
class Measurement:
    """Members on held-out tasks: [tasks] solve rates minus the frozen base's on the same tasks.

    NaN where a task was not judged. The base attempts with the same random numbers.
    """

    step: int
    gains: Mapping[str, Floats]


@dataclass(frozen=True)
class Trial:
    """One run of a comparison."""

    group: Group
    seed: int
    run: Run
    steps: int
    """Steps that the run is to have."""
    measurements: tuple[Measurement, ...]
    strata: tuple[tuple[str, int], ...]
    """Kind and level of each held-out task; empty where they are not known."""

    @property
    def complete(self) -> bool:
        """Whether the run has done its last step."""
        return self.run.last >= self.steps

    def until(self, step: int) -> "Trial":
        """Return the trial as it stood after a step."""
        if step >= self.run.last:
            return self
        run = replace(
            self.run,
            steps=tuple(s for s in self.run.steps if s.step <= step),
            standings=tuple(s for s in self.run.standings if s.step <= step),
        )
        kept = tuple(m for m in self.measurements if m.step <= step)
        return replace(self, run=run, measurements=kept)


def open_trials(places: Sequence[Path]) -> tuple[Plan, list[Trial]]:
    """Return the plan and the runs of an experiment's directory, or of any run directories.

    Runs without a plan get one: every arm against the first. Raises RunDirectoryError where nothing
    can be compared.
    """
    homes = [place for place in places if (place / "plan.yaml").is_file()]
    if homes and len(places) > 1:
        raise RunDirectoryError(
            f"{homes[0]} is a whole experiment; compare it alone, or name run directories only"
        )
    if homes:
        plan = open_plan(str(homes[0] / "plan.yaml"))
        trials = read_planned(plan, homes[0])
        if not trials:
            raise RunDirectoryError(f"{homes[0]} has no run with a finished step yet")
        return plan, trials
    trials = read_apart(places)
    arms = list(dict.fromkeys(t.group.arm for t in trials))
    seeds = tuple(sorted({t.seed for t in trials}))
    contrasts = tuple((arm, arms[0]) for arm in arms[1:])
    return Plan("comparison", {arm: {} for arm in arms}, seeds, contrasts=contrasts), trials


def read_planned(plan: Plan, home: Path) -> list[Trial]:
    """Read the runs of an experiment that have a finished step."""
    return [
        read_trial(home / run.folder, Group(run.arm, run.control), run.seed)
        for run in planned_runs(plan)
        if _begun(home / run.folder)
    ]


def read_apart(directories: Sequence[Path]) -> list[Trial]:
    """Read runs that no plan names; those whose settings differ in the seed only are one arm.

    An arm is named by the settings in which the arms differ.
    """
    trials = [read_trial(path, Group(str(path)), 0) for path in directories]
    settings = [{k: str(v) for k, v in flat(t.run.config).items()} for t in trials]
    for found in settings:
        found.pop("seed", None)
    differ = [
        k
        for k in dict.fromkeys(k for f in settings for k in f)
        if len({f.get(k) for f in settings}) > 1
    ]
    names = [", ".join(f"{k.rpartition('.')[2]} {f.get(k, '-')}" for k in differ) for f in settings]
    return [
        replace(t, group=Group(name or "runs"), seed=int(t.run.config.get("seed", 0)))
        for t, name in zip(trials, names, strict=True)
    ]


def read_trial(directory: Path, group: Group, seed: int) -> Trial:
    """Read one run directory; raises RunDirectoryError where it cannot be read."""
    run = read_run(directory)
    counts = [
        (row.step, row.member, _rates(row.solving, directory))
        for row in run.standings
        if isinstance(row.solving, SolvingRow)
    ]
    base = next((rates for step, member, rates in counts if member == BASE), None)
    gains: dict[int, dict[str, Floats]] = {}
    for step, member, rates in counts:
        if member != BASE and base is not None and len(rates) == len(base):
            gains.setdefault(step, {})[member] = rates - base
    strata = _strata(run.config)
    return Trial(
        group,
        seed,
        run,
        int(run.config.get("steps", run.last)),
        tuple(Measurement(step, found) for step, found in sorted(gains.items())),
        strata if base is not None and len(strata) == len(base) else (),
    )


def _begun(directory: Path) -> bool:
    path = directory / METRICS
    return path.is_file() and path.stat().st_size > 0


def _rates(solving: SolvingRow, directory: Path) -> Floats:
    solved, judged = np.array(solving.solved, float), np.array(solving.judged, float)
    if solved.shape != judged.shape:
        raise RunDirectoryError(f"{directory}: solved and judged of a measurement differ in length")
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(solved / judged)


def _strata(config: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    yardstick = config.get("yardstick") or {}
    try:
        return _kinds_and_levels(tuple(yardstick["held_out"]), int(yardstick["tasks"]))
    except (SelfplayError, KeyError, TypeError):
        return ()  # tasks from a file that is gone; the rates are still there


@lru_cache(maxsize=8)
def _kinds_and_levels(sources: tuple[str, ...], count: int) -> tuple[tuple[str, int], ...]:
    return tuple((held.task.kind, held.level) for held in held_out_tasks(sources, count))
