"""Arms against each other, seed by seed at equal steps: verdicts, tables, and one page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from selfplay import charts
from selfplay.errors import RunDirectoryError
from selfplay.experiment import PLAN, Claim, Plan, open_plan, planned_runs
from selfplay.findings import (
    MEASURES,
    Group,
    Measure,
    Of,
    Trial,
    Who,
    population_mean,
    read_trial,
    weakest_member,
)
from selfplay.pages import figure, text_table, write_page
from selfplay.statistics import Estimate, Floats, estimate

LEAST_SEEDS = 3
"""Fewer say too little of others."""
MARKED = "* A run of it is missing or not finished: it is shown as far as it got."
READING = (
    "Mean over seeds [95 % interval, drawn over seeds and tasks within them; with one seed over "
    "tasks only]."
)
VERDICTS = (
    "Shown: the interval lies on the predicted side; refuted: on the other side; undecided: "
    "neither, or fewer than three seeds. Of forty claims with nothing in them about one is shown "
    "and one refuted by chance."
)
Term = tuple[float, Group]


@dataclass(frozen=True)
class Column:
    """A weighted sum of groups, such as an arm minus its control."""

    title: str
    terms: tuple[Term, ...]
    incomplete: bool = False
    """Whether a run of it is missing or not finished."""


@dataclass(frozen=True)
class Table:
    """Columns of one kind for all measures of a section."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Measure, tuple[Estimate | None, ...]], ...]


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
class Comparison:
    """Everything that is said about an experiment's runs."""

    plan: Plan
    trials: Sequence[Trial]
    findings: Sequence[Finding]
    tables: Sequence[Table]


def compare(places: Sequence[Path]) -> Comparison:
    """Compare the runs of an experiment's directory, or any run directories.

    Runs without a plan whose settings differ in nothing but the seed are one arm, and every arm is
    compared with the first. Raises RunDirectoryError where nothing can be compared.
    """
    plan, trials = open_trials(places)
    return Comparison(plan, trials, find(plan, trials), tables(plan, trials))


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
    settings = [_flat(trial.run.config) for trial in trials]
    seeds = [int(found.pop("seed", 0)) for found in settings]
    keys = dict.fromkeys(key for found in settings for key in found)
    differ = [key for key in keys if len({str(found.get(key)) for found in settings}) > 1]
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


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        inner = isinstance(value, Mapping) and value
        found |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def combine(trials: Sequence[Trial], terms: Sequence[Term], of: Of) -> Estimate | None:
    """Return the weighted sum of a quantity over groups, with its interval over seeds and tasks.

    Only seeds that every group has are used, each cut to the last step that its runs share; so the
    same random choices and equal steps are compared.
    """
    by_group = [{t.seed: t for t in trials if t.group == group} for _, group in terms]
    found: list[Floats] = []
    for seed in sorted(set.intersection(*map(set, by_group))) if by_group else []:
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
        terms: list[Term] = []
        for arms, sign in ((claim.plus, 1.0), (claim.minus, -1.0)):
            for arm in arms:
                weight = sign / len(arms)
                terms.append((weight, Group(arm)))
                if claim.net and control:
                    terms.append((-weight, Group(arm, control)))
        title = " − ".join(
            arms[0] if len(arms) == 1 else f"mean of {', '.join(arms)}"
            for arms in (claim.plus, claim.minus)
            if arms
        )
        title += f", each minus {control}" if claim.net and control else ""
        mine = _column(plan, trials, title, terms)
        for measure in (MEASURES[name] for name in claim.measures):
            value = combine(trials, terms, measure.of)
            if value and measure.is_share and not (claim.minus or claim.net):
                value = value.as_share()
            found.append(Finding(claim, mine, measure, value))
    return found


def tables(plan: Plan, trials: Sequence[Trial]) -> list[Table]:
    """Return every arm, with each control, minus each control, and arm against arm.

    Measures without any number are left out.
    """
    blocks: dict[str, list[tuple[str, list[Term]]]] = {
        "arms": [(arm, [(1.0, Group(arm))]) for arm in plan.arms]
    }
    for control in plan.controls:
        blocks[f"arms with {control}"] = [(a, [(1.0, Group(a, control))]) for a in plan.arms]
        blocks[f"minus {control}"] = [
            (a, [(1.0, Group(a)), (-1.0, Group(a, control))]) for a in plan.arms
        ]
    blocks["arm against arm"] = [
        (f"{a} − {b}", [(1.0, Group(a)), (-1.0, Group(b))]) for a, b in plan.contrasts
    ]
    found = []
    for section, some in groupby(MEASURES.values(), lambda measure: measure.section):
        measures = list(some)
        for name, block in blocks.items():
            columns = tuple(_column(plan, trials, title, terms) for title, terms in block)
            rows = [(m, tuple(combine(trials, c.terms, m.of) for c in columns)) for m in measures]
            kept = tuple((m, cells) for m, cells in rows if any(cells))
            if kept:
                found.append(Table(f"{section}: {name}", columns, kept))
    return found


def _column(plan: Plan, trials: Sequence[Trial], title: str, terms: Sequence[Term]) -> Column:
    done = {(trial.group, trial.seed) for trial in trials if trial.complete}
    wanted = [
        (group, seed)
        for _, group in terms
        for seed in (plan.control_seeds if group.control else plan.seeds)
    ]
    return Column(title, tuple(terms), not done.issuperset(wanted))


