"""Small but complete runs on the built-in model.

The fixtures `tiny` and `runs` carry the helpers: test folders are no packages and cannot import
each other.
"""

import fcntl
import gc
import os
import signal
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from json_lines import read_rows
from tiny_stack import tiny

from lora_evo.model import load_base_model
from selfplay.config import read_config
from selfplay.settings import assignment, put, read_preset
from selfplay.training import train
from selfplay_command import outcome

__all__ = ["tiny"]

NEEDS = {"test_export.py": "peft", "test_frames.py": "nbformat", "test_nano_benchmarks.py": "evals"}
collect_ignore = [file for file, package in NEEDS.items() if not find_spec(package)]

SMALL = (
    *("seed=1", "steps=3", "sandbox.workers=1", "sandbox.wall_s=60"),
    *("rollout.kinds=[code_o]", "rollout.proposals=2", "rollout.num_generations=3"),
    "rollout.seed_tasks=4",
    *("rollout.max_proposal_length=28", "rollout.max_completion_length=8"),
    *("learner.r=2", "learner.lora_alpha=4", "learner.target_modules=[q_proj, v_proj]"),
    *("evolution.evolve_every=2", "league.grace_matches=1", "evolution.mutate_rate=0.2"),
    *("eval.eval_every=2", "eval.tasks=2", "eval.samples=2"),
    *("eval.proposals=1", "eval.attempts=2", "eval.same_tasks=1"),
    "eval.held_out=[nano_code_o]",  # to read and hash them all takes as long as half a step
)
WHOLE = (
    *("steps=4", "rollout.kinds=[code_o, code_i, code_f]", "eval.tasks=6"),
    "eval.held_out=[nano_code_o, nano_code_i, nano_code_f]",
)


def small_config(*assignments):
    """The nano preset cut down to seconds, and any `a.b=value` on top."""
    data = read_preset("nano")
    for text in (*SMALL, *assignments):
        put(data, *assignment(text))
    return read_config(data)


def small_run(directory, *assignments):
    """Train a small run through, and return its directory."""
    train(small_config(*assignments), directory)
    return directory


def small_arguments(directory, *assignments):
    """The same run as arguments of the command."""
    flags = [part for a in (*SMALL, *assignments) for part in ("--set", a)]
    return ["train", "--out", str(directory), "--quiet", *flags]


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it


@pytest.fixture(scope="session")
def runs():
    return SimpleNamespace(
        config=small_config,
        train=small_run,
        arguments=small_arguments,
        rows=read_rows,
        outcome=outcome,
    )


@pytest.fixture(scope="session", autouse=True)
def _loaded():
    """What any run imports is loaded, and garbage is not looked for in it, as each run does."""
    load_base_model("nano", torch.device("cpu"), "float32")
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Runs that nothing stopped, by name, each made once by whichever test process is first."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent

    def run(name, *assignments):
        with (base / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not (base / name).exists():
                small_run(base / f"{name}.part", *assignments).rename(base / name)
        return base / name

    return run


@pytest.fixture(scope="session")
def whole(finished):
    """The small run with all kinds of tasks, of four steps with an evolution; never changed."""
    return finished("whole", *WHOLE)


@pytest.fixture(scope="session")
def brief(finished):
    """The small run as it is, of three steps, for equal ones to be compared with; never changed."""
    return finished("brief")
