"""Print a table from the kept runs of a plan: each arm, then differences.

The differences are those that the plan names, and those to arms of the lab that ACROSS names.

    python -m studies.lab.table [PLAN]

Without PLAN the lab's. Its kept runs lie in the folder `results` beside it; in `live` are runs of
the lab's arms from which its tapes were written, and which stand for those of the lab.
Means over seeds, in points of held-out tasks, or in % of accepted tasks; brackets are Student's
95 % intervals over seeds, which one seed does not have. Differences are paired by seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from selfplay.experiments.comparison import Runs, of_arm, of_pair
from selfplay.experiments.experiment import Plan, open_plan
from selfplay.experiments.kept import read_kept
from selfplay.files.intervals import Estimate
from selfplay.objects import load_object

LAB = Path(__file__).with_name("kept.yaml")
GAINS = {
    "gain": "gain, population mean, last third",
    "weakest student": "gain, weakest member, last third",
}
"""Heads of columns, and the measures of `selfplay compare` below them."""
ACROSS = {
    "evolve": ("slow regret",),
    "gate": ("frozen", "slow regret", "paper"),
    "tape": ("slow regret", "paper", "one agent"),
}
"""Arms of the lab by the name of a plan, whose own arms differ from them in what it asks about."""


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
    """Return a row for each arm that has kept runs, and for each difference of two that have."""
    plan = open_plan(str(place))
    curves = {name: load_object(path, f"curves.{name}") for name, path in plan.curves.items()}
    runs, live = _kept(place.with_name("results")), place.with_name("live")
    pairs = [(f"{a} − {b}", runs[a], runs[b]) for a, b in plan.pairs if {a, b} <= runs.keys()]
    lab = _kept(live if live.is_dir() else LAB.with_name("results"))
    for arm in runs:
        for other in ACROSS.get(plan.name, ()):
            if arm.startswith(other) or len(ACROSS[plan.name]) == 1:
                pairs.append((f"{arm} − lab's {other}", runs[arm], lab[other]))
    arms = [(arm, of_arm(runs[arm], curves)) for arm in plan.arms if arm in runs]
    arms += [(f"lab's {arm}", of_arm(of, curves)) for arm, of in lab.items() if live.is_dir()]
    differences = [(name, of_pair(one, other, curves)) for name, one, other in pairs]
    columns = [*columns_of(plan).values()]
    return [_row(name, numbers, columns) for name, numbers in arms + differences if numbers]


def _kept(folder: Path) -> dict[str, Runs]:
    """Return the kept runs of a folder by arm and seed."""
    runs: dict[str, Runs] = {}
    for row in read_kept(folder):
        runs[row.arm] = {**runs.get(row.arm, {}), row.seed: row}
    return runs


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
