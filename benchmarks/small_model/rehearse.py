"""A rehearsal of PopuLoRA on a real small model: `make rehearse TASKS=FILE [ENGINE=hf|vllm]`.

    python benchmarks/small_model/rehearse.py OUT --tasks TASKS.jsonl [--engine hf] [--set A.B=C]

Makes, in OUT: the small model (`small_model.py`), a supervised warm start on real tasks
(`selfplay sft`), and a run of the preset `smol` from it, as many steps as the minutes give. The
run is killed once by SIGKILL, in the step after `--kill-at`, and resumed. What is done is kept:
stopped anywhere, the same command resumes, and the minutes count from there. TASKS: rows
{"snippet", "input", "output"}, such as the seed tasks of Absolute Zero's public repository. Printed
at the end: what `selfplay report` says (held-out rates, memory, how far trainer and sampler are
apart), verdicts of proposals and attempts, and the seconds of each phase.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
SELFPLAY = (sys.executable, "-m", "selfplay")
POLL_S = 0.5
INTERRUPTED = 130
"""Exit code of a command that SIGINT ended in good order."""


def main() -> None:
    """Prepare, train with one sudden death, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--engine", choices=("hf", "vllm"), default="hf")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=1000, help="most steps of the run")
    parser.add_argument("--kill-at", type=int, default=2)
    parser.add_argument("--sft-steps", type=int, default=60)
    parser.add_argument("--held-out", type=int, default=24, help="programs of the warm start")
    parser.add_argument("--set", action="append", default=[], help="of warm start and run")
    a = parser.parse_args()
    if not a.tasks.is_file():
        sys.exit(f"there is no file {a.tasks}; type: make rehearse TASKS=FILE")
    if not 0 < a.kill_at < a.steps:
        sys.exit(f"--kill-at is {a.kill_at}, expected from 1 to one less than --steps {a.steps}")
    base, warm, run = a.out / "smollm2-135m-instruct", a.out / "warm", a.out / a.engine
    settings = [word for text in (f"base={base}", *a.set) for word in ("--set", text)]
    do(sys.executable, HERE / "small_model.py", base)
    lessons = ("--data", a.tasks, "--steps", a.sft_steps, "--held-out", a.held_out)
    do(*SELFPLAY, "sft", "--preset", "smol", *lessons, *settings, "--out", warm)
    settings += ["--set", f"warm_start={warm}", "--engine", a.engine, "--seed", "1"]
    train = [*SELFPLAY, "train", "--preset", "smol", *settings, "--steps", str(a.steps)]
    resume = [*SELFPLAY, "resume", str(run), "--quiet"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the run, too
    end = time.monotonic() + 60 * a.minutes
    death = a.out / f"{a.engine}.killed"
    if not death.exists():
        begun = (run / "config.yaml").is_file()
        first = resume if begun else [*train, "--out", str(run), "--quiet"]
        until(first, signal.SIGKILL, lambda: written(run) >= a.kill_at)
        death.write_text(f"{written(run)}\n")
    killed = int(death.read_text())
    print(f"killed in the step after {killed}", flush=True)
    until(resume, signal.SIGINT, lambda: time.monotonic() > end and written(run) > killed)
    report(run)


def do(*command: object) -> None:
    """Run a command to its end; its failure is ours."""
    process = subprocess.run([str(word) for word in command])
    if process.returncode:
        sys.exit(f"exit code {process.returncode} of: {' '.join(map(str, command))}")


def until(command: list[str], ending: signal.Signals, enough: Callable[[], bool]) -> None:
    """Let a run work until it is enough, then end it: a SIGKILL with all that it started."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while process.poll() is None and not enough():
            time.sleep(POLL_S)
    except BaseException:  # nothing else would end it
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    alive = process.poll() is None
    if ending is signal.SIGKILL:
        if alive:
            os.killpg(process.pid, ending)
        good = alive and process.wait() == -signal.SIGKILL
    else:
        if alive:
            process.send_signal(ending)
        good = process.wait() in (0, INTERRUPTED)
    if not good:
        sys.exit(f"exit code {process.returncode} of: {' '.join(command)}")


def written(run: Path) -> int:
    """Steps that are written down."""
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.is_file() else 0


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a run's file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def report(run: Path) -> None:
    """Print what the run's own files say."""
    do(*SELFPLAY, "report", run, "--html", run.with_suffix(".html"))
    steps, tasks = rows(run / "metrics.jsonl"), rows(run / "tasks.jsonl")
    print("\nproposals:", dict(Counter(task["status"] for task in tasks).most_common()))
    answers = Counter[str]()
    for task in tasks:
        for attempt in task["attempts"]:
            sort = "ill-formed" if attempt["answer"] is None else f"score {attempt['score']:g}"
            answers[sort] += attempt["count"]
    print("attempts:", dict(answers.most_common()))
    for name in dict.fromkeys(name for step in steps for name in step["seconds"]):
        seconds = median(step["seconds"].get(name, 0.0) for step in steps)
        print(f"{name:12} {seconds:8.1f} s a step (median)")


if __name__ == "__main__":
    main()
