"""Print a table from the kept runs of a plan: each arm, then the differences that the plan names.

    python -m studies.lab.table [PLAN]

Without PLAN the lab's. Its kept runs lie in the folder `results` beside it.
Means over seeds, in points of held-out tasks, or in % of accepted tasks; brackets are Student's
95 % intervals over seeds, which one seed does not have. Differences are paired by seed.
"""

from collections.abc import Mapping
from pathlib import Path

import click
from studies.lab.measures import traps

from selfplay.experiments.comparison import Runs, of_arm, of_pair
from selfplay.experiments.experiment import open_plan
from selfplay.experiments.kept import read_kept
from selfplay.files.intervals import Estimate

LAB = Path(__file__).with_name("kept.yaml")
COLUMNS = {
    "gain": "gain, population mean, last third",
    "weakest student": "gain, weakest member, last third",
    "traps, %": "traps, last third",
}
"""Heads of the table, and the measures of `selfplay compare` below them."""


@click.command()
@click.argument("plan", type=click.Path(exists=True, path_type=Path), default=LAB)
def main(plan: Path) -> None:
    """Print the table of PLAN as Markdown."""
    for row in [["", "seeds", *COLUMNS], ["---"] * (2 + len(COLUMNS)), *table_rows(plan)]:
        print(f"| {' | '.join(row)} |")


def table_rows(place: Path = LAB) -> list[list[str]]:
    """Return a row for each arm that has kept runs, and for each pair of the plan that has."""
    plan, curves = open_plan(str(place)), {"traps": traps}
    runs: dict[str, Runs] = {arm: {} for arm in plan.arms}
    for row in read_kept(place.parent / "results"):
        runs[row.arm] = {**runs[row.arm], row.seed: row}
    arms = [_row(arm, of_arm(of, curves)) for arm, of in runs.items() if of]
    pairs = [(f"{a} − {b}", of_pair(runs[a], runs[b], curves)) for a, b in plan.pairs]
    return arms + [_row(name, numbers) for name, numbers in pairs if numbers]


def _row(name: str, numbers: Mapping[str, Estimate]) -> list[str]:
    estimates = [numbers.get(measure) for measure in COLUMNS.values()]
    return [name, str(max(of.seeds for of in estimates if of)), *map(_cell, estimates)]


def _cell(estimate: Estimate | None) -> str:
    """Return `4.2 [1.0, 7.3]`, in points."""
    if estimate is None:
        return "–"
    ends = [_points(end) for end in (estimate.low, estimate.high) if end is not None]
    return _points(estimate.value) + (f" [{', '.join(ends)}]" if ends else "")


def _points(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f}"  # no "-0.0"


if __name__ == "__main__":
    main()
