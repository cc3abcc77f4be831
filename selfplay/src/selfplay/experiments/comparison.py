"""Arms against each other, seed by seed at equal steps: intervals, verdicts, tables, one page.

Intervals over seeds and tasks are a hierarchical bootstrap, the same for equal numbers. A draw
takes seeds with replacement, and within each drawn seed its tasks with replacement; the interval
runs from the 2.5th to the 97.5th percentile of the draws. A bootstrap of n clusters is too narrow
by the factor sqrt(n / (n - 1)) t / z (Hesterberg 2015, The American Statistician 69, section
4.3.2): the deviations of the drawn seeds are stretched by it, and those of the drawn tasks are not.
So five seeds carry a 95 % interval, and two carry a very wide one. A share of few (`%`, `of 8`) may
be all or nothing in a seed, which no spread of few seeds shows: there each seed counts once.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import to_builtins

from selfplay.experiments.arms import open_trials
from selfplay.experiments.experiment import Claim, Plan
from selfplay.experiments.measures import (
    TASKS,
    Group,
    Measure,
    Of,
    Trial,
    Who,
    measures_with,
    population_mean,
    sections_with,
    weakest_member,
)
from selfplay.experiments.shares import LEVEL, Z, share_interval, student_t
from selfplay.files.read import Fall, Floats, largest_fall
from selfplay.report.pages import Table, figure, text_table, write_page

if TYPE_CHECKING:
    import altair as alt

LEAST_SEEDS = 3
"""Fewer say too little of others."""
READING = (
    "Mean over seeds [95 % interval, drawn over seeds and tasks within them; with one seed over "
    "tasks only]. Shown: the interval lies on the predicted side; refuted: on the other side; "
    "undecided: neither, or fewer than three seeds, or equal ones; beside it the number from "
    "which an interval of this width would have shown it. Of forty claims with nothing in them "
    "about one is shown and one refuted by chance. A share in % counts each seed once. *: a run is "
    "missing or not finished, and shown as far as it got."
)
FALLS = "The member of each run that fell most from one of its evaluations to the next"
MOST_SETTINGS = 5
"""Settings of an arm that are named."""
DRAWS = 4_000
Terms = Sequence[tuple[float, Group]]
"""A weighted sum of groups, such as an arm minus its control."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its interval; low and high are None where nothing can be said."""

    value: float
    low: float | None
    high: float | None
    seeds: int

    def within(self, least: float, most: float) -> "Estimate":
        """Return the estimate with an interval that goes no further than these numbers."""
        low, high = (end and min(max(end, least), most) for end in (self.low, self.high))
        return replace(self, low=low, high=high)


def estimate(seeds: Sequence[Floats], most: float | None = None) -> Estimate | None:
    """Return the mean over seeds of their means over tasks; None without any number.

    One array a seed, of one number a task; NaN where a task was not judged. A single number a seed
    is an array of length one. One seed alone has an interval over its tasks only. Numbers that are
    all equal have none. most: of a share, the number that is all; each seed then counts once.
    """
    known = [values[~np.isnan(values)] for values in seeds]
    known = [values for values in known if values.size]
    if not known:
        return None
    means = np.array([values.mean() for values in known])
    centre = float(means.mean())
    count = len(known)
    if most is not None:
        low, high = share_interval([(float(mean) / most, 1) for mean in means])
        return Estimate(centre, low * most, high * most, count)
    if count == 1 and known[0].size == 1:
        return Estimate(centre, None, None, 1)
    drawn = _drawn_seeds(count)
    between = (means[drawn].mean(axis=1) - centre) * stretch(count)
    # [draws, places]: how far the drawn tasks of the seed at each place are from its mean.
    within = np.zeros(drawn.shape)
    for seed, values in enumerate(known):
        if values.size > 1:
            deviations = _weights(values.size, count) @ (values - values.mean()).astype(np.float32)
            within += np.where(drawn == seed, deviations, 0.0)
    draws = centre + between + within.mean(axis=1)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if high - low < 1e-12:
        return Estimate(centre, None, None, count)
    return Estimate(centre, float(low), float(high), count)


def stretch(seeds: int) -> float:
    """Return by what a bootstrap of so many seeds is too narrow."""
    if seeds < 2:
        return 1.0
    return math.sqrt(seeds / (seeds - 1)) * student_t(seeds - 1) / Z


@lru_cache(maxsize=32)
def _drawn_seeds(count: int) -> npt.NDArray[np.int64]:
    """Return [draws, count] indices of seeds."""
    return np.random.default_rng([count, 1]).integers(count, size=(DRAWS, count))


