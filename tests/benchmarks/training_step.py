"""Seconds per phase, tokens per second and memory of a training step, for several populations.

    python tests/benchmarks/training_step.py [--steps 6]

Every population trains for a few steps in a fresh process; the first step is left out as warm-up,
and nothing is evaluated. The single agent does the work of one teacher and one student.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from benchmarking import Row, parser, show

from selfplay import read_run

POPULATIONS = {
    "azr (1 agent)": ["--mode", "azr"],
    "1T+1S": ["--teachers", "1", "--students", "1"],
    "2T+2S": ["--teachers", "2", "--students", "2"],
    "4T+4S": ["--teachers", "4", "--students", "4"],
}
PHASES = ("propose", "verify", "solve", "update", "save")
TRAIN = ("-m", "selfplay", "train", "--preset", "nano", "--quiet", "--workers", "1", "--seed", "1")
TRAIN += ("--set", "eval.eval_every=0")


def measure(options: list[str], steps: int) -> Row:
    """Train so many steps, and return their means."""
    with tempfile.TemporaryDirectory() as home:
        run = Path(home) / "run"
        words = [*TRAIN, "--steps", str(steps), "--out", str(run), *options]
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        rows = read_run(run).steps[1:]
    seconds = {phase: fmean(row.seconds[phase] for row in rows) for phase in PHASES}
    return seconds | {
        "step": sum(seconds.values()),
        "sampled tokens/s": fmean(row.tokens.sampled for row in rows)
        / (seconds["propose"] + seconds["solve"]),
        "trained tokens/s": fmean(row.tokens.trained for row in rows) / seconds["update"],
        "peak MB": rows[-1].memory_mb,
    }


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=6)
    steps = options.parse_args().steps
    show([{"population": n, **measure(words, steps)} for n, words in POPULATIONS.items()])


if __name__ == "__main__":
    main()
