"""What only a GPU shows of PopuLab: its vLLM engine, its training, its speed. In one go.

    python tools/gpu/run.py [--only STEP ...] [--skip STEP ...] [--budget SECONDS] [--out FOLDER]
    python tools/gpu/run.py --tiny [--engine hf]        the same on a CPU, with small shapes

Each step is a process of its own with its own limit, the one that tells most first. A row is in
OUT/results.jsonl as soon as there is one, and all that a step prints is in OUT/STEP.log. Exit code
1: a step failed, or ran past its limit; one for which no time was left only says so.

    facts      versions, the card, whether vLLM's kernels load and are right
    agree      random Qwen2.5-0.5B: log-probabilities of sampler and learner, with CUDA graphs
    checks     nano: hot swap, sleep, streams, refusals, an adapter that is lost, a killed vLLM
    train      nano: `selfplay train` with evolution, its vLLM killed on the way; `selfplay doctor`
    cost       random Qwen2.5-7B, eight members: sampling by one and by all, updates, hot swap
    profile    7B: an update's share of the card's peak, and the kernels that take it
    card24     7B in 4 bits, as a card of 24 GB sees it (needs bitsandbytes and accelerate)
    cost1      cost with one member
    eager      agree without compiling

docs/gpu.md says what each row tells. No package needs to be installed beyond what they require.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from setting import Setting

STEPS = {
    "facts": ("facts", 60), "agree": ("agreement", 240), "checks": ("checks", 180),
    "train": ("training", 260), "cost": ("costs", 330), "profile": ("costs", 150),
    "card24": ("costs", 150), "cost1": ("costs", 240), "eager": ("agreement", 150),
}  # fmt: skip
"""The module of each step, and its limit in seconds on a GPU; a CPU gets ten times as many."""
LEAST_S, LOG_BYTES, TAIL = 20.0, 4 << 20, 12
_STOP = {signal.SIGTERM}


def start(step: str, setting: Setting, limit: float) -> int | None:
    """Do a step in a process group of its own; return its exit code, None past the limit."""
    words = [sys.executable, str(Path(__file__).resolve()), *setting.options, "--step", step]
    with (setting.out / f"{step}.log").open("a") as log:
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # until it is known which process to end
        process = subprocess.Popen(
            words, stdout=log, stderr=log, env=setting.environment(), start_new_session=True
        )
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:  # also what the step left: a process of vLLM's keeps the memory of the GPU
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def end_of(log: Path) -> list[str]:
    """Return the last lines of a log, of 300 characters at most."""
    return [line[-300:] for line in log.read_text(errors="replace").splitlines()[-TAIL:]]


def run_all(steps: list[str], setting: Setting, budget: float) -> bool:
    """Do the steps in turn within so many seconds; return whether none failed."""
    end, good = time.monotonic() + budget, True
    for step in steps:
        begun, log = time.monotonic(), setting.out / f"{step}.log"
        if end - begun < LEAST_S:
            setting.write(step, skipped="no time is left")
            continue
        limit = STEPS[step][1] * (1 if setting.device == "cuda" else 10)
        code = start(step, setting, min(limit, end - begun))
        row: dict[str, Any] = {"code": code, "wall_s": round(time.monotonic() - begun, 1)}
        setting.write(step, **row, **({} if code == 0 else {"end": end_of(log)}))
        if log.stat().st_size > LOG_BYTES:
            log.write_bytes(log.read_bytes()[-LOG_BYTES:])
        good = good and code == 0
    return good


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    options.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    options.add_argument("--skip", nargs="+", choices=STEPS, default=[])
    options.add_argument("--budget", type=float, default=570.0, help="seconds for all steps")
    options.add_argument("--engine", choices=("vllm", "hf"), default="vllm")
    options.add_argument("--dtype", default="bfloat16", help="float32 makes the bounds strict")
    options.add_argument("--device", choices=("cuda", "cpu"), help="cuda, with --tiny cpu")
    options.add_argument("--tiny", action="store_true", help="small shapes, on a CPU")
    out = Path(os.environ.get("OUT", "runs/gpu"))
    options.add_argument("--out", type=Path, default=out, help="$OUT, else runs/gpu")
    work = Path(tempfile.gettempdir()) / "populab-gpu"
    options.add_argument("--work", type=Path, default=work, help="bases and runs: 20 GB")
    options.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    a = options.parse_args()
    device = a.device or ("cpu" if a.tiny else "cuda")
    setting = Setting(a.engine, a.dtype, device, a.tiny, a.out.resolve(), a.work.resolve())
    if a.step:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        getattr(import_module(STEPS[a.step][0]), a.step)(setting)
        return
    for folder in (setting.out, setting.work):
        folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the step that runs is ended, too
    good = run_all([step for step in a.only if step not in a.skip], setting, a.budget)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
