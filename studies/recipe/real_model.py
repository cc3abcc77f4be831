"""A real model's runs: the tasks that they start from, and what is kept of each.

    python -m studies.recipe.real_model FILE

Writes the tasks, `real_seeds.jsonl`: eight of the twelve families of one-line programs that
`easy_code_o` is of, the held-out set that selfplay ships, twelve tasks each. The other four are in
no seed and no supervised step: they show whether a student learns more than it was shown.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from studies.collapse.measures import tasks_in_bins

from code_verifier import Proposal, Sandbox
from lora_evo.files import write_text
from lora_evo.model import derive_seed, stream
from selfplay import RunRecord, read_run
from selfplay.files.rows import START

SEED, EACH = 20261126, 12
"""Of the tasks that are written: their seed, and how many a family has."""
OF_FAMILY = 8
"""Held-out tasks of a family; they stand family by family."""
FAMILIES: Mapping[str, str] = {
    "a": "a", "{k}": "a", "xs[0]": "xs", "xs[-1]": "xs", "len(xs)": "xs", "a + {k}": "a",
    "a * {k}": "a", "max(xs)": "xs", "xs[::-1]": "xs", "xs + [{k}]": "xs", "a > {k}": "a",
    "s.upper()": "s",
}  # fmt: skip
"""What a program returns, and its parameter, in the order of the held-out tasks; k is a digit."""
UNSEEN = ("xs[-1]", "a * {k}", "max(xs)", "a > {k}")
"""The families that no task of the start is of."""
BIN = 10
"""Steps of a point of a curve."""
WORDS = ("ant", "bell", "coat", "drum", "ear", "flag", "goat", "ink", "jar", "kite", "leg", "mat")
"""None of them is in a held-out task."""


def first_tasks() -> list[Proposal]:
    """Return the tasks that runs start from, family by family; none of them is held out."""
    tasks: dict[tuple[str, str], Proposal] = {}
    for family, parameter in FAMILIES.items():
        rng = stream(derive_seed(SEED, family))
        end = len(tasks) + EACH * (family not in UNSEEN)
        while len(tasks) < end:
            program = f"def f({parameter}):\n    return {family.format(k=rng.integers(2, 10))}"
            numbers = rng.integers(0, 10, rng.integers(5, 7)).tolist()
            value = {"a": rng.integers(30, 100), "xs": numbers, "s": repr(str(rng.choice(WORDS)))}
            task = Proposal("code_o", program, str(value[parameter]))
            tasks.setdefault((task.program, task.input), task)
    return list(tasks.values())


def write_tasks(path: Path) -> None:
    """Write the tasks with their outputs, as `selfplay sft` and `rollout.seed_file` read them."""
    with Sandbox(workers=1) as sandbox:
        tasks = [verdict.task for verdict in sandbox.validate_many(first_tasks())]
    rows = [{"snippet": t.program, "input": t.input, "output": t.output} for t in tasks if t]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def family_of(program: str) -> str:
    """Return the family of a task's program; "other" for programs of none."""
    returned = re.fullmatch(r"def \w+\((\w+)\):\n\s+return (.+?)\s*", program)
    if returned is None:
        return "other"
    parameter, expression = returned.groups()
    for family, name in FAMILIES.items():
        pattern = re.escape(family).replace(re.escape("{k}"), r"\d+")
        if re.fullmatch(pattern, re.sub(rf"\b{parameter}\b", name, expression)):
            return family
    return "other"


def measured(directory: Path) -> dict[str, Any]:
    """Return what is kept of a run.

    base and rates: solve rates on held-out tasks by family, of what all members started from, and
    by step and solver. wrote: see `what_teachers_wrote`.
    """
    run = read_run(directory)
    _, rates = run.held_out_rates()
    start = rates[0][START]

    def by_family(of_tasks: Any) -> list[float]:
        return [round(float(np.nanmean(eight)), 4) for eight in np.split(of_tasks, len(FAMILIES))]

    return {
        "base": by_family(start),
        "rates": {
            step: {name: by_family(rate) for name, rate in of.items() if name != START}
            for step, of in rates.items()
            if step
        },
        "wrote": what_teachers_wrote(run),
    }


def what_teachers_wrote(run: RunRecord) -> dict[int, dict[str, Any]]:
    """Return by the last of every `BIN` steps what teachers proposed in them.

    valid: a share; of the valid ones repeated, whose program was there before, and flat, which all
    attempts or none solve, are shares, and families their counts.
    """
    wrote = {}
    for at, rows in tasks_in_bins(run, BIN).items():
        valid = [row for row in rows if row.accepted]
        count = max(1, len(valid))
        wrote[at] = {
            "valid": round(len(valid) / len(rows), 3),
            "repeated": round(1 - len({row.program for row in valid}) / count, 3),
            "flat": round(sum(row.solve_rate in (0.0, 1.0) for row in valid) / count, 3),
            "families": dict(Counter(family_of(row.program or "") for row in valid)),
        }
    return wrote


def unseen_gain(row: Mapping[str, Any]) -> float:
    """Return the students' mean gain over the start at the end, on unseen families, in points."""
    last = np.mean([*[*row["rates"].values()][-1].values()], axis=0) - np.array(row["base"])
    return float(100 * np.mean([last[i] for i, name in enumerate(FAMILIES) if name in UNSEEN]))


def late(name: str) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that gives what teachers wrote last, in per cent."""
    return lambda row: 100 * [*row["wrote"].values()][-1][name]


def commonest(row: Mapping[str, Any]) -> float:
    """Return the share of the family that teachers wrote most of, at last, in per cent.

    Programs of no family, `other`, are no family of their own.
    """
    families = [*row["wrote"].values()][-1]["families"]
    named = [count for name, count in families.items() if name != "other"]
    return 100 * max(named, default=0) / max(1, sum(families.values()))


MEASURES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "unseen families": unseen_gain,
    "valid, %": late("valid"),
    "repeated, %": late("repeated"),
    "flat, %": late("flat"),
    "commonest family, %": commonest,
}
"""What a table has of a run, behind the gains of `study.MEASURES`."""


if __name__ == "__main__":
    write_tasks(Path(sys.argv[1]))
