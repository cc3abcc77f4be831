"""A step on several workers against one process: `python tests/benchmarks/workers.py`.

Trains 4T+4S of the preset nano for a few steps in one process and on N workers of this machine, in
turn, and prints seconds a step, their ratio, and what Ray costs: the seconds of all questions to
workers in a step that are not the slowest worker's own. Both runs sample and learn the same.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarking import parser

from selfplay.config import Config, cut_by_member, read_config
from selfplay.rows import StepRow, read_rows
from selfplay.settings import override, read_preset
from selfplay.training import train
from selfplay.workers import pool as pools

SETTINGS = ("teachers=4", "students=4", "eval.eval_every=0", "evolution.evolve_every=0")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    overheads: list[float] = []
    found: dict[int, list[float]] = defaultdict(list)
    with counted(overheads):
        for _ in range(arguments.rounds):
            for count in (1, arguments.workers):
                found[count] += seconds(settings(arguments.steps), count)
    alone, together = (median(found[count]) for count in (1, arguments.workers))
    print(f"one process: {alone:.2f} s a step (median of {len(found[1])})")
    print(f"{arguments.workers} workers: {together:.2f} s a step, {alone / together:.2f} times")
    steps = len(found[arguments.workers]) + arguments.rounds
    print(f"Ray: {1000 * sum(overheads) / steps:.0f} ms a step")


def settings(steps: int) -> Config:
    """4T+4S of nano, in batches that do not depend on the number of workers."""
    data = read_preset("nano")
    for assignment in SETTINGS:
        override(data, assignment)
    return cut_by_member(replace(read_config(data), steps=steps + 1, seed=3))


def seconds(config: Config, workers: int) -> list[float]:
    """Train, and return the seconds of every step but the first."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "run"
        train(config, home, workers=workers)
        rows = read_rows(home / "metrics.jsonl", StepRow)
        return [sum(row.seconds.values()) for row in rows][1:]


@contextmanager
def counted(overheads: list[float]) -> Iterator[None]:
    """Note for every round of questions how long it took beyond the slowest worker's work."""
    scatter = pools.WorkerPool.scatter

    def timed(self: pools.WorkerPool, *arguments: Any) -> Iterator[Any]:
        start, before = time.perf_counter(), {s.name: s.busy for s in self.shares}
        answers = list(scatter(self, *arguments))
        slowest = max(s.busy - before.get(s.name, 0.0) for s in self.shares)
        overheads.append(time.perf_counter() - start - slowest)
        yield from answers

    pools.WorkerPool.scatter = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        pools.WorkerPool.scatter = scatter  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
