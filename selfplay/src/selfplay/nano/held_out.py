"""Held-out tasks of the nano language, by kind and level: what measures and benchmarks use.

A program is held out by the hash of its text (`programs.HELD_OUT_SHARE`), so no example of
pretraining shows it, in any role.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

from code_verifier import Sandbox, Task
from selfplay.nano.examples import task_of
from selfplay.nano.labels import LabelledProgram, label
from selfplay.nano.programs import LEVELS, LONG, Program, random_program

KINDS = ("code_o", "code_i", "code_f")
LONGEST_TAUGHT = 16
"""Lines of the longest program of level 4; long programs have more."""


def held_out_programs(seed: int, per_level: int, sandbox: Sandbox) -> list[LabelledProgram]:
    """Return distinct held-out programs, `per_level` of each level, easiest level first.

    Level 1 has fewer distinct held-out texts than that; its programs then come with other inputs.
    """
    rng = Random(f"{seed}/held-out")
    kept: dict[int, list[LabelledProgram]] = {level: [] for level in LEVELS}
    uses: Counter[str] = Counter()

    def candidates() -> Iterator[Program]:
        while any(len(rows) < per_level for rows in kept.values()):
            for level in LEVELS:
                program = random_program(rng, level)
                if program.held_out and len(kept[level]) < per_level:
                    yield program

    for labelled in label(candidates(), sandbox):
        program = labelled.program
        limit = per_level // 20 + 1 if program.level == 1 else 1
        if len(kept[program.level]) < per_level and uses[program.text] < limit:
            uses[program.text] += 1
            kept[program.level].append(labelled)
    return [row for level in LEVELS for row in kept[level]]


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
