"""Tasks that a small language model can learn: the output of one-line programs.

    python benchmarks/small_model/easy_tasks.py FILE

Writes the held-out tasks `easy_code_o` that selfplay ships: eight of each of `FAMILIES`, family by
family. `learning.py` trains on others of the same families.
"""

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from code_verifier import Proposal, Sandbox
from lora_evo.files import write_text
from lora_evo.model import derive_seed, stream
from selfplay.tasks.held_out import EASY

SEED, EACH = 20260523, 8
"""Of the shipped set: its seed, and its tasks of a family."""
WORDS = [
    "arm", "bear", "bed", "bird", "boat", "book", "box", "bus", "cake", "cat", "chair", "cloud",
    "cow", "cup", "desk", "dog", "door", "duck", "egg", "farm", "fish", "fork", "frog", "gate",
    "hat", "hill", "horse", "house", "key", "lamp", "leaf", "milk", "moon", "nest", "pen", "pig",
    "rain", "ring", "road", "rose", "ship", "shoe", "star", "tree",
]  # fmt: skip
INPUTS: dict[str, Callable[[np.random.Generator], str]] = {
    "a": lambda rng: str(rng.integers(1, 30)),
    "xs": lambda rng: str(rng.integers(0, 10, rng.integers(2, 5)).tolist()),
    "s": lambda rng: repr(str(rng.choice(WORDS))),
}
"""Makes an input for a parameter: a number below 30, two to four digits, or a word."""
FAMILIES = (
    ("a", "a"),
    ("a", "{k}"),
    ("xs", "xs[0]"),
    ("xs", "xs[-1]"),
    ("xs", "len(xs)"),
    ("a", "a + {k}"),
    ("a", "a * {k}"),
    ("xs", "max(xs)"),
    ("xs", "xs[::-1]"),
    ("xs", "xs + [{k}]"),
    ("a", "a > {k}"),
    ("s", "s.upper()"),
)
"""The parameter and what is returned; k is a number from 2 to 9."""


def draw(family: int, seed: int, apart: Collection[Proposal] = ()) -> Proposal:
    """Return a task of a family that is not among those set apart."""
    rng = stream(seed)
    parameter, returned = FAMILIES[family]
    while True:
        expression = returned.format(k=rng.integers(2, 10))
        program = f"def f({parameter}):\n    return {expression}"
        task = Proposal("code_o", program, INPUTS[parameter](rng))
        if task not in apart:
            return task


def held_out() -> list[Proposal]:
    """Return the tasks of the shipped set, without their outputs."""
    tasks: list[Proposal] = []
    for family in range(len(FAMILIES)):
        for i in range(EACH):
            tasks.append(draw(family, derive_seed(SEED, family, i), tasks))
    return tasks


def main() -> None:
    """Run the programs and write the tasks."""
    rows = []
    with Sandbox(workers=1) as sandbox:
        for number, verdict in enumerate(sandbox.validate_many(held_out())):
            assert verdict.task is not None, verdict.reason
            task = verdict.task
            row = {"id": f"{EASY}/{number}", "kind": task.kind, "program": task.program}
            rows.append(row | {"input": task.input, "output": task.output})
    write_text(Path(sys.argv[1]), "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
