"""A rehearsal of PopuLoRA on a real small model: `make rehearse TASKS=FILE [ENGINE=hf|vllm]`.

    python tests/real/rehearse.py OUT --tasks TASKS.jsonl --engine hf [--minutes 60] [--kill-at 2]

Makes, in OUT: the small model (`small_model.py`), a supervised warm start on real tasks
(`selfplay warmup`), and a run of the preset `smol` from it, with as many steps as the minutes give.
The run is killed by SIGKILL once, in the step after `--kill-at`, and resumed. What is done already
is kept, so that the same command goes on. Printed at the end: held-out rates, verdicts of the
proposals, seconds of each phase, memory, and how far trainer and sampler are apart.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import fmean, median

HERE = Path(__file__).parent
TOOL = Path(sys.executable).parent / "selfplay"
STEPS = 1000
POLL_S = 0.5


def main() -> None:
    """Prepare, train with one sudden death, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--engine", choices=("hf", "vllm"), default="hf")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--kill-at", type=int, default=2)
    parser.add_argument("--warmup-steps", default="60")
    arguments = parser.parse_args()
    out: Path = arguments.out
    if not arguments.tasks.is_file():
        sys.exit(f"there is no file {arguments.tasks}; type: make rehearse TASKS=FILE")
    base, warm, run = out / "smollm2-135m-instruct", out / "warm", out / arguments.engine
    subprocess.run([sys.executable, HERE / "small_model.py", base], check=True)
    warmup = [TOOL, "warmup", "--base", base, "--data", arguments.tasks, "--out", warm]
    subprocess.run([*map(str, warmup), "--steps", arguments.warmup_steps], check=True)
    settings = ["--set", f"base={base}", "--set", f"warm_start={warm}", "--steps", str(STEPS)]
    train = [TOOL, "train", "--preset", "smol", *settings, "--engine", arguments.engine]
    resume = [str(TOOL), "resume", str(run), "--quiet"]
    end = time.monotonic() + 60 * arguments.minutes
    if not run.exists():
        began = [*map(str, train), "--seed", "1", "--out", str(run), "--quiet"]
        until(began, signal.SIGKILL, end, run, arguments.kill_at)
        print(f"killed in the step after {steps_of(run)}", flush=True)
    until(resume, signal.SIGINT, end, run, STEPS)
    tell(run)


def until(command: list[str], ending: signal.Signals, end: float, run: Path, steps: int) -> None:
    """Let a run go on until it has done these steps or the time is over, then end it."""
    process = subprocess.Popen(command, start_new_session=True)
    while process.poll() is None and time.monotonic() < end and steps_of(run) < steps:
        time.sleep(POLL_S)
    if process.poll() is None:
        os.killpg(process.pid, ending)
        process.wait()
    elif process.returncode:
        sys.exit(f"the run ended by itself with exit code {process.returncode}")


def steps_of(run: Path) -> int:
    """Steps that are written down."""
    metrics = run / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.is_file() else 0


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def tell(run: Path) -> None:
    """Print what the run's own files say."""
    steps = rows(run / "metrics.jsonl")
    print(f"{len(steps)} steps")
    for row in rows(run / "yardstick.jsonl"):
        solving, teaching = row.get("solving"), row.get("teaching")
        if solving:
            difference, error = solving["difference"], solving["standard_error"]
            print(
                f"step {row['step']:3} {row['member']:5} held-out {solving['solve_rate']:.3f}, "
                f"against the base {difference:+.3f} +- {error:.3f}"
            )
        if teaching:
            print(f"step {row['step']:3} {row['member']:5} valid {teaching['valid_share']:.2f}")
    tasks = rows(run / "tasks.jsonl")
    print("proposals by verdict:", dict(Counter(task["status"] for task in tasks).most_common()))
    answers = Counter[str]()
    for task in tasks:
        for attempt in task["attempts"]:
            sort = "ill-formed" if attempt["answer"] is None else f"score {attempt['score']:g}"
            answers[sort] += attempt["count"]
    print("attempts:", dict(answers.most_common()))
    phases = {
        name: [step["seconds"].get(name, 0.0) for step in steps] for name in steps[0]["seconds"]
    }
    for name, seconds in phases.items():
        print(f"{name:12} {median(seconds):8.1f} s a step (median)")
    tokens = fmean(step["tokens"]["sampled"] for step in steps)
    print(f"{tokens:,.0f} tokens sampled a step")
    memory = max(row["memory_mb"] for row in rows(run / "resources.jsonl"))
    print(f"largest memory {memory:,.0f} MB")
    members = [member for step in steps for member in step["members"].values()]
    for name in ("logp_difference_max", "mismatch_kl", "importance_sampling_clip_ratio"):
        found = [member[name] for member in members if member.get(name) is not None]
        print(f"{name}: largest {max(found, default=0.0):.2e}")


if __name__ == "__main__":
    main()
