"""Write the tasks of the world of niches: held-out tasks, and those that runs start from.

    PYTHONPATH=tools/nano python -m studies.collapse.write_tasks DIR

Programs of depths 3 and 4 are in no example of pretraining; there are too few of depths 1 and 2,
which are next to the tables themselves. Ids are `niches/FAMILY/DEPTH/NUMBER`.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import click
from studies.collapse.corpus import is_held_out, random_task
from studies.collapse.niches import DEPTHS, FAMILIES, NICHES

from code_verifier import Proposal, Sandbox, Task

HELD_OUT_SEED, PER_DEPTH = 20260601, 12
SEED_BLOCKS, SEED_COUNT = 8, 64
"""Blocks of seed tasks, and tasks of each, even over families."""


def held_out_tasks(seed: int, per_depth: int) -> list[Task]:
    """Return different held-out tasks, `per_depth` of each depth and family, families in turn."""
    rng = Random(f"{seed}/niches/held-out")
    tasks: list[Task] = []
    for depth in DEPTHS:
        for number in range(per_depth):
            for family in FAMILIES:
                pairs = {(t.program, t.input) for t in tasks}
                while True:
                    task, _ = random_task(rng, family, depth)
                    new = (task.program, task.input) not in pairs
                    if new and (depth < 3 or is_held_out(task.program)):
                        break
                tasks.append(replace(task, id=f"niches/{family}/{depth}/{number}"))
    return tasks


def seed_tasks(seed: int, count: int, sandbox: Sandbox) -> list[Task]:
    """Return a block of seeds: the families in turn, any depth, judged; none is a trap."""
    rng = Random(f"{seed}/niches/seeds")
    tasks: list[Task] = []
    while len(tasks) < count:
        family = FAMILIES[len(tasks) % len(FAMILIES)]
        task, _ = random_task(rng, family, rng.choice(DEPTHS))
        if not is_held_out(task.program):
            proposal = Proposal("code_o", task.program, task.input)
            verdict = NICHES.validate(proposal, sandbox)
            if verdict.task is None:
                raise click.ClickException(f"{task.program!r}: {verdict.reason}")
            tasks.append(verdict.task)
    return tasks


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def main(directory: Path) -> None:
    """Write held_out.jsonl and seeds.jsonl."""
    directory.mkdir(parents=True, exist_ok=True)
    held_out = [
        {
            "id": task.id,
            "kind": task.kind,
            "level": int(task.id.split("/")[2]),
            "prompt": NICHES.solve_prompt(task),
            "program": task.program,
            "input": task.input,
            "output": task.output,
        }
        for task in held_out_tasks(HELD_OUT_SEED, PER_DEPTH)
    ]
    with Sandbox() as sandbox:
        seeds = [
            {"kind": t.kind, "program": t.program, "input": t.input, "output": t.output}
            for seed in range(SEED_BLOCKS)
            for t in seed_tasks(seed, SEED_COUNT, sandbox)
        ]
    for name, rows in {"held_out": held_out, "seeds": seeds}.items():
        path = directory / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        click.echo(path)


if __name__ == "__main__":
    main()
