"""Comparison of arms, paired by seed at equal steps: means, intervals, tables, one page."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lora_evo.terminal import text_table
from selfplay.errors import RunDirectoryError
from selfplay.experiments.experiment import PLAN, open_plan
from selfplay.experiments.measures import (
    MEASURES,
    PERCENT,
    POINTS,
    Who,
    measure,
    population_mean,
    weakest_member,
)
from selfplay.files.intervals import Estimate, estimate
from selfplay.files.layout import METRICS
from selfplay.files.record import RunRecord, flatten, read_run
from selfplay.reports.findings import falls, unjudged
from selfplay.reports.pages import Table, figure, write_page

if TYPE_CHECKING:
    import altair as alt

READING = (
    "Mean over seeds [95 % interval of Student's t over seeds; with one seed over its tasks]. "
    "Differences are paired by seed, up to the last step that both runs have. gain: points of "
    "held-out tasks solved over the frozen base. change: last quarter of the steps minus the first."
)
MOST_SETTINGS = 5
"""Most settings of an arm that are printed."""
_SEED = re.compile(r"[-_./]*seed[-_=]?\d+$")
Runs = Mapping[int, RunRecord]
"""The runs of an arm by seed."""


@dataclass(frozen=True)
class Comparison:
    """The runs of some arms, and the pairs of arms that are compared, first minus second."""

    name: str
    question: str
    arms: Mapping[str, Runs]
    settings: Mapping[str, Mapping[str, Any]]
    """The settings in which arms differ, by arm."""
    pairs: Sequence[tuple[str, str]]

    def numbers(self) -> dict[str, dict[str, dict[str, Estimate]]]:
        """Return all numbers by table, column and measure; measures without any are left out."""
        differences = {f"{a} − {b}": (self.arms[a], self.arms[b]) for a, b in self.pairs}
        return {
            "arms": {arm: of_arm(runs) for arm, runs in self.arms.items()},
            "differences": {title: of_pair(*pair) for title, pair in differences.items()},
        }

    def tables(self) -> list[tuple[str, Table]]:
        """Return all numbers as titled tables with a column for each arm or pair."""
        titled: list[tuple[str, Table]] = []
        for title, columns in self.numbers().items():
            rows = []
            for name, (unit, _) in MEASURES.items():
                if any(name in column for column in columns.values()):
                    cells = (_cell(unit, column.get(name)) for column in columns.values())
                    rows.append((f"{name} ({unit})" if unit else name, *cells))
            if rows:
                titled.append((title.capitalize(), (("", *columns), rows)))
        return titled

    def lines(self) -> list[str]:
        """Return a line for each arm, run with unjudged texts, fall of a member, and pair without
        a common seed."""
        lines = []
        for arm, runs in self.arms.items():
            words = [f"{key} {value}" for key, value in self.settings[arm].items()]
            words[MOST_SETTINGS:] = ["and more"] * (len(words) > MOST_SETTINGS)
            settings = f" ({', '.join(words)})" if words else ""
            lines.append(f"{arm}{settings}: {', '.join(map(_reached, runs, runs.values()))}")
        for arm, runs in self.arms.items():
            for seed, run in runs.items():
                notes = [*unjudged(run), *falls(run)]
                lines += [f"{arm}, seed {seed}: {note}" for note in notes]
        return lines + [
            f"{one} and {other} have no seed in common: not compared"
            for one, other in self.pairs
            if not self.arms[one].keys() & self.arms[other].keys()
        ]


def of_arm(runs: Runs) -> dict[str, Estimate]:
    """Return the measures of an arm over its seeds; those without any number are left out."""
    measures = [measure(run) for run in runs.values()]
    families = next((run.families for run in runs.values()), None)
    numbers: dict[str, Estimate] = {}
    for name, (unit, _) in MEASURES.items():
        values = [value for of_run in measures if (value := of_run[name]) is not None]
        mean = estimate(values, families)
        if mean and mean.low is not None and mean.high is not None and unit == PERCENT:
            mean = replace(mean, low=max(mean.low, 0.0), high=min(mean.high, 1.0))
        if mean:
            numbers[name] = mean
    return numbers


def of_pair(first: Runs, second: Runs) -> dict[str, Estimate]:
    """Return the measures of the first arm minus those of the second, over their common seeds.

    Both runs of a seed are cut to the last step that both have reached.
    """
    pairs, families = [], None
    for seed in sorted(first.keys() & second.keys()):
        step = min(first[seed].last, second[seed].last)
        families = first[seed].families
        pairs.append([measure(runs[seed].until(step)) for runs in (first, second)])
    numbers = {}
    for name in MEASURES:
        values = [(one[name], other[name]) for one, other in pairs]
        gaps = [a - b for a, b in values if a is not None and b is not None and len(a) == len(b)]
        if mean := estimate(gaps, families):
            numbers[name] = mean
    return numbers


def _reached(seed: int, run: RunRecord) -> str:
    steps = int(run.config.get("steps", run.last))
    return f"seed {seed} " + ("done" if run.last >= steps else f"at step {run.last} of {steps}")


def _settings(run: RunRecord) -> dict[str, str]:
    return {key: str(value) for key, value in flatten(run.config).items() if key != "seed"}


def _cell(unit: str, mean: Estimate | None) -> str:
    """Return `4.2 [1.0, 7.3]` in the measure's unit."""
    if mean is None:
        return "–"
    factor = 100.0 if unit in (POINTS, PERCENT) else 1.0
    ends = [figure(end * factor) for end in (mean.low, mean.high) if end is not None]
    return figure(mean.value * factor) + (f" [{', '.join(ends)}]" if ends else "")


