"""A run by the command line, whose vLLM is killed on the way, and the doctor."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from selfplay.doctor import DRIFT_LIMITS, drift
from setting import SHARE, Setting, set_all

KILL_AFTER = 2
"""Steps after which vLLM's process is killed: the run then goes back by itself."""
OWN_PROCESS = """
from lora_evo.model import vllm_engine
from selfplay.cli import main

first = vllm_engine.import_vllm
vllm_engine.import_vllm = lambda own: first(True)
main()
"""
"""The command line with vLLM in a process of its own on a CPU, too."""


def train(setting: Setting) -> None:
    """Write a row of the run and one of the doctor; exit code 1 where either failed."""
    run, doctor = trained(setting), examined(setting)
    setting.write("train", **run)
    setting.write("doctor", **doctor)
    sys.exit(not (run["passed"] and doctor["passed"]))


def selfplay(setting: Setting, *words: object) -> list[str]:
    """Return a command on nano at small sizes."""
    small = setting.assignments(
        "seed=1", "threads=0", f"engine={setting.engine}", "rollout.num_generations=4",
        f"rollout.proposals={2 if setting.tiny else 4}", "sandbox.workers=4",
        f"vllm.gpu_memory_utilization={SHARE}", "learner.r=4",
    )  # fmt: skip
    return [sys.executable, "-c", OWN_PROCESS, *map(str, words), *set_all(small)]


def trained(setting: Setting) -> dict[str, Any]:
    """Train with evolution, kill vLLM once, and read what the run wrote."""
    steps = 3 if setting.tiny else 5
    home = setting.work / f"run-{time.time_ns()}"
    words = selfplay(setting, "train", "--preset", "nano", "--steps", steps, "--out", home)
    words += set_all(["evolution.evolve_every=2", "league.grace_matches=1", "eval.eval_every=0"])
    begun, kills = time.perf_counter(), 0
    with subprocess.Popen(words) as process:
        while process.poll() is None:
            if not kills and len(lines(home / "metrics.jsonl")) >= KILL_AFTER:
                kills = kill_vllm()
            time.sleep(0.05)
    rows = [json.loads(line) for line in lines(home / "metrics.jsonl")]
    members = [member for row in rows for member in row["members"].values()]
    kl = max(map(drift, members), default=None)
    row = {"code": process.returncode, "steps": len(rows), "vllm_killed": kills}
    row["evolved"] = [bool(step.get("evolution")) for step in rows]
    good = row["code"] == 0 and len(rows) == steps and any(row["evolved"])
    good = good and kl is not None and kl < DRIFT_LIMITS[setting.dtype]
    good = good and kills == (setting.engine == "vllm")
    phases = rows[-1].get("seconds") if rows else None
    seconds = time.perf_counter() - begun
    return {"passed": good, **row, "mismatch_kl": kl, "seconds": seconds, "phases": phases}


def lines(path: Path) -> list[str]:
    """Return the whole lines of a file that may not be there yet."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def kill_vllm() -> int:
    """Kill the process of vLLM's engine in this process group, if there is one; return how many."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if b"VLLM::EngineCore" in command and os.getpgid(int(folder.name)) == os.getpgrp():
                os.kill(int(folder.name), signal.SIGKILL)
                return 1
        except OSError:  # it ended meanwhile
            continue
    return 0


def examined(setting: Setting) -> dict[str, Any]:
    """Ask the doctor."""
    words = selfplay(setting, "doctor", "--base", "nano", "--json")
    words += set_all(["rollout.kinds=[code_o]"])
    env = os.environ | {"VLLM_LOGGING_LEVEL": "ERROR"}  # else its lines are among those of --json
    job = subprocess.run(words, capture_output=True, text=True, env=env, cwd=setting.work)
    print(job.stdout, job.stderr, sep="\n", flush=True)
    return {"passed": job.returncode == 0, "code": job.returncode, "said": job.stdout[-3000:]}
