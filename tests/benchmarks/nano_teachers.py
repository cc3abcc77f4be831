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

from benchmarking import Row, parser, show

from selfplay.evaluation import teaching_rows
from selfplay.rows import TeachingRow
from selfplay.training import open_run


def measured(home: Path, proposals: int) -> list[TeachingRow]:
    """Return the base's row and then the teachers', all with the same seeds."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(home, Path(folder) / "run")
        with open_run(copy) as run:
            run.config = replace(run.config, eval=replace(run.config.eval, proposals=proposals))
            teachers = [m for m in run.population.members if m.startswith("t")]
            return list(teaching_rows(run, [None, *teachers]))


def compared(name: str, what: str, found: list[list[TeachingRow]]) -> Row:
    """Return the difference between teachers and base with its error."""
    before = [x for base, *_ in found for x in getattr(base, what)]
    after = [x for _, *teachers in found for row in teachers for x in getattr(row, what)]
    gain = fmean(after) - fmean(before)
    error = sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
    row = {"run": name, "of": what, "base": fmean(before), "teachers": fmean(after)}
    return row | {"difference": gain, "standard error": error, "ratio": gain / error}


def main() -> None:
    options = parser(__doc__, proposals=60)
    options.add_argument("runs", nargs="+", type=Path)
    given = options.parse_args()
    found = {home.name: [measured(home, given.proposals)] for home in given.runs}
    found["all"] = [rows for some in found.values() for rows in some]
    show([compared(n, what, some) for n, some in found.items() for what in ("rates", "rewards")])


if __name__ == "__main__":
    main()
