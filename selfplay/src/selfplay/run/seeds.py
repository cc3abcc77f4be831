"""The tasks a run starts from, before its teachers have written any."""

from dataclasses import replace
from random import Random

from code_verifier import Task
from evals.engine.streams import derive_seed
from selfplay.nano.examples import task_of
from selfplay.nano.labels import label, labelling_sandbox
from selfplay.nano.programs import random_program

IDENTITY = Task(
    kind="code_o", program="def f(a):\n    return a", input="'Hello world'", output="'Hello world'"
)
"""AZR's only seed: the identity function."""


def seed_tasks(template: str, count: int, seed: int) -> list[Task]:
    """Return the first references: random programs of levels 1 and 2 for nano, or the identity."""
    if template != "nano":
        return [IDENTITY]
    rng = Random(derive_seed(seed, "seed-tasks"))
    programs = (random_program(rng, rng.choice((1, 2))) for _ in iter(int, 1))
    tasks: list[Task] = []
    with labelling_sandbox() as sandbox:
        for labelled in label((p for p in programs if not p.held_out), sandbox):
            task = task_of(labelled, "code_o", rng.choice(labelled.runs))
            tasks.append(replace(task, id=f"seed-{len(tasks)}"))
            if len(tasks) == count:
                break
    return tasks
