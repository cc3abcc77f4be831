"""Arms against each other, seed by seed at equal steps: verdicts, tables, and one page."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

import altair as alt
import numpy as np

from selfplay import charts
from selfplay.errors import RunDirectoryError
from selfplay.experiment import PLAN, Claim, Plan, open_plan, planned_runs
from selfplay.findings import (
    MEASURES,
    PERCENT,
    SECTIONS,
    Group,
    Measure,
    Of,
    Trial,
    Who,
    population_mean,
    read_trial,
    weakest_member,
)
from selfplay.pages import Table, figure, text_table, write_page
from selfplay.run_record import flat
from selfplay.statistics import Estimate, Floats, estimate

LEAST_SEEDS = 3
"""Fewer say too little of others."""
MARKED = "* A run of it is missing or not finished: it is shown as far as it got."
READING = (
    "Mean over seeds [95 % interval, drawn over seeds and tasks within them; with one seed over "
    "tasks only]. Shown: the interval lies on the predicted side; refuted: on the other side; "
    "undecided: neither, or fewer than three seeds. Of forty claims with nothing in them about one "
    "is shown and one refuted by chance."
)
Term = tuple[float, Group]


@dataclass(frozen=True)
class Column:
    """A weighted sum of groups, such as an arm minus its control."""

    title: str
    terms: Sequence[Term]


@dataclass(frozen=True)
class Finding:
    """A claim about one measure, the number that decides it, and the verdict."""

    claim: Claim
    column: Column
    measure: Measure
    estimate: Estimate | None

    @property
    def verdict(self) -> str:
        """`shown`: the interval lies on the predicted side; `refuted`: on the other side.

        `undecided` otherwise, and always with fewer than three seeds.
        """
        e = self.estimate
        if e is None or e.low is None or e.high is None or e.seeds < LEAST_SEEDS:
            return "undecided"
        if e.low <= self.claim.threshold <= e.high:
            return "undecided"
        side = "above" if e.low > self.claim.threshold else "below"
        return "shown" if side == self.claim.predicted else "refuted"


@dataclass(frozen=True)
class Block:
    """Columns of one kind for all measures of a section."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[Measure, Sequence[Estimate | None]]]


@dataclass(frozen=True)
class Comparison:
    """Everything that is said about an experiment's runs."""

    plan: Plan
    trials: Sequence[Trial]
    findings: Sequence[Finding]
    blocks: Sequence[Block]
    incomplete: frozenset[Group]
    """Groups of which a run is missing or not finished."""

    def title(self, column: Column) -> str:
        """Return a column's title, marked where a run is missing."""
        return column.title + "*" * any(group in self.incomplete for _, group in column.terms)

    def finding_tables(self) -> list[tuple[str, Table]]:
        """Return the verdicts by question."""
        head = ("compared", "measure", "predicted", "found", "verdict")
        rows = [
            (
                f.claim.question,
                self.title(f.column),
                f.measure.title,
                f"{f.claim.predicted} {f.claim.threshold * f.measure.factor:g}",
                _cell(f.measure, f.estimate),
                f.verdict,
            )
            for f in self.findings
        ]
        grouped = groupby(rows, lambda row: row[0])
        return [(question, (head, [row[1:] for row in some])) for question, some in grouped]

    def measure_tables(self) -> list[tuple[str, Table]]:
        """Return all numbers by block."""
        found: list[tuple[str, Table]] = []
        for block in self.blocks:
            rows = [(m.title, *(_cell(m, e) for e in cells)) for m, cells in block.rows]
            found.append((block.title, (("", *map(self.title, block.columns)), rows)))
        return found

    def arm_lines(self) -> list[str]:
        """Return one line an arm: what sets it apart, and how many of its runs are done."""
        lines = []
        for group in _groups(self.plan):
            mine = [trial for trial in self.trials if trial.group == group]
            done = f"{sum(t.complete for t in mine)} of {len(_seeds(self.plan, group))} runs done"
            going = [
                f"seed {t.seed} at step {t.run.last} of {t.steps}" for t in mine if not t.complete
            ]
            apart = (
                self.plan.controls[group.control] if group.control else self.plan.arms[group.arm]
            )
            settings = ", ".join(f"{key} {value}" for key, value in apart.items())
            about = f" ({settings})" if settings else ""
            lines.append(f"{group}{about}: {'; '.join([done, *going])}")
        return lines


