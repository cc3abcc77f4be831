"""Comparison of arms, paired by seed at equal steps: means, intervals, tables, one page."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from lora_evo.files import write_text
from lora_evo.terminal import text_table
from selfplay.errors import RunDirectoryError
from selfplay.experiments import measures
from selfplay.experiments.experiment import PLAN, open_plan
from selfplay.experiments.kept import SAME_BASE, Curve, KeptRun, base_rate, read_kept, row_of
from selfplay.experiments.measures import PERCENT, POINTS
from selfplay.files.intervals import Estimate, Families, Floats, estimate
from selfplay.files.layout import METRICS
from selfplay.files.record import RunRecord, flatten, read_run
from selfplay.objects import load_object
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
_NONE: Mapping[str, Curve] = {}
_SEED = re.compile(r"[-_./]*seed[-_=]?\d+$")
Place = str | PathLike[str]
Run = RunRecord | KeptRun
Runs = Mapping[int, Run]
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
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """Shares over the steps that the plan names, by name."""

    @property
    def units(self) -> dict[str, str]:
        """The unit of each measure; with kept runs, of those that they have."""
        names = measures.GAINS if self.kept else measures.MEASURES
        units = {name: measures.MEASURES[name][0] for name in names}
        return units | dict.fromkeys(map(_late, self.curves), PERCENT)

    @property
    def kept(self) -> list[KeptRun]:
        """The runs that are kept rows."""
        return [run for of in self.arms.values() for run in of.values() if isinstance(run, KeptRun)]

    def records(self) -> list[tuple[str, int, RunRecord]]:
        """Return arm, seed and record of the other runs."""
        runs = ((arm, seed, run) for arm, of in self.arms.items() for seed, run in of.items())
        return [(arm, seed, run) for arm, seed, run in runs if isinstance(run, RunRecord)]

    def numbers(self) -> dict[str, dict[str, dict[str, Estimate]]]:
        """Return all numbers by table, column and measure; measures without any are left out."""
        arms, curves = self.arms, self.curves
        return {
            "arms": {arm: of_arm(runs, curves) for arm, runs in arms.items()},
            "differences": {f"{a} − {b}": of_pair(arms[a], arms[b], curves) for a, b in self.pairs},
        }

    def tables(self) -> list[tuple[str, Table]]:
        """Return all numbers as titled tables.

        They have a column for each arm or pair; with kept runs, which are many and have few
        measures, a row.
        """
        titled: list[tuple[str, Table]] = []
        for title, columns in self.numbers().items():
            rows = []
            for name, unit in self.units.items():
                if any(name in column for column in columns.values()):
                    cells = (_cell(unit, column.get(name)) for column in columns.values())
                    rows.append((f"{name} ({unit})" if unit else name, *cells))
            if rows:
                table = [("", *columns), *rows]
                head, *body = zip(*table, strict=True) if self.kept else table
                titled.append((title.capitalize(), (head, body)))
        return titled

    def lines(self) -> list[str]:
        """Return a line for each arm, unjudged text, fall, and pair that cannot be compared."""
        lines = []
        for arm, runs in self.arms.items():
            words = [f"{key} {value}" for key, value in self.settings[arm].items()]
            words[MOST_SETTINGS:] = ["and more"] * (len(words) > MOST_SETTINGS)
            settings = f" ({', '.join(words)})" if words else ""
            lines.append(f"{arm}{settings}: {', '.join(map(_reached, runs, runs.values()))}")
        for arm, seed, run in self.records():
            lines += [f"{arm}, seed {seed}: {note}" for note in (*unjudged(run), *falls(run))]
        last = max((run.last for _, _, run in self.records()), default=0)
        steps = max((run.steps for run in self.kept), default=0)
        if steps > last:
            lines.append(
                f"kept runs have {steps} steps, of which the first {last} are compared: where "
                "rates fall with the steps, theirs were higher"
            )
        for pair in self.pairs:
            first, second = (self.arms[arm] for arm in pair)
            if key := _asked_apart(first, second):
                lines.append(f"{' and '.join(pair)} differ in {key}: no gains are compared")
            if not first.keys() & second.keys():
                lines.append(f"{' and '.join(pair)} have no seed in common: not compared")
        return lines


def of_arm(runs: Runs, curves: Mapping[str, Curve] = _NONE) -> dict[str, Estimate]:
    """Return the measures of an arm over its seeds; those without any number are left out.

    curves: of each, the mean over its last third is a measure, too.
    """
    families = next((run.families for run in runs.values()), None)
    numbers = _estimates([_measured(run, curves) for run in runs.values()], families)
    for name, mean in numbers.items():
        unit, _ = measures.MEASURES.get(name, (PERCENT, None))
        if mean.low is not None and mean.high is not None and unit == PERCENT:
            numbers[name] = replace(mean, low=max(mean.low, 0.0), high=min(mean.high, 1.0))
    return numbers


def of_pair(first: Runs, second: Runs, curves: Mapping[str, Curve] = _NONE) -> dict[str, Estimate]:
    """Return the measures of the first arm minus those of the second, over their common seeds.

    Both runs of a seed are cut to the last step that both have reached. A kept run has no number
    for each task: of it and its counterpart the means are subtracted. Where runs were asked other
    held-out tasks, or otherwise, no gains are subtracted.
    """
    gaps, families = [], None
    unlike = measures.HELD_OUT if _asked_apart(first, second) else ()
    for seed in sorted(first.keys() & second.keys()):
        step = min(first[seed].last, second[seed].last)
        families = first[seed].families
        one, other = (_measured(runs[seed].until(step), curves) for runs in (first, second))
        gaps.append({n: _gap(value, other.get(n)) for n, value in one.items() if n not in unlike})
    return _estimates(gaps, families)


def _asked_apart(first: Runs, second: Runs) -> str:
    """Return the setting by which two arms were asked differently on held-out tasks; '' if none."""
    for seed in sorted(first.keys() & second.keys()):
        a, b = (runs[seed].asked for runs in (first, second))
        if keys := [key for key in a if key.startswith("eval.") and key in b and a[key] != b[key]]:
            return keys[0]
    return ""


def _estimates(
    measured: Sequence[Mapping[str, Floats | None]], families: Families | None
) -> dict[str, Estimate]:
    """Return the mean of each measure over the runs, or pairs of runs, that have it."""
    numbers = {}
    for name in dict.fromkeys(chain.from_iterable(measured)):
        values = [value for of_run in measured if (value := of_run.get(name)) is not None]
        if mean := estimate(values, families):
            numbers[name] = mean
    return numbers


def _gap(a: Floats | None, b: Floats | None) -> Floats | None:
    if a is None or b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    return np.asarray(a - b) if len(a) == len(b) else np.array([np.nanmean(a) - np.nanmean(b)])


def _measured(run: Run, curves: Mapping[str, Curve]) -> dict[str, Floats | None]:
    """Return the measures of a run, and the mean of each curve over its last third."""
    if isinstance(run, KeptRun):
        measured = {name: of(run) for name, of in measures.GAINS.items()}
    else:
        measured = measures.measure(run)
    shares = {_late(name): [*points(run, name, curves).values()] for name in curves}
    late = {name: measures.last_third(of) for name, of in shares.items() if of}
    return measured | {name: np.array([np.mean(of)]) for name, of in late.items()}


def points(run: Run, name: str, curves: Mapping[str, Curve]) -> Mapping[int, float]:
    """Return a curve of a run by step; nothing if it was not kept."""
    return dict(run.curves.get(name, ())) if isinstance(run, KeptRun) else curves[name](run)


def _late(curve: str) -> str:
    return f"{curve}, last third"


def _reached(seed: int, run: Run) -> str:
    steps = run.steps if isinstance(run, KeptRun) else run.planned
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


def compare(places: Sequence[Place], kept: Place | None = None) -> Comparison:
    """Compare the runs of an experiment's directory, or any run directories.

    places: the directory of an experiment, or `[NAME=]RUN`. Runs of one NAME, or without one in
    folders such as X-seed1 and X-seed2, are the seeds of an arm; every arm is compared with the
    first. kept: a file, or a folder of files, of kept runs; every arm is compared with those of
    them, too. Raises RunDirectoryError where nothing can be compared.
    """
    comparison = _of_places(places)
    return comparison if kept is None else _with_kept(comparison, read_kept(Path(kept)))


def _with_kept(comparison: Comparison, rows: Sequence[KeptRun]) -> Comparison:
    """Return the comparison with kept runs, which must have been asked the same, added."""
    records = [run for _, _, run in comparison.records()]
    question, last = records[0].asked, max(run.last for run in records)
    bases = {int(run.config["seed"]): base_rate(run) for run in records if run.held_out_gains()}
    arms: dict[str, dict[int, Run]] = {}
    for row in rows:
        for key, value in question.items():
            if (kept := row.asked.get(key, value)) != value:
                raise RunDirectoryError(
                    f"{key} is {value} here and {kept} in the kept run {row.arm!r}: "
                    "their gains are not comparable"
                )
        base = bases.get(row.seed, row.base)
        if abs(base - row.base) > SAME_BASE:
            raise RunDirectoryError(
                f"{question['base']} solves {100 * base:.1f} % of the held-out tasks here and "
                f"{100 * row.base:.1f} % in the kept run {row.arm!r}, seed {row.seed}: it is "
                "another base, and their gains are not comparable"
            )
        if row.arm in comparison.arms:
            raise RunDirectoryError(
                f"an arm here and one of the kept runs are both called {row.arm!r}; rename yours"
            )
        arms.setdefault(row.arm, {})[row.seed] = row.until(last)
    pairs = [(arm, other) for arm in comparison.arms for other in arms]
    codes = {arm: sorted({row.code for row in rows if row.arm == arm}) for arm in arms}
    settings = {arm: {"kept at": ", ".join(of)} for arm, of in codes.items()}
    return replace(
        comparison,
        arms={**comparison.arms, **arms},
        settings={**comparison.settings, **settings},
        pairs=[*comparison.pairs, *pairs],
    )


def keep_runs(comparison: Comparison, path: Path) -> int:
    """Write a row for each finished run here to a file of kept runs; return how many.

    An existing file is overwritten, unless no run is finished.
    """
    done = [(arm, run) for arm, _, run in comparison.records() if run.last >= run.planned]
    rows = [row_of(comparison.name, arm, run, comparison.curves) for arm, run in done]
    if rows:
        write_text(path, msgspec.json.Encoder().encode_lines(rows).decode())
    return len(rows)


def _of_places(places: Sequence[Place]) -> Comparison:
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
    plan = open_plan(str(home / PLAN))
    begun: dict[str, dict[int, RunRecord]] = {}
    for run in plan.runs(home):
        if (run.directory / METRICS).is_file():
            begun.setdefault(run.arm, {})[run.seed] = read_run(run.directory)
    if not begun:
        raise RunDirectoryError(f"{home} has no run with a finished step yet")
    pairs = [pair for pair in plan.pairs if begun.keys() >= {*pair}]
    curves = {name: load_object(path, f"curves.{name}") for name, path in plan.curves.items()}
    return Comparison(plan.name, plan.question, begun, plan.arms, pairs, curves)


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
        {"arm": arm, "seed": seed, "steps": run.last}
        | ({"kept": run.code} if isinstance(run, KeptRun) else {"directory": str(run.directory)})
        for arm, runs in comparison.arms.items()
        for seed, run in runs.items()
    ]
    data = {"name": comparison.name, "question": comparison.question, "runs": runs}
    return json.dumps(data | comparison.numbers(), indent=1, default=asdict, ensure_ascii=False)


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write the comparison as one HTML page that works offline; equal ones give equal bytes."""
    arms, given = comparison.arms, comparison.curves
    gains = {
        "Population mean": _chart(arms, partial(_gains, measures.population_mean), POINTS),
        "Weakest member": _chart(arms, partial(_gains, measures.weakest_member), POINTS),
    }
    curves = {
        name[:1].upper() + name[1:]: _chart(arms, partial(points, name=name, curves=given), PERCENT)
        for name in given
    }
    write_page(
        page,
        "compare.html",
        {title: chart for title, chart in (gains | curves).items() if chart},
        title=comparison.name,
        question=comparison.question,
        lines=comparison.lines(),
        gains=[title for title, chart in gains.items() if chart],
        curves=[title for title, chart in curves.items() if chart],
        tables=comparison.tables(),
        reading=READING,
    )


def _gains(who: measures.Who, run: Run) -> Mapping[int, float]:
    gains = run.held_out_gains()
    return {0: 0.0} | {step: float(np.nanmean(who(of_step))) for step, of_step in gains.items()}


def _chart(
    arms: Mapping[str, Runs], of: Callable[[Run], Mapping[int, float]], unit: str
) -> "alt.LayerChart | None":
    """Return a line of percent for each arm, with a band over its seeds; None for starts alone."""
    from selfplay.reports.charts import bands

    rows = []
    for arm, runs in arms.items():
        by_step: dict[int, list[float]] = {}
        for run in runs.values():
            for step, share in of(run).items():
                by_step.setdefault(step, []).append(100 * share)
        rows += [
            {"step": step, "arm": arm, "middle": float(np.mean(values))}
            | {"low": min(values), "high": max(values)}
            for step, values in sorted(by_step.items())
        ]
    return bands(rows, "arm", list(arms), unit) if len(rows) > len(arms) else None
