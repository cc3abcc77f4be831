"""Write the tasks that selfplay ships: held-out tasks by kind and level, and seed tasks.

    python tools/nano/write_tasks.py DIR

A program is held out by the hash of its text (`nano_language.HELD_OUT_SHARE`), so no example of
pretraining shows it, in any role.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import click

from code_verifier import Sandbox, Task
from lora_evo.model import derive_seed
from nano_corpus import task_of
from nano_labels import LabelledProgram, label, labelling_sandbox
from nano_language import LEVELS, LONG, Program, random_program
from selfplay.tasks.nano import END
from selfplay.tasks.template import NANO

HELD_OUT_SEED, PER_LEVEL = 20260516, 100
SEED_RUNS, SEED_COUNT = 32, 64
"""Seed tasks are written for runs of so many seeds, so many each."""
KINDS = ("code_o", "code_i", "code_f")
LONGEST_TAUGHT = 16
"""Lines of the longest program of level 4; long programs have more."""


def held_out_programs(seed: int, per_level: int, sandbox: Sandbox) -> list[LabelledProgram]:
    """Return distinct held-out programs, `per_level` of each level, easiest level first.

    Level 1 has fewer distinct held-out texts than that; its programs then come with other inputs.
    """
    rng = Random(f"{seed}/held-out")
    by_level: dict[int, list[LabelledProgram]] = {level: [] for level in LEVELS}
    uses: Counter[str] = Counter()

    def candidates() -> Iterator[Program]:
        while any(len(rows) < per_level for rows in by_level.values()):
            for level in LEVELS:
                program = random_program(rng, level)
                if program.held_out and len(by_level[level]) < per_level:
                    yield program

    for labelled in label(candidates(), sandbox):
        program = labelled.program
        limit = per_level // 20 + 1 if program.level == 1 else 1
        if len(by_level[program.level]) < per_level and uses[program.text] < limit:
            uses[program.text] += 1
            by_level[program.level].append(labelled)
    return [row for level in LEVELS for row in by_level[level]]


def held_out_tasks(
    seed: int, per_level: int, sandbox: Sandbox
) -> dict[str, list[tuple[int, Task]]]:
    """Return per kind the held-out tasks with their level, `per_level` of each."""
    programs = held_out_programs(seed, per_level, sandbox)
    rng = Random(f"{seed}/held-out-inputs")
    return {kind: _tasks(programs, kind, f"nano_{kind}", rng) for kind in KINDS}


def long_tasks(seed: int, per_kind: int, sandbox: Sandbox) -> list[tuple[int, Task]]:
    """Return tasks on programs longer than any of pretraining, `per_kind` of each kind."""
    rng = Random(f"{seed}/long")
    programs_of_any_length = (random_program(rng, LONG) for _ in iter(int, 1))
    candidates = (p for p in programs_of_any_length if p.text.count("\n") >= LONGEST_TAUGHT)
    programs = list(islice(label(candidates, sandbox), per_kind))
    return [row for kind in KINDS for row in _tasks(programs, kind, f"nano_long/{kind}", rng)]


def _tasks(
    programs: list[LabelledProgram], kind: str, name: str, rng: Random
) -> list[tuple[int, Task]]:
    rows = [(p.program.level, task_of(p, kind, rng.choice(p.runs))) for p in programs]
    return [(level, replace(task, id=f"{name}/{i}")) for i, (level, task) in enumerate(rows)]


def seed_rows(seed: int, count: int, sandbox: Sandbox) -> Iterator[dict[str, str]]:
    """Yield the seed tasks of a run: random code_o tasks of levels 1 and 2, none held out.

    Each comes with a worked solution, the careful way to its answer.
    """
    rng = Random(derive_seed(seed, "seed-tasks"))
    programs = (random_program(rng, rng.choice((1, 2))) for _ in iter(int, 1))
    usable = label((p for p in programs if not p.held_out), sandbox)
    for labelled in islice(usable, count):
        run = rng.choice(labelled.runs)
        task = task_of(labelled, "code_o", run)
        solution = "".join(run.trace) + f"<|answer|>{run.output}{END}"
        yield {
            "kind": task.kind,
            "program": task.program,
            "input": run.input,
            "output": run.output,
            "solution": solution,
        }


def held_out_row(level: int, task: Task) -> dict[str, object]:
    """Return a row of a held-out file: the task with its level and its prompt."""
    columns = {k: v for k, v in task.to_row().items() if v not in (None, "", [], 0)}
    first = {"id": task.id, "kind": task.kind, "level": level, "prompt": NANO.solve_prompt(task)}
    return first | columns


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def main(directory: Path) -> None:
    """Write nano_code_o, nano_code_i, nano_code_f, nano_long and seed_tasks (.jsonl)."""
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[dict[str, object]]] = {}
    with labelling_sandbox() as sandbox:
        held_out = {
            f"nano_{kind}": tasks
            for kind, tasks in held_out_tasks(HELD_OUT_SEED, PER_LEVEL, sandbox).items()
        }
        held_out["nano_long"] = long_tasks(HELD_OUT_SEED, PER_LEVEL, sandbox)
        files = {name: [held_out_row(*row) for row in rows] for name, rows in held_out.items()}
        files["seed_tasks"] = [
            {**row} for seed in range(SEED_RUNS) for row in seed_rows(seed, SEED_COUNT, sandbox)
        ]
    for name, rows in files.items():
        path = directory / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        click.echo(path)


if __name__ == "__main__":
    main()
