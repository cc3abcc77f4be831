"""What members of finished nano runs gained over the frozen base: in solving, and in teaching.

    python benchmarks/nano_gain.py RUN... [--tasks 600] [--samples 8] [--proposals 60]

Students at T = 1 and T = 0.6: the solve rate on held-out tasks, the difference to the base with its
standard error over tasks, pass@k at all samples, and the share of answers that think first.
Teachers after the same references, per run and over all: what the base solves of their valid tasks,
and the reward as if it were the student, minus the same of the base's own proposals; standard
errors over proposals. Runs are copied first and stay as they are.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarking import Row, parser, show

from selfplay import Run
from selfplay.config import EvalConfig
from selfplay.evaluate import solve_held_out, solving_row, teaching_rows
from selfplay.files.rows import TeachingRow
from selfplay.tasks.held_out import held_out_tasks
from selfplay.training import open_run


@contextmanager
def copied(home: Path, **evaluation: Any) -> Iterator[Run]:
    """Open a copy of a run that measures in another way."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_run(shutil.copytree(home, Path(folder) / "run")) as run,
    ):
        run.config = replace(run.config, eval=replace(run.config.eval, **evaluation))
        yield run


def students(home: Path, tasks: int, samples: int, temperature: float) -> list[Row]:
    """Return a row for the base and each living student."""
    with copied(home, samples=samples, temperature=temperature) as run:
        run.held_out = held_out_tasks(EvalConfig.held_out, tasks)
        kinds = [task.kind for task in run.held_out]
        names = [None, *run.solvers]
        solved = solve_held_out(run, names)
    base = solving_row(kinds, solved[0], [None] * len(kinds)).rates
    rows = []
    for name, attempts in zip(names, solved, strict=True):
        score = solving_row(kinds, attempts, base)
        texts = [a.text for tries in attempts for a in tries]
        row = {"run": home.name, "member": name or "base", "T": temperature}
        row |= {"solved": score.solve_rate, "gain": score.difference}
        row |= {"standard error": score.standard_error, "pass@k": score.pass_at_k}
        rows.append(row | {"thinks": fmean(not text.startswith("<|answer|>") for text in texts)})
    return rows


def teachers(home: Path, proposals: int) -> list[TeachingRow]:
    """Return the base's row and then the teachers', all with the same seeds."""
    with copied(home, proposals=proposals) as run:
        return list(teaching_rows(run, [None, *run.proposers]))


def compared(name: str, what: str, runs: list[list[TeachingRow]]) -> Row:
    """Return the difference between teachers and base with its error."""
    before = [x for base, *_ in runs for x in getattr(base, what)]
    after = [x for _, *rows in runs for row in rows for x in getattr(row, what)]
    gain = fmean(after) - fmean(before)
    error = sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
    row = {"run": name, "of": what, "base": fmean(before), "teachers": fmean(after)}
    return row | {"difference": gain, "standard error": error, "ratio": gain / error}


def main() -> None:
    options = parser(__doc__, tasks=600, samples=8, proposals=60)
    options.add_argument("runs", nargs="+", type=Path)
    args = options.parse_args()
    sizes = args.tasks, args.samples
    show([row for t in (1.0, 0.6) for home in args.runs for row in students(home, *sizes, t)])
    runs = {home.name: [teachers(home, args.proposals)] for home in args.runs}
    runs["all"] = [rows for some in runs.values() for rows in some]
    show([compared(n, what, some) for n, some in runs.items() for what in ("rates", "rewards")])


if __name__ == "__main__":
    main()
