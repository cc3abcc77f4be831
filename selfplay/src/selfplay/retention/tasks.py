"""The fixed tasks of a retention experiment: some to practise on, others to be measured on."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from code_verifier import CodeVerifierError, Task
from evals.engine.streams import derive_seed
from selfplay.errors import SelfplayError
from selfplay.nano.examples import Example, example, task_of
from selfplay.nano.labels import LabelledProgram, label, labelling_sandbox
from selfplay.nano.programs import random_program

NANO_LEVELS = (1, 1, 2)
"""Difficulties of nano programs that tasks are drawn from, each as often as it stands here."""

NANO_TOKENS = 112
"""Longest attempt at them: thoughts take up to 90 tokens, and a ruined adapter rambles on."""


@dataclass(frozen=True)
class FixedTasks:
    """Two sets of tasks that share no program."""

    practice: tuple[Task, ...]
    held_out: tuple[Task, ...]


def nano_programs(count: int, seed: int) -> list[LabelledProgram]:
    """Different random programs of the nano language with their runs."""
    rng = Random(derive_seed(seed, "retention-programs"))
    found: dict[str, LabelledProgram] = {}
    programs = (random_program(rng, rng.choice(NANO_LEVELS)) for _ in iter(int, 1))
    with labelling_sandbox() as sandbox:
        for labelled in label(programs, sandbox):
            found.setdefault(labelled.program.text, labelled)
            if len(found) == count:
                break
    return list(found.values())


def nano_tasks(programs: list[LabelledProgram], held_out: int, seed: int) -> FixedTasks:
    """One code_o task from each program; the first `held_out` programs are for measuring."""
    rng = Random(derive_seed(seed, "retention-inputs"))
    tasks = [
        replace(task_of(p, "code_o", rng.choice(p.runs)), id=f"retention-{i}")
        for i, p in enumerate(programs)
    ]
    return FixedTasks(tuple(tasks[held_out:]), tuple(tasks[:held_out]))


def nano_examples(programs: list[LabelledProgram], count: int, seed: int) -> list[Example]:
    """Worked solutions of these programs, as the nano model was pretrained on."""
    rng = Random(seed)
    picked = [rng.choice(programs) for _ in range(count)]
    return [example("solve_o", program, program, rng) for program in picked]


def read_tasks(path: Path, held_out: int) -> FixedTasks:
    """Tasks from JSON Lines, as `selfplay tasks` writes them; the first programs are held out."""
    tasks: list[Task] = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            tasks.append(Task.from_row(json.loads(line) | {"id": f"{number}"}, complete=True))
    except (OSError, ValueError, TypeError, CodeVerifierError) as error:
        raise SelfplayError(
            f"cannot read tasks from {path}: {error}; expected JSON Lines as `selfplay tasks` "
            "writes them"
        ) from error
    programs = list(dict.fromkeys(task.program for task in tasks))
    apart = set(programs[:held_out])
    practice = tuple(task for task in tasks if task.program not in apart)
    if not practice:
        raise SelfplayError(
            f"{path} has {len(programs)} different programs, {held_out} are held out; expected "
            "more, so that some are left to practise on"
        )
    return FixedTasks(practice, tuple(task for task in tasks if task.program in apart))
