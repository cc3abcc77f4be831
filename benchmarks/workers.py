"""A step on several workers against one process.

    python benchmarks/workers.py [--workers 2] [--steps 6] [--rounds 3]

Trains 4T+4S of the preset nano for a few steps in one process and on N workers of this machine, in
turn, and prints seconds a step and their ratio. One more run on the workers, whose answers are
taken all together so that judging overlaps with nothing, shows what Ray costs: the seconds of all
questions in a step that are not the slowest worker's own, and the bytes of the answers that come to
the driver. All runs sample and learn the same.
"""

import pickle
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import ray
from benchmarking import parser

from selfplay import load_preset, read_run, train
from selfplay.config import Config, cut_by_member
from selfplay.workers.pool import WorkerPool

SETTINGS = ("teachers=4", "students=4", "eval.eval_every=0", "evolution.evolve_every=0", "seed=3")


def seconds(config: Config, workers: int) -> list[float]:
    """Train, and return the seconds of every step but the first."""
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", workers=workers)
        steps = read_run(Path(folder) / "run").steps
        return [sum(row.seconds.values()) for row in steps][1:]


def main() -> None:
    given = parser(__doc__, workers=2, steps=6, rounds=3).parse_args()
    config = cut_by_member(replace(load_preset("nano", *SETTINGS), steps=given.steps + 1))
    overheads: list[float] = []
    received: list[int] = []
    get = ray.get
    scatter = WorkerPool.scatter

    def timed(self: WorkerPool, *arguments: Any) -> Iterator[Any]:
        start, before = time.perf_counter(), {s.name: s.busy for s in self.shares}
        answers = list(scatter(self, *arguments))
        slowest = max(s.busy - before.get(s.name, 0.0) for s in self.shares)
        overheads.append(time.perf_counter() - start - slowest)
        yield from answers

    def weighed(references: Any, **how: Any) -> Any:
        answer = get(references, **how)
        if not isinstance(answer, list):  # of a question; a list is of a checkpoint
            received.append(len(pickle.dumps(answer)))
        return answer

    found: dict[int, list[float]] = {1: [], given.workers: []}
    for count in [*found] * given.rounds:
        found[count] += seconds(config, count)
    alone, together = map(median, found.values())
    print(f"one process: {alone:.2f} s a step (median of {len(found[1])})")
    print(f"{given.workers} workers: {together:.2f} s a step, {alone / together:.2f} times")
    with patch.object(WorkerPool, "scatter", timed), patch.object(ray, "get", weighed):
        seconds(config, given.workers)
    steps = config.steps
    print(f"answers to the driver: {sum(received) / steps / 1e6:.2f} MB a step")
    print(f"Ray: {1000 * sum(overheads) / steps:.0f} ms a step")


if __name__ == "__main__":
    main()