def compare(places: Sequence[Path]) -> Comparison:
    """Compare the runs of an experiment's directory, or any run directories.

    Runs without a plan whose settings differ in nothing but the seed are one arm, and every arm is
    compared with the first. Raises RunDirectoryError where nothing can be compared.
    """
    plan, trials = open_trials(places)
    done = {(trial.group, trial.seed) for trial in trials if trial.complete}
    incomplete = frozenset(
        group
        for group in _groups(plan)
        for seed in _seeds(plan, group)
        if (group, seed) not in done
    )
    return Comparison(plan, trials, find(plan, trials), blocks(plan, trials), incomplete)


def _groups(plan: Plan) -> list[Group]:
    return [Group(arm, control) for control in (None, *plan.controls) for arm in plan.arms]


def _seeds(plan: Plan, group: Group) -> Sequence[int]:
    return plan.control_seeds if group.control else plan.seeds


def open_trials(places: Sequence[Path]) -> tuple[Plan, list[Trial]]:
    """Return the plan and the runs of an experiment's directory, or of any run directories."""
    homes = [place for place in places if (place / PLAN).is_file()]
    if homes and len(places) > 1:
        raise RunDirectoryError(
            f"{homes[0]} is a whole experiment; compare it alone, or name run directories only"
        )
    if not homes:
        return _read_apart(places)
    plan = open_plan(str(homes[0] / PLAN))
    trials = [
        read_trial(directory, Group(run.arm, run.control), run.seed)
        for run in planned_runs(plan)
        if ((directory := homes[0] / run.folder) / "metrics.jsonl").is_file()
    ]
    if not trials:
        raise RunDirectoryError(f"{homes[0]} has no run with a finished step yet")
    return plan, trials


def _read_apart(directories: Sequence[Path]) -> tuple[Plan, list[Trial]]:
    """Read runs that no plan names; an arm is named by the settings in which the arms differ."""
    trials = [read_trial(path, Group(str(path)), 0) for path in directories]
    settings = [flat(trial.run.config) for trial in trials]
    seeds = [int(found.pop("seed", 0)) for found in settings]
    keys = dict.fromkeys(key for found in settings for key in found)
    differ = [key for key in keys if len({found.get(key) for found in settings}) > 1]
    names = [
        ", ".join(f"{key.rpartition('.')[2]} {found.get(key, '-')}" for key in differ) or "runs"
        for found in settings
    ]
    trials = [
        replace(trial, group=Group(name), seed=seed)
        for trial, name, seed in zip(trials, names, seeds, strict=True)
    ]
    arms = list(dict.fromkeys(names))
    contrasts = tuple((arm, arms[0]) for arm in arms[1:])
    plan = Plan("comparison", {a: {} for a in arms}, tuple(sorted(set(seeds))), contrasts=contrasts)
    return plan, trials


def combine(trials: Sequence[Trial], terms: Sequence[Term], of: Of) -> Estimate | None:
    """Return the weighted sum of a quantity over groups, with its interval over seeds and tasks.

    Only seeds that every group has are used, each cut to the last step that its runs share; so the
    same random choices and equal steps are compared.
    """
    by_group = [{t.seed: t for t in trials if t.group == group} for _, group in terms]
    found: list[Floats] = []
    for seed in sorted(set.intersection(*map(set, by_group))):
        mine = [group[seed] for group in by_group]
        step = min(trial.run.last for trial in mine)
        values = [of(trial.until(step)) for trial in mine]
        parts = [weight * v for (weight, _), v in zip(terms, values, strict=True) if v is not None]
        if len(parts) == len(terms) and len({part.shape for part in parts}) == 1:
            found.append(sum(parts[1:], start=parts[0]))
    return estimate(found)


def find(plan: Plan, trials: Sequence[Trial]) -> list[Finding]:
    """Return a finding for every measure of every claim of the plan."""
    control = next(iter(plan.controls), None)
    found = []
    for claim in plan.findings:
        net = control if claim.net else None
        terms: list[Term] = []
        for arms, sign in ((claim.plus, 1.0), (claim.minus, -1.0)):
            weight = sign / max(1, len(arms))
            terms += [(weight, Group(arm)) for arm in arms]
            terms += [(-weight, Group(arm, net)) for arm in arms if net]
        title = " − ".join(
            arms[0] if len(arms) == 1 else f"mean of {', '.join(arms)}"
            for arms in (claim.plus, claim.minus)
            if arms
        )
        column = Column(title + (f", each minus {net}" if net else ""), terms)
        for measure in (MEASURES[name] for name in claim.measures):
            value = combine(trials, terms, measure.of)
            if value and measure.unit == PERCENT and len(terms) == len(claim.plus):
                value = value.as_share()
            found.append(Finding(claim, column, measure, value))
    return found


