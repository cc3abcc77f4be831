"""Seconds per phase, tokens per second and memory of a training step, for several populations.

    python tests/benchmarks/training_step.py [--steps 6] [--json]

Every population trains for a few steps in a fresh process; the first step is
left out as warm-up. The single agent does the work of one teacher and one student.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

POPULATIONS = {
    "azr (1 agent)": ["--mode", "azr"],
    "1T+1S": ["--teachers", "1", "--students", "1"],
    "2T+2S": ["--teachers", "2", "--students", "2"],
    "4T+4S": ["--teachers", "4", "--students", "4"],
}
PHASES = ("propose", "verify", "solve", "update", "save")


def measure(options: list[str], steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        run = Path(home) / "run"
        command = [
            sys.executable,
            "-m",
            "selfplay",
            "train",
            "--preset",
            "nano",
            "--quiet",
            "--workers",
            "1",
        ]
        command += ["--steps", str(steps), "--seed", "1", "--out", str(run), *options]
        subprocess.run(command, check=True, capture_output=True)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:]
        memory = (run / "resources.jsonl").read_text().splitlines()[-1]
    seconds = {phase: fmean(row["seconds"][phase] for row in rows) for phase in PHASES}
    sampled = fmean(row["tokens"]["sampled"] for row in rows)
    trained = fmean(row["tokens"]["trained"] for row in rows)
    return seconds | {
        "step": sum(seconds.values()),
        "sampled tokens/s": sampled / (seconds["propose"] + seconds["solve"]),
        "trained tokens/s": trained / seconds["update"],
        "peak MB": json.loads(memory)["memory_mb"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    table = {name: measure(options, arguments.steps) for name, options in POPULATIONS.items()}
    if arguments.json:
        print(json.dumps(table, indent=1))
        return
    columns = list(next(iter(table.values())))
    print("| population | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, row in table.items():
        cells = [f"{row[c]:.0f}" if row[c] >= 100 else f"{row[c]:.2f}" for c in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
