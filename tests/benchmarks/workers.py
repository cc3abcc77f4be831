"""A step on several workers against one process: `python tests/benchmarks/workers.py`.

Trains 4T+4S of the preset nano for a few steps in one process and on N workers of this machine, in
turn, and prints seconds a step, their ratio, and what Ray costs: the seconds of all questions to
workers in a step that are not the slowest worker's own. Both runs sample and learn the same.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from selfplay.config.preset import read_preset
from selfplay.config.run_config import RunConfig, cut_by_member, override, read_config
from selfplay.population.parts import OpenParts, local_parts
from selfplay.records.row_file import read_rows
from selfplay.records.step_row import StepRow
from selfplay.step.loop import train
from selfplay.step.progress import Progress
from selfplay.workers import pool as pools
from selfplay.workers.opening import Workers

SETTINGS = ("teachers=4", "students=4", "yardstick.eval_every=0", "evolution.evolve_every=0")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    overheads: list[float] = []
    found: dict[int, list[float]] = defaultdict(list)
    with counted(overheads):
        for _ in range(arguments.rounds):
            for count in (1, arguments.workers):
                parts = Workers(count) if count > 1 else local_parts
                found[count] += seconds(settings(arguments.steps), parts)
    alone, together = (median(found[count]) for count in (1, arguments.workers))
    print(f"one process: {alone:.2f} s a step (median of {len(found[1])})")
    print(f"{arguments.workers} workers: {together:.2f} s a step, {alone / together:.2f} times")
    steps = len(found[arguments.workers]) + arguments.rounds
    print(f"Ray: {1000 * sum(overheads) / steps:.0f} ms a step")


def settings(steps: int) -> RunConfig:
    """4T+4S of nano, in batches that do not depend on the number of workers."""
    data = read_preset("nano")
    for assignment in SETTINGS:
        override(data, assignment)
    return cut_by_member(replace(read_config(data), steps=steps + 1, seed=3))


def seconds(config: RunConfig, parts: OpenParts) -> list[float]:
    """Train, and return the seconds of every step but the first."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "run"
        train(config, home, Progress(quiet=True), parts)
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