def compare(places: Sequence[str | PathLike[str]]) -> Comparison:
    """Compare the runs of an experiment's directory, or any run directories.

    places: the directory of an experiment, or `[NAME=]RUN`. Runs of one NAME, or without one in
    folders such as X-seed1 and X-seed2, are the seeds of an arm; every arm is compared with the
    first. Raises RunDirectoryError where nothing can be compared.
    """
    named = [_name_and_folder(os.fspath(place)) for place in places]
    home = next((folder for _, folder in named if (folder / PLAN).is_file()), None)
    if home is None:
        arms = _named_arms(named)
        first, *others = arms
        settings = {arm: _settings(next(iter(runs.values()))) for arm, runs in arms.items()}
        keys = dict.fromkeys(key for of_arm in settings.values() for key in of_arm)
        different = [key for key in keys if len({s.get(key) for s in settings.values()}) > 1]
        changes = {arm: {key: s.get(key, "-") for key in different} for arm, s in settings.items()}
        return Comparison("comparison", "", arms, changes, [(arm, first) for arm in others])
    if len(named) > 1 or named[0][0]:
        raise RunDirectoryError(
            f"{home} is a whole experiment; compare it alone, or name run directories only"
        )
    plan, arms = open_plan(str(home / PLAN)), {}
    begun = [run for run in plan.runs(home) if (run.directory / METRICS).is_file()]
    for arm in dict.fromkeys(run.arm for run in begun):
        arms[arm] = {run.seed: read_run(run.directory) for run in begun if run.arm == arm}
    if not arms:
        raise RunDirectoryError(f"{home} has no run with a finished step yet")
    pairs = [pair for pair in plan.pairs if arms.keys() >= {*pair}]
    return Comparison(plan.name, plan.question, arms, plan.arms, pairs)


def _name_and_folder(place: str) -> tuple[str, Path]:
    """Return the name, or '', and the folder of `[NAME=]FOLDER`; a path may contain `=`."""
    name, _, folder = ("", "", place) if Path(place).is_dir() else place.partition("=")
    if not folder or not Path(folder).is_dir():
        raise RunDirectoryError(f"there is no folder {folder or place!r}; expected RUN or NAME=RUN")
    return name.strip(), Path(folder)


def _named_arms(named: Sequence[tuple[str, Path]]) -> dict[str, dict[int, RunRecord]]:
    """Return runs by arm and seed.

    A run without a name belongs to the arm of its folder without the seed, named by the shortest
    path below the folder that all share.
    """
    stems = [Path(_SEED.sub("", str(folder.resolve()))) for _, folder in named]
    nameless = [stem.parent for (name, _), stem in zip(named, stems, strict=True) if not name]
    root = Path(os.path.commonpath(nameless or [Path.cwd()]))
    arms: dict[str, dict[int, RunRecord]] = {}
    for (name, folder), stem in zip(named, stems, strict=True):
        run, arm = read_run(folder), name or str(stem.relative_to(root))
        runs, seed = arms.setdefault(arm, {}), int(run.config.get("seed", 0))
        for other in runs.values():
            one, two = _settings(other), _settings(run)
            different = [key for key in {**one, **two} if one.get(key) != two.get(key)]
            if different or seed in runs:
                why = f"differ in {different[0]}" if different else f"both have seed {seed}"
                raise RunDirectoryError(
                    f"{other.directory} and {folder} are both called {arm!r} and {why}; runs of "
                    "one name differ in the seed only: give them two names, as in A=RUN B=RUN"
                )
        runs[seed] = run
    return arms


def to_text(comparison: Comparison) -> str:
    """Return the whole comparison as aligned text."""
    parts = [comparison.name, comparison.question, "\n".join(comparison.lines())]
    for title, (head, rows) in comparison.tables():
        parts.append(f"{title}\n{text_table(head, rows, left=len(head))}")
    return "\n\n".join(part for part in (*parts, READING) if part)


def to_json(comparison: Comparison) -> str:
    """Return all numbers as JSON; points and % as shares from 0 to 1."""
    runs = [
        {"arm": arm, "seed": seed, "directory": str(run.directory), "steps": run.last}
        for arm, runs in comparison.arms.items()
        for seed, run in runs.items()
    ]
    data = {"name": comparison.name, "question": comparison.question, "runs": runs}
    return json.dumps(data | comparison.numbers(), indent=1, default=asdict, ensure_ascii=False)


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write the comparison as one HTML page that works offline; equal ones give equal bytes."""
    series = {"Population mean": population_mean, "Weakest member": weakest_member}
    drawn = {title: _gain_chart(comparison.arms, who) for title, who in series.items()}
    charts = {title: chart for title, chart in drawn.items() if chart}
    write_page(
        page,
        "compare.html",
        charts,
        title=comparison.name,
        question=comparison.question,
        lines=comparison.lines(),
        gains=list(charts),
        tables=comparison.tables(),
        reading=READING,
    )


def _gain_chart(arms: Mapping[str, Runs], who: Who) -> "alt.LayerChart | None":
    """Return a chart of held-out gain over the steps: a line for each arm, with a band over its
    seeds, from 0 at step 0. None if no arm has an evaluation."""
    from selfplay.reports.charts import bands

    rows = []
    for arm, runs in arms.items():
        by_step: dict[int, list[float]] = {0: [0.0]}
        for run in runs.values():
            for step, gains in run.held_out_gains().items():
                by_step.setdefault(step, []).append(100 * float(np.nanmean(who(gains))))
        rows += [
            {"step": step, "arm": arm, "middle": float(np.mean(points))}
            | {"low": min(points), "high": max(points)}
            for step, points in sorted(by_step.items())
        ]
    return bands(rows, "arm", list(arms), "points") if len(rows) > len(arms) else None
