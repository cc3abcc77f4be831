"""What the teachers of finished runs write, against the frozen base after the same references.

    python tests/benchmarks/nano_teachers.py RUN... [--proposals 60]

Per run and over all: what the base solves of their valid tasks, and the reward as if it were the
student, minus the same of the base's own proposals; standard errors over proposals. Runs are copied
first and stay as they are.
"""

import argparse
import shutil
import tempfile
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from selfplay.records.yardstick_row import TeachingRow
from selfplay.run.directory import open_config
from selfplay.step.checkpoint import newest_checkpoint, restore_files, restore_run
from selfplay.step.loop import open_run
from selfplay.yardstick.teaching import teaching_rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--proposals", type=int, default=60)
    arguments = parser.parse_args()
    found = [measured(home, arguments.proposals) for home in arguments.runs]
    for home, (base, teachers) in zip(arguments.runs, found, strict=True):
        report(home.name, [base], teachers)
    report("all", [base for base, _ in found], [t for _, some in found for t in some])


def measured(home: Path, proposals: int) -> tuple[TeachingRow, list[TeachingRow]]:
    """Return the base's row and the teachers', all with the same seeds."""
    config = open_config(home)
    config = replace(config, yardstick=replace(config.yardstick, proposals=proposals))
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(home, Path(folder) / "run")
        checkpoint = newest_checkpoint(copy)
        assert checkpoint is not None
        with open_run(config, copy) as run:
            restore_run(run, checkpoint, restore_files(copy, checkpoint))
            references = run.yardstick.references
            teachers = [m for m in run.learner.members if m.startswith("t")]
            base, *rows = teaching_rows(run, [None, *teachers], references)
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