@lru_cache(maxsize=8)
def _weights(tasks: int, places: int) -> npt.NDArray[np.float32]:
    """Return [draws, places, tasks] shares of tasks drawn with replacement."""
    rng = np.random.default_rng([tasks, places, 2])
    size = DRAWS * places
    drawn = rng.integers(tasks, size=(size, tasks)) + tasks * np.arange(size)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=size * tasks)
    return (counts / tasks).astype(np.float32).reshape(DRAWS, places, tasks)


@dataclass(frozen=True)
class Finding:
    """A claim about one measure, the number that decides it, and the verdict."""

    claim: Claim
    compared: str
    measure: Measure
    estimate: Estimate | None

    @property
    def verdict(self) -> str:
        """`shown`: the interval lies on the predicted side; `refuted`: on the other side.

        `undecided` otherwise, and always with fewer than three seeds, or without an interval.
        """
        e = self.estimate
        if e is None or e.low is None or e.high is None or e.seeds < LEAST_SEEDS:
            return "undecided"
        if e.low <= self.claim.threshold <= e.high:
            return "undecided"
        side = "above" if e.low > self.claim.threshold else "below"
        return "shown" if side == self.claim.predicted else "refuted"

    @property
    def shown_from(self) -> float | None:
        """From which number on an undecided claim would have been shown, by the interval's width.

        None for other verdicts, without an interval, and for shares, whose width moves with them.
        """
        e, claim = self.estimate, self.claim
        if e is None or e.low is None or e.high is None or self.verdict != "undecided":
            return None
        half = e.value - e.low if claim.predicted == "above" else e.value - e.high
        return None if self.measure.most else claim.threshold + half


@dataclass(frozen=True)
class Comparison:
    """Everything that is said about an experiment's runs."""

    plan: Plan
    trials: Sequence[Trial]
    findings: Sequence[Finding]
    numbers: Mapping[str, Mapping[str, Mapping[str, Estimate | None]]]
    """By table, measure and column."""

    def tables(self) -> list[tuple[str, Table]]:
        """Return all numbers, a titled table a section and kind of column."""
        measures = measures_with(self.plan.measures)
        titled: list[tuple[str, Table]] = []
        for title, by_measure in self.numbers.items():
            rows = [
                (m.title, *(_cell(m, e) for e in columns.values()))
                for name, columns in by_measure.items()
                for m in [measures[name]]
            ]
            head = next(iter(by_measure.values()))
            titled.append((title, (("", *head), rows)))
        return titled

    def verdicts(self) -> list[tuple[str, Table]]:
        """Return the findings, a table a question."""
        head = ("compared", "measure", "predicted", "found", "verdict")
        by_question: dict[str, list[tuple[str, ...]]] = {}
        for f in self.findings:
            predicted = f"{f.claim.predicted} {f.claim.threshold * f.measure.factor:g}"
            verdict = f.verdict
            if f.shown_from is not None:
                verdict += f", shown from {figure(f.shown_from * f.measure.factor)}"
            row = (f.compared, f.measure.title, predicted, _cell(f.measure, f.estimate), verdict)
            by_question.setdefault(f.claim.question, []).append(row)
        return [(question, (head, rows)) for question, rows in by_question.items()]

    def falls(self) -> list[tuple[str, Table]]:
        """Return which member of each run fell most between two evaluations, as a titled table."""
        rows = [
            (
                *(str(trial.group), str(trial.seed), fall.member),
                *(figure(100 * fall.mean), f"{fall.before} to {fall.after}"),
            )
            for trial in self.trials
            if (fall := largest_fall(trial.run)) and fall.mean > 0
        ]
        head = ("arm", "seed", "member", "fall (points)", "steps")
        return [(FALLS, (head, rows))] if rows else []

    def arms(self) -> list[str]:
        """Return one line an arm: what sets it apart, and how many of its runs are done; and one
        for each pair of arms that are not compared, or not up to the end of both."""
        plan, lines = self.plan, []
        for group in (Group(arm, c) for c in (None, *plan.controls) for arm in plan.arms):
            trials = [trial for trial in self.trials if trial.group == group]
            done = f"{sum(t.complete for t in trials)} of {len(plan.seeds_of(*group))} runs done"
            going = [
                f"seed {t.seed} at step {t.run.last} of {t.steps}" for t in trials if not t.complete
            ]
            changes = plan.controls[group.control] if group.control else plan.arms[group.arm]
            settings = [f"{key} {value}" for key, value in changes.items()]
            if len(settings) > MOST_SETTINGS:
                settings[MOST_SETTINGS:] = [f"and {len(settings) - MOST_SETTINGS} more"]
            about = f" ({', '.join(settings)})" if settings else ""
            lines.append(f"{group}{about}: {'; '.join([done, *going])}")
        return [*lines, *self._not_compared()]

    def _not_compared(self) -> list[str]:
        lines = []
        for pair in self.plan.contrasts:
            one, other = ({t.seed: t for t in self.trials if t.group == Group(arm)} for arm in pair)
            if one and other and not one.keys() & other.keys():
                lines.append(f"{pair[0]} and {pair[1]} have no seed in common: not compared")
            steps = {
                (one[s].steps, other[s].steps)
                for s in one.keys() & other.keys()
                if one[s].steps != other[s].steps
            }
            lines += [
                f"{pair[0]} has {a:,} steps and {pair[1]} {b:,}: compared up to step {min(a, b):,}"
                for a, b in sorted(steps)
            ]
        return lines


