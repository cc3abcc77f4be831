"""Print a table from the kept runs of a plan: each arm, then the differences that the plan names.

    python -m studies.lab.table [PLAN]

Without PLAN the lab's. Its kept runs lie in the folder `results` beside it.
Means over seeds, in points of held-out tasks, or in % of accepted tasks; brackets are Student's
95 % intervals over seeds, which one seed does not have. Differences are paired by seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from studies.lab import measures

from selfplay.experiments.comparison import Runs, of_arm, of_pair
from selfplay.experiments.experiment import Plan, open_plan
from selfplay.experiments.kept import read_kept
from selfplay.files.intervals import Estimate

LAB = Path(__file__).with_name("kept.yaml")
GAINS = {
    "gain": "gain, population mean, last third",
    "weakest student": "gain, weakest member, last third",
}
"""Heads of columns, and the measures of `selfplay compare` below them."""


@click.command()
@click.argument("plan", type=click.Path(exists=True, path_type=Path), default=LAB)
def main(plan: Path) -> None:
    """Print the table of PLAN as Markdown."""
    columns = columns_of(open_plan(str(plan)))
    for row in [["", "seeds", *columns], ["---"] * (2 + len(columns)), *table_rows(plan)]:
        print(f"| {' | '.join(row)} |")


def columns_of(plan: Plan) -> dict[str, str]:
    """Return the measures of a plan by their heads: gains, and each curve's last third."""
    return GAINS | {f"{name}, %": f"{name}, last third" for name in plan.curves}


def table_rows(place: Path = LAB) -> list[list[str]]:
    """Return a row for each arm that has kept runs, and for each pair of the plan that has."""
    plan = open_plan(str(place))
    curves = {name: getattr(measures, name) for name in plan.curves}
    runs: dict[str, Runs] = {arm: {} for arm in plan.arms}
    for row in read_kept(place.parent / "results"):
        runs[row.arm] = {**runs[row.arm], row.seed: row}
    arms = [(arm, of_arm(of, curves)) for arm, of in runs.items() if of]
    pairs = [(f"{a} − {b}", of_pair(runs[a], runs[b], curves)) for a, b in plan.pairs]
    columns = [*columns_of(plan).values()]
    return [_row(name, numbers, columns) for name, numbers in arms + pairs if numbers]


def _row(name: str, numbers: Mapping[str, Estimate], columns: Sequence[str]) -> list[str]:
    estimates = [numbers.get(measure) for measure in columns]
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
