"""A step on several workers against one process, in processor seconds.

    python benchmarks/workers.py [--workers 2] [--steps 4] [--rounds 1]

Trains the preset nano as one agent (azr), 1T+1S and 2T+2S, in one process that is not cut for
workers, and on N workers of this machine, in turn. Prints the processor seconds a step of that
process and of the slowest worker, their ratio, and those of the driver, which matches, judges and
records. A machine that does other work does not change them much.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarking import parser

from selfplay import Extensions, load_preset, train
from selfplay.config import Config

SETTINGS = ("eval.eval_every=0", "evolution.evolve_every=0", "seed=3", "sandbox.workers=1")
SIZES = {
    "azr": ("mode=azr",),
    "1T+1S": ("teachers=1", "students=1"),
    "2T+2S": ("teachers=2", "students=2"),
}
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(process: int) -> float:
    """Return what a process has used of processors so far, all of its threads."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def seconds(config: Config, workers: int | None) -> tuple[float, float]:
    """Train; return the seconds a step of the slowest worker, or the process, and of the driver."""
    used: list[dict[int, float]] = []

    def watch(run, row):
        pool = getattr(run.population, "pool", None)
        processes = [] if pool is None else [process for _, process in pool.places]
        used.append({p: processor_seconds(p) for p in (os.getpid(), *processes)})

    with tempfile.TemporaryDirectory() as folder:
        train(
            config, Path(folder) / "run", workers=workers, extensions=Extensions(callbacks=[watch])
        )
    first, last = used[0], used[-1]
    driver, *times = [(last[p] - first[p]) / (len(used) - 1) for p in first]
    return max(times, default=driver), driver


def main() -> None:
    args = parser(__doc__, workers=2, steps=4, rounds=1).parse_args()
    for size, settings in SIZES.items():
        config = replace(load_preset("nano", *settings, *SETTINGS), steps=args.steps + 1)
        rounds = [
            (seconds(config, None), seconds(config, args.workers)) for _ in range(args.rounds)
        ]
        alone = median(one for (one, _), _ in rounds)
        slowest = median(worker for _, (worker, _) in rounds)
        driver = median(driver for _, (_, driver) in rounds)
        print(
            f"{size}: one process {alone:.2f} s a step, the slowest of {args.workers} workers "
            f"{slowest:.2f} ({alone / slowest:.2f} times), its driver {driver:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