def compare(places: Sequence[str | PathLike[str]]) -> Comparison:
    """Compare the runs of an experiment's directory, or any run directories.

    places: the directory of an experiment, or runs. A run is its directory, or NAME=DIRECTORY,
    where runs of one NAME are the seeds of an arm. Runs without a name in folders `X-seed1`,
    `X-seed2` that differ in nothing but the seed are one arm, called X. Every arm is compared with
    the first. Raises RunDirectoryError where nothing can be compared.
    """
    plan, trials = open_trials(places)
    return Comparison(plan, trials, find(plan, trials), numbers(plan, trials))


def _marked(title: str, terms: Terms, plan: Plan, trials: Sequence[Trial]) -> str:
    """Return the title, with an asterisk where a run is missing or not finished."""
    done = {(trial.group, trial.seed) for trial in trials if trial.complete}
    lacking = any((group, s) not in done for _, group in terms for s in plan.seeds_of(*group))
    return title + "*" * lacking


def combine(
    trials: Sequence[Trial], terms: Terms, of: Of, measure: Measure | None = None
) -> Estimate | None:
    """Return the weighted sum of a quantity over groups, with its interval over seeds and tasks.

    Only seeds that every group has are used, each cut to the last step that its runs share; so the
    same random choices and equal steps are compared. measure: whose share it is, if it is one.
    """
    by_group = [{t.seed: t for t in trials if t.group == group} for _, group in terms]
    sums: list[Floats] = []
    for seed in sorted(set.intersection(*map(set, by_group))):
        paired = [group[seed] for group in by_group]
        step = min(trial.run.last for trial in paired)
        values = [of(trial.until(step)) for trial in paired]
        parts = [weight * v for (weight, _), v in zip(terms, values, strict=True) if v is not None]
        if len(parts) == len(terms) and len({part.shape for part in parts}) == 1:
            sums.append(sum(parts[1:], start=parts[0]))
    is_difference = any(weight < 0 for weight, _ in terms)
    if measure is None or measure.most is None:
        return estimate(sums)
    if measure.unit != TASKS and not is_difference:
        return estimate(sums, measure.most)
    found, most = estimate(sums), measure.most * sum(weight for weight, _ in terms if weight > 0)
    return found and found.within(-most if is_difference else 0.0, most)


def find(plan: Plan, trials: Sequence[Trial]) -> list[Finding]:
    """Return a finding for every measure of every claim of the plan."""
    control, known = next(iter(plan.controls), None), measures_with(plan.measures)
    findings = []
    for claim in plan.findings:
        net = control if claim.net else None
        terms: list[tuple[float, Group]] = []
        for arms, sign in ((claim.plus, 1.0), (claim.minus, -1.0)):
            weight = sign / max(1, len(arms))
            terms += [(weight, Group(arm)) for arm in arms]
            terms += [(-weight, Group(arm, net)) for arm in arms if net]
        title = " − ".join(
            arms[0] if len(arms) == 1 else f"mean of {', '.join(arms)}"
            for arms in (claim.plus, claim.minus)
            if arms
        )
        title = _marked(title + (f", each minus {net}" if net else ""), terms, plan, trials)
        for measure in (known[name] for name in claim.measures):
            value = combine(trials, terms, measure.of, measure)
            findings.append(Finding(claim, title, measure, value))
    return findings


