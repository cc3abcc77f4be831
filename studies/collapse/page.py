"""Show what an experiment of this study found beside what was predicted: a table and charts.

    python -m studies.collapse.page DIR

Prints the predicted numbers beside those that `selfplay compare` finds, and the commonest programs
of each arm. Writes traps.svg (traps over the steps), predicted.svg and, where the plan has arms of
the mean field's phase diagram, phases.svg into DIR.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import yaml
from studies.collapse.measures import written

from selfplay import RunRecord, read_run

PREDICTED = Path(__file__).with_name("predicted.yaml")
Numbers = Mapping[str, Mapping[str, float]]
"""By arm and measure."""


def main() -> None:
    """Print the tables and write the charts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path, metavar="DIR", help="Directory of an experiment.")
    home = parser.parse_args().home
    compared, predicted = comparison(home), predictions()
    expected = predicted["expected"].get(compared["name"], {})
    estimates = means_of(compared)
    print(table(expected, estimates))
    charts = {"predicted.svg": beside(expected, found_of(estimates))}
    runs = runs_of(home, compared)
    for arm, records in runs.items():
        for share, text in written(records[0]).examples:
            print(f"\n{arm}, {100 * share:.1f} % of the late tasks of one run:\n{text}")
    charts["traps.svg"] = over_steps(runs)
    charts["phases.svg"] = phase_diagram(predicted["phases"], found_of(estimates))
    for name, chart in charts.items():
        if chart is not None:
            chart.save(home / name)
            print(home / name)


def predictions() -> dict[str, Any]:
    """Return what the mean field expected of each plan's arms, and its phase diagram."""
    data: dict[str, Any] = yaml.safe_load(PREDICTED.read_text())
    return data


def comparison(home: Path) -> dict[str, Any]:
    """Return what `selfplay compare --json` says of an experiment."""
    command = [sys.executable, "-m", "selfplay", "compare", str(home), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def means_of(compared: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the estimates of each arm by measure; arms lose the mark of unfinished runs."""
    estimates: dict[str, dict[str, dict[str, Any]]] = {}
    for title, by_measure in compared["tables"].items():
        if title.endswith(": arms"):
            for measure, by_arm in by_measure.items():
                for arm, estimate in by_arm.items():
                    if estimate:
                        estimates.setdefault(arm.removesuffix("*"), {})[measure] = estimate
    return estimates


def found_of(estimates: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Numbers:
    """Return the means alone."""
    return {arm: {m: e["value"] for m, e in some.items()} for arm, some in estimates.items()}


def runs_of(home: Path, compared: Mapping[str, Any]) -> dict[str, list[RunRecord]]:
    """Return the runs of each arm, without those of controls."""
    runs: dict[str, list[RunRecord]] = {}
    for row in compared["runs"]:
        if row["control"] is None:
            folder = home / row["arm"].replace(" ", "-") / f"seed-{row['seed']}"
            runs.setdefault(row["arm"], []).append(read_run(folder))
    return runs


def table(expected: Numbers, estimates: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return a line for each predicted number, in percent, with what was found."""
    lines = [f"{'arm':24}{'measure':30}{'predicted':>10}  found"]
    for arm, numbers in expected.items():
        for measure, number in numbers.items():
            estimate = estimates.get(arm, {}).get(measure)
            value = "–"
            if estimate:
                value = f"{100 * estimate['value']:.1f}"
                if estimate["low"] is not None:
                    value += f" [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"
            lines.append(f"{arm:24}{measure:30}{100 * number:10.0f}  {value}")
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
