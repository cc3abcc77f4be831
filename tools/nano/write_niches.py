"""Write the tasks of the world of niches that selfplay ships: held-out tasks and seed tasks.

    python tools/nano/write_niches.py DIR

Programs of depths 3 and 4 are in no example of pretraining; there are too few of depths 1 and 2,
which are next to the tables themselves. Ids are `niches/FAMILY/DEPTH/NUMBER`.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import click

from code_verifier import Proposal, Sandbox, Task
from niches_corpus import is_held_out, random_task
from selfplay.prompts.niches import DEPTHS, FAMILIES, KINDS
from selfplay.prompts.template import NICHES
from selfplay.tasks import SEED_RUNS

HELD_OUT_SEED, PER_DEPTH = 20260601, 12
SEED_COUNT = 64


def held_out_tasks(seed: int, per_depth: int) -> list[Task]:
    """Return different held-out tasks, `per_depth` of each depth and family, families in turn."""
    rng = Random(f"{seed}/niches/held-out")
    found: list[Task] = []
    for depth in DEPTHS:
        for number in range(per_depth):
            for family in FAMILIES:
                seen = {(t.program, t.input) for t in found}
                while True:
                    task, _ = random_task(rng, family, depth)
                    new = (task.program, task.input) not in seen
                    if new and (depth < 3 or is_held_out(task.program)):
                        break
                found.append(replace(task, id=f"niches/{family}/{depth}/{number}"))
    return found


def seed_tasks(seed: int, count: int, sandbox: Sandbox) -> list[Task]:
    """Return the seeds of a run: the families in turn, any depth, judged; none is a trap."""
    rng = Random(f"{seed}/niches/seeds")
    found: list[Task] = []
    while len(found) < count:
        family = FAMILIES[len(found) % len(FAMILIES)]
        task, _ = random_task(rng, family, rng.choice(DEPTHS))
        if not is_held_out(task.program):
            proposal = Proposal("code_o", task.program, task.input)
            verdict = KINDS[0].validate(proposal, sandbox)
            if verdict.task is None:
                raise click.ClickException(f"{task.program!r}: {verdict.reason}")
            found.append(verdict.task)
    return found


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def main(directory: Path) -> None:
    """Write nano_niches and niches_seeds (.jsonl)."""
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
            for seed in range(SEED_RUNS)
            for t in seed_tasks(seed, SEED_COUNT, sandbox)
        ]
    for name, rows in {"nano_niches": held_out, "niches_seeds": seeds}.items():
        path = directory / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        click.echo(path)


if __name__ == "__main__":
    main()