def numbers(
    plan: Plan, trials: Sequence[Trial]
) -> dict[str, dict[str, dict[str, Estimate | None]]]:
    """Return every arm, with each control, minus each control, and arm against arm.

    By table, measure and column; measures without any number are left out.
    """
    kinds: dict[str, dict[str, Terms]] = {"arms": {arm: [(1.0, Group(arm))] for arm in plan.arms}}
    for c in plan.controls:
        kinds[f"arms with {c}"] = {arm: [(1.0, Group(arm, c))] for arm in plan.arms}
        kinds[f"minus {c}"] = {arm: [(1.0, Group(arm)), (-1.0, Group(arm, c))] for arm in plan.arms}
    kinds["arm against arm"] = {
        f"{a} − {b}": [(1.0, Group(a)), (-1.0, Group(b))] for a, b in plan.contrasts
    }
    tables = {}
    for section, (_, measures) in sections_with(plan.measures).items():
        for kind, columns in kinds.items():
            rows = {
                m.name: {
                    _marked(title, terms, plan, trials): combine(trials, terms, m.of, m)
                    for title, terms in columns.items()
                }
                for m in measures
            }
            if kept := {name: cells for name, cells in rows.items() if any(cells.values())}:
                tables[f"{section}: {kind}"] = kept
    return tables


def to_text(comparison: Comparison) -> str:
    """Return the whole comparison as aligned text."""
    plan = comparison.plan
    parts = [plan.name, plan.question, "\n".join(comparison.arms())]
    for title, table in (*comparison.verdicts(), *comparison.falls(), *comparison.tables()):
        parts.append(f"{title}\n{text_table(*table)}")
    return "\n\n".join(part for part in (*parts, READING) if part)


def to_json(comparison: Comparison) -> str:
    """Return all numbers as JSON; those in points are shares here."""
    data = {
        "name": comparison.plan.name,
        "question": comparison.plan.question,
        "runs": [
            {
                **t.group._asdict(),
                "seed": t.seed,
                "steps": t.run.last,
                "complete": t.complete,
                "largest_fall": _fall_numbers(largest_fall(t.run)),
            }
            for t in comparison.trials
        ],
        "findings": [
            {
                "question": f.claim.question,
                "compared": f.compared,
                "measure": f.measure.name,
                "predicted": f"{f.claim.predicted} {f.claim.threshold:g}",
                "estimate": f.estimate,
                "verdict": f.verdict,
                "shown_from": f.shown_from,
            }
            for f in comparison.findings
        ],
        "tables": comparison.numbers,
    }
    return json.dumps(to_builtins(data), indent=1, allow_nan=False, ensure_ascii=False)


def _fall_numbers(fall: Fall | None) -> dict[str, Any] | None:
    if fall is None:
        return None
    return {"member": fall.member, "fall": fall.mean, "from": fall.before, "to": fall.after}


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write the comparison as one HTML page that works offline; equal ones give equal bytes.

    Its charts show held-out gain over steps, a line an arm and a band of all its seeds.
    """
    arms = [trial for trial in comparison.trials if not trial.group.control]
    controls = [trial for trial in comparison.trials if trial.group.control]
    gains = {
        "Population mean": _gain_chart(arms, population_mean),
        "Weakest member": _gain_chart(arms, weakest_member),
        "Controls, population mean": _gain_chart(controls, population_mean),
    }
    drawn = {title: chart for title, chart in gains.items() if chart}
    sections = sections_with(comparison.plan.measures)
    write_page(
        page,
        "compare.html",
        drawn,
        title=comparison.plan.name,
        question=comparison.plan.question,
        arms=comparison.arms(),
        findings=comparison.verdicts(),
        gains=list(drawn),
        falls=comparison.falls(),
        reading=READING,
        tables=comparison.tables(),
        meanings=[(section, meaning) for section, (meaning, _) in sections.items()],
    )


def _gain_chart(trials: Sequence[Trial], who: Who) -> "alt.LayerChart | None":
    """Return a line an arm over the steps with a band of all its seeds; None with one point an arm.

    Points of held-out gain over the frozen base, whose members all begin at 0.
    """
    from selfplay.report.charts import bands

    by_arm: dict[str, dict[int, list[float]]] = {}
    for trial in trials:
        by_step = by_arm.setdefault(str(trial.group), {0: [0.0]})
        for step, gains in trial.gains.items():
            by_step.setdefault(step, []).append(100 * float(np.nanmean(who(gains))))
    rows = [
        {"step": step, "arm": arm, "middle": float(np.mean(points))}
        | {"low": min(points), "high": max(points)}
        for arm, by_step in by_arm.items()
        for step, points in sorted(by_step.items())
    ]
    return bands(rows, "arm", list(by_arm), "points") if len(rows) > len(by_arm) else None


def _cell(measure: Measure, mean: Estimate | None) -> str:
    """Return `4.2 [1.0, 7.3]` in the measure's unit."""
    if mean is None:
        return "–"
    numbers = [end for end in (mean.value, mean.low, mean.high) if end is not None]
    value, *ends = (figure(number * measure.factor) for number in numbers)
    return f"{value} [{', '.join(ends)}]" if ends else value
