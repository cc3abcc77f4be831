"""Show what an experiment of this study found beside what was predicted: a table and charts.

    python -m studies.collapse.page DIR

Prints the predicted numbers beside those that were found, the verdicts on its claims, and
the commonest programs of each arm. Writes traps.svg (traps over the steps), predicted.svg and, for
arms of the mean field's phase diagram, phases.svg into DIR.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import yaml
from studies.collapse.measures import MEASURES, MOST, NO_SHARES, written
from studies.shares import share_interval

from selfplay import RunRecord
from selfplay.experiments.comparison import compare
from selfplay.experiments.experiment import open_plan
from selfplay.files.intervals import Estimate, Floats, estimate

PREDICTED = Path(__file__).with_name("predicted.yaml")
LEAST_SEEDS = 3
"""Fewer say too little of others."""
Numbers = Mapping[str, Mapping[str, float]]
"""By arm and measure."""


def main() -> None:
    """Print the tables and write the charts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path, metavar="DIR", help="Directory of an experiment.")
    home = parser.parse_args().home
    name, predicted = open_plan(str(home / "plan.yaml")).name, predictions()
    expected, runs = predicted["expected"].get(name, {}), compare([home]).arms
    results = {
        arm: {m: mean for m in MEASURES if (mean := combined(runs, [arm], [], m))} for arm in runs
    }
    print(table(expected, results))
    print(f"\n{verdicts(predicted['claims'].get(name, []), runs)}")
    values = {arm: {m: mean.value for m, mean in some.items()} for arm, some in results.items()}
    charts = {"predicted.svg": beside(expected, values)}
    for arm, of_arm in runs.items():
        for share, text in written(next(iter(of_arm.values()))).examples:
            print(f"\n{arm}, {100 * share:.1f} % of the late tasks of one run:\n{text}")
    charts["traps.svg"] = over_steps({arm: [*of_arm.values()] for arm, of_arm in runs.items()})
    charts["phases.svg"] = phase_diagram(predicted["phases"], values)
    for file, chart in charts.items():
        if chart is not None:
            chart.save(home / file)
            print(home / file)


def predictions() -> dict[str, Any]:
    """Return what was expected of each plan's arms, its claims, and the phase diagram."""
    data: dict[str, Any] = yaml.safe_load(PREDICTED.read_text())
    return data


def combined(
    runs: Mapping[str, Mapping[int, RunRecord]],
    plus: Sequence[str],
    minus: Sequence[str],
    measure: str,
) -> Estimate | None:
    """Return the mean of some arms minus that of others, over the seeds that all of them have.

    The runs of a seed are cut to the last step that all of them have. Of a single arm, a share that
    may be all or nothing counts each seed once, by Clopper and Pearson.
    """
    arms = [*plus, *minus]
    if not {*arms} <= runs.keys():
        return None
    sums: list[Floats] = []
    for seed in sorted(set.intersection(*({*runs[arm]} for arm in arms))):
        step = min(runs[arm][seed].last for arm in arms)
        cut = [runs[arm][seed].until(step) for arm in arms]
        values = [MEASURES[measure](run) for run in cut]
        if all(value is not None for value in values):
            weights = [1 / len(plus)] * len(plus) + [-1 / max(1, len(minus))] * len(minus)
            sums.append(np.asarray(sum(w * v for w, v in zip(weights, values, strict=True))))  # type: ignore[operator]
    mean = estimate(sums)
    if mean is None or minus or measure not in MOST:
        return mean
    most = MOST[measure]
    low, high = share_interval([(float(value.mean()) / most, 1) for value in sums])
    return replace(mean, low=low * most, high=high * most)


def verdict(mean: Estimate | None, side: str, at: float) -> str:
    """Return `shown` where the interval lies on the predicted side of a number, `refuted` on the
    other; `undecided` where it holds it, or with fewer than three seeds."""
    if mean is None or mean.low is None or mean.high is None or mean.seeds < LEAST_SEEDS:
        return "undecided"
    if mean.low <= at <= mean.high:
        return "undecided"
    return "shown" if (mean.low > at) is (side == "above") else "refuted"


def verdicts(claims: Sequence[Any], runs: Mapping[str, Mapping[int, RunRecord]]) -> str:
    """Return a line for each claim: what was predicted and found, and the verdict."""
    lines = []
    for plus, minus, measure, side, at in claims:
        mean = combined(runs, plus, minus, measure)
        who = " − ".join(", ".join(arms) for arms in (plus, minus) if arms)
        text = f"{side} {factor_of(measure) * at:g}: {cell_of(measure, mean)}"
        lines.append(f"{who}: {measure}, {text}: {verdict(mean, side, at)}")
    return "\n".join(lines)


