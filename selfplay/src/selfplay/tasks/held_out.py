"""The held-out tasks of a run, and the sets of tasks that come with the package."""

import ast
import sys
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from code_verifier import CodeVerifierError, Task, measure, read_rows, strip_comments
from selfplay.errors import ConfigError
from selfplay.settings import one_of

DATA = Path(str(files("selfplay"))) / "data"
NANO_SETS = ("nano_code_f", "nano_code_i", "nano_code_o", "nano_long")
"""Sets of tasks on programs that no example of the pretraining of nano shows."""
EASY = "easy_code_o"
"""The set on one-line programs, which a small real model can learn to solve."""
SHIPPED = (*NANO_SETS, EASY)
HELD_OUT = "held_out"
"""Status of a task that equals a held-out one: no one solves it, and it is in no other number."""
Guard: TypeAlias = Mapping[Hashable, Sequence[Task]]
"""Held-out tasks by kind and input, for `equal_task`."""


def held_out_tasks(sources: Sequence[str | Task], count: int) -> list[Task]:
    """Return up to `count` tasks, spread evenly over the kinds and levels of the sources.

    A source is one of `SHIPPED`, a JSON Lines file of tasks from `selfplay tasks` (with an optional
    `level`), or a task. Raises ConfigError for any other.
    """
    are_shipped = all(source in SHIPPED for source in sources)
    groups: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for source in sources:
        for task, level in [(source, 0)] if isinstance(source, Task) else tasks_of(source):
            groups[task.kind, level].append(task)
    tasks: list[Task] = []
    share, more = divmod(count, len(groups) or 1)
    for place, (_, group) in enumerate(sorted(groups.items(), key=lambda pair: pair[0])):
        most = min(share + (place < more), len(group))
        spread = (group[i * len(group) // most] for i in range(most))
        tasks += spread if are_shipped else drawn_by_text(group, most)
    return tasks


def drawn_by_text(tasks: Sequence[Task], count: int) -> list[Task]:
    """Return so many of the tasks, in their order, by a hash of each, so that all runs draw alike.

    Every n-th would not do: the families of a file may come in turn.
    """
    order = sorted(range(len(tasks)), key=lambda place: tasks[place].with_id().id)
    return [tasks[place] for place in sorted(order[:count])]


def guard_of(sources: Sequence[str | Task]) -> Guard:
    """Return all tasks of the sources, those too that no evaluation asks."""
    guard = defaultdict[Hashable, list[Task]](list)
    for task in held_out_tasks(sources, sys.maxsize):
        guard[_call(task)].append(task)
    return dict(guard)


def equal_task(task: Task, guard: Guard) -> Task | None:
    """Return the held-out task that equals this one; None if none does.

    Equal are kind, input or inputs, and the program but for layout, comments and its own names.
    """
    candidates = guard.get(_call(task), ())
    return next((t for t in candidates if _bare(t.program) == _bare(task.program)), None)


def _call(task: Task) -> Hashable:
    return task.kind, *map(_in_one_layout, task.inputs or [task.input or ""])


@lru_cache(4096)
def _in_one_layout(arguments: str) -> str:
    try:
        return ast.unparse(ast.parse(f"f({arguments})", mode="eval"))
    except (SyntaxError, ValueError, RecursionError):  # the text of a user's own kind
        return arguments


@lru_cache(4096)
def _bare(program: str) -> Hashable:
    """Return a program without layout, comments and its own names."""
    try:
        structure = measure(program).structure
        nodes = ast.walk(ast.parse(strip_comments(program)))
    except CodeVerifierError:  # the text of a user's own kind
        return program
    # A structure has no values of constants, and no minus signs before them.
    values = [repr(n.value) if isinstance(n, ast.Constant) else type(n).__name__ for n in nodes]
    return structure, *values


def tasks_of(source: str) -> list[tuple[Task, int]]:
    """Return all tasks of a source of `held_out_tasks`, one of `SHIPPED` or a file, with levels.

    Level 1 is the easiest, 0 is unknown.
    """
    path = DATA / f"{source}.jsonl" if source in SHIPPED else Path(source)
    if not path.is_file():
        expected = one_of(source, SHIPPED)
        raise ConfigError(
            f"eval.held_out: {source!r} is neither a set of held-out tasks nor a file; {expected}"
        )
    tasks = []
    try:
        for number, row in read_rows(path):
            try:
                task = Task.from_row(row, complete=True)
                named = task if task.id else replace(task, id=f"{path.name}/{number}")
                tasks.append((named, int(row.get("level", 0))))
            except (ValueError, TypeError, OverflowError) as error:
                raise ConfigError(f"{path}, line {number}: not a task: {error}") from error
    except CodeVerifierError as error:
        raise ConfigError(str(error)) from error
    return tasks
