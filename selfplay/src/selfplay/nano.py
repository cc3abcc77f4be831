"""What comes with the built-in nano model: its weights, its held-out tasks and its seed tasks.

The files are written by `tools/nano`, which also holds the generator and the pretraining.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from code_verifier import Task
from selfplay.errors import ConfigError

DATA = Path(str(files("selfplay"))) / "data"
WEIGHTS = DATA / "nano"
"""The directory of the model: config, tokenizer, safetensors and card."""
HELD_OUT = ("nano_code_f", "nano_code_i", "nano_code_o", "nano_long")
"""Sets of tasks on programs that no example of the pretraining shows."""
SEED_RUNS = 32
"""Runs of so many seeds start from seed tasks of their own."""


def held_out_tasks(name: str) -> list[tuple[int, Task]]:
    """Return the tasks of one of `HELD_OUT`, each with its level; 1 is the easiest."""
    return [(row["level"], Task.from_row(row, complete=True)) for row in _rows(name)]


def seed_tasks(count: int, seed: int) -> list[Task]:
    """Return code_o tasks on easy programs: the first references of a run of this seed.

    The file holds a block for each of `SEED_RUNS` seeds; a run reads on from the start of its own.
    Raises ConfigError when it asks for more tasks than there are.
    """
    rows = list(_rows("seed_tasks"))
    if count > len(rows):
        raise ConfigError(f"rollout.seed_tasks is {count}; expected at most {len(rows)}")
    start = seed % SEED_RUNS * (len(rows) // SEED_RUNS)
    chosen = [rows[(start + i) % len(rows)] for i in range(count)]
    return [
        Task.from_row({**row, "id": f"seed-{i}"}, complete=True) for i, row in enumerate(chosen)
    ]


def worked_solutions() -> list[tuple[Task, str]]:
    """Return easy code_o tasks, each with a completion that works out its answer step by step.

    No two tasks share a program.
    """
    found: dict[str, tuple[Task, str]] = {}
    for row in _rows("seed_tasks"):
        task = Task.from_row({**row, "id": f"worked-{len(found)}"}, complete=True)
        found.setdefault(row["program"], (task, row["solution"]))
    return list(found.values())


@cache
def _text(name: str) -> str:
    return (DATA / f"{name}.jsonl").read_text(encoding="utf-8")


def _rows(name: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, _text(name).splitlines())