def arm_lines(comparison: Comparison) -> list[str]:
    """Return one line an arm: what sets it apart, and how many of its runs are done."""
    plan, lines = comparison.plan, []
    for group in (Group(arm, c) for c in (None, *plan.controls) for arm in plan.arms):
        mine = [t for t in comparison.trials if t.group == group]
        wanted = plan.control_seeds if group.control else plan.seeds
        going = [f"seed {t.seed} at step {t.run.last} of {t.steps}" for t in mine if not t.complete]
        done = f"{sum(t.complete for t in mine)} of {len(wanted)} runs done"
        apart = plan.controls[group.control] if group.control else plan.arms[group.arm]
        settings = ", ".join(f"{key} {value}" for key, value in apart.items())
        about = f" ({settings})" if settings else ""
        lines.append(f"{group}{about}: {'; '.join([done, *going])}")
    return lines


FINDINGS_HEAD = ("compared", "measure", "predicted", "found", "verdict")


def finding_row(finding: Finding) -> tuple[str, ...]:
    """Return the cells of a finding."""
    measure, claim = finding.measure, finding.claim
    return (
        _title(finding.column),
        _with_unit(measure),
        f"{claim.predicted} {claim.threshold * measure.factor:g}",
        _cell(measure, finding.estimate),
        finding.verdict,
    )


def table_rows(table: Table) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the head and the cells of a table."""
    head = ("", *(_title(column) for column in table.columns))
    return head, [(_with_unit(m), *(_cell(m, e) for e in cells)) for m, cells in table.rows]


def to_text(comparison: Comparison) -> str:
    """Return the whole comparison as aligned text."""
    parts = [comparison.plan.name, comparison.plan.question, "\n".join(arm_lines(comparison))]
    for question, some in groupby(comparison.findings, lambda f: f.claim.question):
        parts.append(f"{question}\n{text_table(FINDINGS_HEAD, [finding_row(f) for f in some])}")
    parts.append(READING)
    parts += [f"{table.title}\n{text_table(*table_rows(table))}" for table in comparison.tables]
    incomplete = any(c.incomplete for t in comparison.tables for c in t.columns)
    return "\n\n".join(part for part in [*parts, MARKED * incomplete] if part)


def to_json(comparison: Comparison) -> str:
    """Return all numbers as JSON; those in points are shares here."""
    data = {
        "name": comparison.plan.name,
        "question": comparison.plan.question,
        "runs": [
            {"arm": t.group.arm, "control": t.group.control, "seed": t.seed, "steps": t.run.last}
            for t in comparison.trials
        ],
        "findings": [
            {
                "question": f.claim.question,
                "compared": f.column.title,
                "measure": f.measure.name,
                "predicted": f"{f.claim.predicted} {f.claim.threshold:g}",
                "estimate": f.estimate and asdict(f.estimate),
                "verdict": f.verdict,
                "incomplete": f.column.incomplete,
            }
            for f in comparison.findings
        ],
        "tables": [
            {
                "title": table.title,
                "rows": {
                    measure.name: {
                        column.title: cell and asdict(cell)
                        for column, cell in zip(table.columns, cells, strict=True)
                    }
                    for measure, cells in table.rows
                },
                "incomplete": [c.title for c in table.columns if c.incomplete],
            }
            for table in comparison.tables
        ],
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


def comparison_charts(comparison: Comparison) -> dict[str, tuple[alt.LayerChart, str]]:
    """Return the charts of the page with a hint how to read each, by `gain: title`."""
    band = "Line: mean over seeds; band: lowest to highest seed."
    found = {
        f"gain: {title}": (gain_curves(comparison.trials, who, control=control), band)
        for title, who, control in (
            ("Population mean", population_mean, False),
            ("Weakest member", weakest_member, False),
            ("Controls, population mean", population_mean, True),
        )
    }
    return {name: (chart, hint) for name, (chart, hint) in found.items() if chart is not None}


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write the comparison as one HTML page that works offline; equal ones give equal bytes."""
    drawn = comparison_charts(comparison)
    findings = groupby(comparison.findings, lambda f: f.claim.question)
    write_page(
        page,
        "compare.html",
        {name: chart for name, (chart, _) in drawn.items()},
        title=comparison.plan.name,
        question=comparison.plan.question,
        arms=arm_lines(comparison),
        head=FINDINGS_HEAD,
        findings=[(question, [finding_row(f) for f in some]) for question, some in findings],
        reading=READING,
        verdicts=VERDICTS,
        hints={name: hint for name, (_, hint) in drawn.items()},
        tables=[(table.title, *table_rows(table)) for table in comparison.tables],
        meanings=[(_with_unit(measure), measure.definition) for measure in MEASURES.values()],
        marked=MARKED,
    )


def _title(column: Column) -> str:
    return column.title + "*" * column.incomplete


def _with_unit(measure: Measure) -> str:
    return f"{measure.name} ({measure.unit})" if measure.unit else measure.name


def _cell(measure: Measure, found: Estimate | None) -> str:
    """Return `+4.2 [+1.0, +7.3]` in the measure's unit."""
    if found is None:
        return "–"
    e = found.scaled(measure.factor)
    interval = "" if e.low is None else f" [{figure(e.low)}, {figure(e.high)}]"
    return f"{figure(e.value)}{interval}"