def blocks(plan: Plan, trials: Sequence[Trial]) -> list[Block]:
    """Return every arm, with each control, minus each control, and arm against arm.

    Measures without any number are left out.
    """
    columns = {"arms": [Column(arm, [(1.0, Group(arm))]) for arm in plan.arms]}
    for c in plan.controls:
        columns[f"arms with {c}"] = [Column(arm, [(1.0, Group(arm, c))]) for arm in plan.arms]
        columns[f"minus {c}"] = [
            Column(arm, [(1.0, Group(arm)), (-1.0, Group(arm, c))]) for arm in plan.arms
        ]
    columns["arm against arm"] = [
        Column(f"{a} − {b}", [(1.0, Group(a)), (-1.0, Group(b))]) for a, b in plan.contrasts
    ]
    found = []
    for section, (_, measures) in SECTIONS.items():
        for name, some in columns.items():
            rows = [(m, [combine(trials, c.terms, m.of) for c in some]) for m in measures]
            if kept := [(m, cells) for m, cells in rows if any(cells)]:
                found.append(Block(f"{section}: {name}", some, kept))
    return found


def to_text(comparison: Comparison) -> str:
    """Return the whole comparison as aligned text."""
    plan = comparison.plan
    parts = [plan.name, plan.question, "\n".join(comparison.arm_lines())]
    tables = [*comparison.finding_tables(), *comparison.measure_tables()]
    parts += [f"{title}\n{text_table(*table)}" for title, table in tables]
    parts += [READING, MARKED * bool(comparison.incomplete)]
    return "\n\n".join(part for part in parts if part)


def to_json(comparison: Comparison) -> str:
    """Return all numbers as JSON; those in points are shares here."""
    data = {
        "name": comparison.plan.name,
        "question": comparison.plan.question,
        "runs": [
            {**t.group._asdict(), "seed": t.seed, "steps": t.run.last} for t in comparison.trials
        ],
        "incomplete": sorted(map(str, comparison.incomplete)),
        "findings": [
            {
                "question": f.claim.question,
                "compared": f.column.title,
                "measure": f.measure.name,
                "predicted": f"{f.claim.predicted} {f.claim.threshold:g}",
                "estimate": f.estimate and asdict(f.estimate),
                "verdict": f.verdict,
            }
            for f in comparison.findings
        ],
        "tables": {
            block.title: {
                measure.name: {
                    column.title: cell and asdict(cell)
                    for column, cell in zip(block.columns, cells, strict=True)
                }
                for measure, cells in block.rows
            }
            for block in comparison.blocks
        },
    }
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)


def gain_curves(trials: Sequence[Trial], who: Who, *, control: bool) -> alt.LayerChart | None:
    """Return held-out gain over steps: a line an arm (or its controls), a band of all its seeds."""
    track: dict[str, dict[int, list[float]]] = {}
    for trial in trials:
        if bool(trial.group.control) == control:
            mine = track.setdefault(str(trial.group), {0: [0.0]})
            for step, gains in trial.gains.items():
                mine.setdefault(step, []).append(100 * float(np.nanmean(who(gains))))
    rows = [
        {"step": step, "arm": arm, "middle": float(np.mean(found))}
        | {"low": min(found), "high": max(found)}
        for arm, steps in track.items()
        for step, found in sorted(steps.items())
    ]
    return charts.bands(rows, "arm", list(track), "points") if len(rows) > len(track) else None


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write the comparison as one HTML page that works offline; equal ones give equal bytes."""
    drawn = {
        f"gain: {title}": chart
        for title, who, control in (
            ("Population mean", population_mean, False),
            ("Weakest member", weakest_member, False),
            ("Controls, population mean", population_mean, True),
        )
        if (chart := gain_curves(comparison.trials, who, control=control))
    }
    write_page(
        page,
        "compare.html",
        drawn,
        title=comparison.plan.name,
        question=comparison.plan.question,
        arms=comparison.arm_lines(),
        findings=comparison.finding_tables(),
        reading=READING,
        hints=dict.fromkeys(drawn, "Line: mean over seeds; band: lowest to highest seed."),
        tables=comparison.measure_tables(),
        meanings=[(section, meaning) for section, (meaning, _) in SECTIONS.items()],
        marked=MARKED * bool(comparison.incomplete),
    )


def _cell(measure: Measure, found: Estimate | None) -> str:
    """Return `+4.2 [+1.0, +7.3]` in the measure's unit."""
    if found is None:
        return "–"
    e = found.scaled(measure.factor)
    interval = "" if e.low is None else f" [{figure(e.low)}, {figure(e.high)}]"
    return f"{figure(e.value)}{interval}"
