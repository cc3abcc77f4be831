"""What the teachers of finished runs write, against the frozen base after the same references.

    python tests/benchmarks/nano_teachers.py RUN... [--proposals 60]

Per run and over all: what the base solves of their valid tasks, and the reward as if it were the
student, minus the same of the base's own proposals; standard errors over proposals. Runs are copied
first and stay as they are.
"""

import shutil
import tempfile
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from benchmarking import parser

from selfplay.evaluation import teaching_rows
from selfplay.rows import TeachingRow
from selfplay.training import open_run


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--proposals", type=int, default=60)
    arguments = options.parse_args()
    found = [measured(home, arguments.proposals) for home in arguments.runs]
    for home, (base, teachers) in zip(arguments.runs, found, strict=True):
        report(home.name, [base], teachers)
    report("all", [base for base, _ in found], [t for _, some in found for t in some])


def measured(home: Path, proposals: int) -> tuple[TeachingRow, list[TeachingRow]]:
    """Return the base's row and the teachers', all with the same seeds."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(home, Path(folder) / "run")
        with open_run(copy) as run:
            run.config = replace(run.config, eval=replace(run.config.eval, proposals=proposals))
            teachers = [m for m in run.population.members if m.startswith("t")]
            base, *rows = teaching_rows(run, [None, *teachers])
            return base, rows


def report(name: str, base: list[TeachingRow], teachers: list[TeachingRow]) -> None:
    """Print both differences with their errors."""
    for what in ("rates", "rewards"):
        before = [x for row in base for x in getattr(row, what)]
        after = [x for row in teachers for x in getattr(row, what)]
        gain = fmean(after) - fmean(before)
        error = sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
        print(
            f"{name} {what}: {fmean(before):.3f} -> {fmean(after):.3f} "
            f"({gain:+.3f} ± {error:.3f}, {gain / error:+.1f} standard errors)",
            flush=True,
        )


if __name__ == "__main__":
    main()
