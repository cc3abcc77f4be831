"""The held-out tasks of a run: chosen once, the same for every run of the same settings."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from code_verifier import CodeVerifierError, Task
from evals import BENCHMARKS, load_benchmark
from selfplay.errors import ConfigError

_TASK_BENCHMARKS = tuple(name for name in BENCHMARKS if name.startswith("nano_"))
"""Those whose problems are tasks of our three kinds."""


@dataclass(frozen=True)
class HeldOutTask:
    """A task that no teacher writes; level 1 is the easiest, 0 means that none is known."""

    task: Task
    level: int


def held_out_tasks(sources: tuple[str, ...], count: int) -> list[HeldOutTask]:
    """Return up to `count` tasks, spread evenly over the kinds and levels that the sources have.

    A source is the name of an `evals` benchmark made of tasks, or a JSON Lines file of tasks as
    `selfplay tasks` writes it (with an optional `level`). Raises ConfigError for any other.
    """
    strata: dict[tuple[str, int], list[HeldOutTask]] = defaultdict(list)
    for source in sources:
        for held_out in _read(source):
            strata[held_out.task.kind, held_out.level].append(held_out)
    if not strata:
        return []
    share = count // len(strata)
    more = count - share * len(strata)
    return [
        task
        for i, key in enumerate(sorted(strata))
        for task in _spread(strata[key], share + (i < more))
    ]


def require_room(tasks: Iterable[HeldOutTask], excess: Callable[[Task], str]) -> None:
    """Raise ConfigError for a task that does not fit; excess: says why, empty where it fits."""
    for held_out in tasks:
        reason = excess(held_out.task)
        if reason:
            raise ConfigError(
                f"yardstick.held_out: {held_out.task.id}: {reason}; leave the task out, or raise "
                "rollout.max_prompt_length"
            )


def _spread(tasks: list[HeldOutTask], count: int) -> list[HeldOutTask]:
    if count >= len(tasks):
        return tasks
    return [tasks[i * len(tasks) // count] for i in range(count)]


def _of_benchmark(name: str) -> list[HeldOutTask]:
    if name not in _TASK_BENCHMARKS:
        raise ConfigError(
            f"yardstick.held_out: {name} has no tasks of code_o, code_i or code_f; expected one of "
            f"{', '.join(_TASK_BENCHMARKS)}, or a file of tasks"
        )
    return [HeldOutTask(q.problem, q.level) for q in load_benchmark(name).questions]


def _read(source: str) -> list[HeldOutTask]:
    if source in BENCHMARKS:
        return _of_benchmark(source)
    path = Path(source)
    if not path.is_file():
        close = get_close_matches(source, _TASK_BENCHMARKS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(_TASK_BENCHMARKS)}"
        raise ConfigError(
            f"yardstick.held_out: {source!r} is neither a benchmark nor a file of tasks; {hint}"
        )
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = {"id": f"{path.name}/{number}", **json.loads(line)}
            task, level = Task.from_row(row, complete=True), int(row.get("level", 0))
        except (ValueError, TypeError, CodeVerifierError) as error:
            raise ConfigError(f"{path}, line {number}: not a task: {error}") from error
        found.append(HeldOutTask(task, level))
    return found