def factor_of(measure: str) -> float:
    """Return what a value is multiplied by to be shown: shares are in percent."""
    return 1.0 if measure in NO_SHARES or measure.startswith("entropy") else 100.0


def cell_of(measure: str, mean: Estimate | None) -> str:
    """Return `4.2 [1.0, 7.3]`, shares in percent."""
    if mean is None:
        return "–"
    ends = [end for end in (mean.low, mean.high) if end is not None]
    value, *ends_said = (f"{factor_of(measure) * number:.1f}" for number in (mean.value, *ends))
    return value + (f" [{', '.join(ends_said)}]" if ends_said else "")


def table(expected: Numbers, results: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Return a line for each predicted number, in percent, with what was found."""
    lines = [f"{'arm':24}{'measure':30}{'predicted':>10}  found"]
    for arm, numbers in expected.items():
        for measure, number in numbers.items():
            text = cell_of(measure, results.get(arm, {}).get(measure))
            lines.append(f"{arm:24}{measure:30}{100 * number:10.0f}  {text}")
    return "\n".join(lines)


def over_steps(runs: Mapping[str, Sequence[RunRecord]]) -> alt.LayerChart | None:
    """Return the share of traps over the steps: a line an arm, a band of its seeds; None without
    traps."""
    rows: list[dict[str, Any]] = []
    for arm, records in runs.items():
        shares = [written(record).traps for record in records]
        for step in sorted({step for share in shares for step in share}):
            there = [100 * share[step] for share in shares if step in share]
            row = {"arm": arm, "step": step, "low": min(there), "high": max(there)}
            rows.append(row | {"middle": sum(there) / len(there)})
    if not rows:
        return None
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("step:Q", title="step"),
        color=alt.Color("arm:N", sort=[*runs], title=None).scale(scheme="tableau10"),
    )
    title = "% of accepted tasks that are traps"
    band = base.mark_area(opacity=0.15).encode(alt.Y("low:Q", title=title), alt.Y2("high:Q"))
    line = base.mark_line(strokeWidth=2.2, point=True).encode(alt.Y("middle:Q", title=title))
    return alt.LayerChart(layer=[band, line]).properties(width=640, height=320)


def beside(expected: Numbers, measured: Numbers) -> alt.LayerChart | None:
    """Return a cell for each arm and measure, predicted and found; None without predictions."""
    cells = []
    for arm, numbers in expected.items():
        for measure, number in numbers.items():
            pairs = (("predicted", number), ("found", measured.get(arm, {}).get(measure)))
            cells += [
                cell(arm, f"{measure}, {which}", 100 * value, f"{100 * value:.0f}")
                for which, value in pairs
                if value is not None
            ]
    return heat_map(cells, alt.Scale(scheme="blueorange", domainMid=0)) if cells else None


def phase_diagram(phases: Mapping[str, Any], measured: Numbers) -> alt.LayerChart | None:
    """Return what the mean field says of each row and column, and after an arrow what the arm that
    is there found; None where the experiment has none of the arms."""
    arm_at = {tuple(place): arm for arm, place in phases["arms"].items() if arm in measured}
    if not arm_at:
        return None
    cells = []
    for row, numbers in phases["rows"].items():
        for column, number in zip(phases["columns"], numbers, strict=True):
            value = measured.get(arm_at.get((row, column), ""), {}).get(phases["measure"])
            arrow = "" if value is None else f" → {100 * value:.0f}"
            cells.append(cell(row, column, 100 * number, f"{100 * number:.0f}{arrow}"))
    return heat_map(cells, alt.Scale(scheme="blueorange")).properties(title=phases["title"])


def cell(row: str, column: str, value: float, text: str) -> dict[str, str | float]:
    """Return the data of one cell."""
    return {"row": row, "column": column, "value": value, "text": text}


def heat_map(cells: Sequence[Mapping[str, str | float]], scale: alt.Scale) -> alt.LayerChart:
    """Return cells with their texts, the darker the farther from the middle of the scale."""
    above = alt.Axis(labelAngle=0, labelLimit=260, orient="top")
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("column:N", sort=None, title=None, axis=above),
        y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
    )
    color = alt.Color("value:Q", scale=scale, legend=None)
    squares = base.mark_rect(opacity=0.75).encode(color=color)
    layers = [squares, base.mark_text().encode(text="text:N")]
    columns = len({c["column"] for c in cells})
    return alt.LayerChart(layer=layers).properties(
        width=max(880, 90 * columns), height=alt.Step(26)
    )


if __name__ == "__main__":
    main()
