"""The tasks of a run: its seeds, the buffer of accepted tasks, and the held-out tasks."""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from numpy.random import Generator

from code_verifier import CodeVerifierError, Task
from lora_evo.model import stream
from selfplay.errors import ConfigError
from selfplay.settings import one_of
from selfplay.tasks.kind import CALLS

DATA = Path(str(files("selfplay"))) / "data"
NANO_SETS = ("nano_code_f", "nano_code_i", "nano_code_o", "nano_long")
"""Sets of tasks on programs that no example of the pretraining of nano shows."""
EASY = "easy_code_o"
"""The set on one-line programs, which a small real model can learn to solve."""
SEED_RUNS = 32
"""Number of run seeds with different seed tasks."""
IDENTITY = Task(
    kind="code_o", program="def f(a):\n    return a", input="'Hello world'", output="'Hello world'"
)
"""AZR's only seed: the identity function."""


def seed_tasks(template: str, count: int, seed: int) -> list[Task]:
    """Return the template's seed tasks: for nano, code_o tasks on easy programs.

    Their file has a block for each of `SEED_RUNS` seeds; a run reads from the start of its block.
    Other templates have only the identity function. Raises ConfigError if `count` is larger than
    the number of tasks.
    """
    if template != "nano" and count > 1:
        raise ConfigError(
            f"rollout.seed_tasks is {count}, and template {template} has one, the identity "
            "function; name more as rollout.seed_file, let the base write them with "
            "rollout.self_seed=true, or set rollout.seed_tasks=1"
        )
    if template != "nano":
        return [IDENTITY]
    rows = list(_rows("seed_tasks"))
    if count > len(rows):
        raise ConfigError(f"rollout.seed_tasks is {count}; expected at most {len(rows)}")
    start = seed % SEED_RUNS * (len(rows) // SEED_RUNS)
    chosen = [rows[(start + i) % len(rows)] for i in range(count)]
    return [
        Task.from_row({**row, "id": f"seed-{i}"}, complete=True) for i, row in enumerate(chosen)
    ]


class TaskBuffer:
    """The accepted tasks of a run without duplicates, newest last.

    Tasks of code_o and code_i share a pool of `size` tasks; each other kind has its own pool.
    """

    def __init__(
        self, size: int, tasks: Iterable[Task] = (), keeps: Literal["newest", "oldest"] = "newest"
    ) -> None:
        self._size, self._keeps = size, keeps
        self._pools: dict[tuple[str, ...], deque[Task]] = {}
        self._steps: dict[Hashable, int] = {}
        """Step of each task."""
        self._seeds: list[Task] = []
        for task in tasks:
            self.add(task)
            self._seeds.append(task)

    def _pool(self, kind: str) -> deque[Task]:
        return self._pools.setdefault(CALLS if kind in CALLS else (kind,), deque())

    def add(self, task: Task, step: int = 0) -> bool:
        """Add a task of this step; return False for a duplicate, or if the buffer is full."""
        pool = self._pool(task.kind)
        full = len(pool) == self._size
        if _key(task) in self._steps or (full and self._keeps == "oldest"):
            return False
        if full:
            del self._steps[_key(pool.popleft())]
        self._steps[_key(task)] = step
        pool.append(task)
        return True

    def draw(
        self, count: int, seed: int, seed_share: float = 0.0, shows: Sequence[str] = CALLS
    ) -> list[Task]:
        """Return up to `count` different tasks of these kinds, drawn by the seed.

        With probability `seed_share` they are drawn from the tasks that the run started from.
        """
        rng = stream(seed)
        seeds = [task for task in self._seeds if task.kind in shows]
        of_seeds = bool(seeds) and seed_share > 0.0 and rng.random() < seed_share
        accepted = [t for p in self._pools.values() for t in p if t.kind in shows]
        return drawn_from(seeds if of_seeds else accepted, count, rng)

    def draw_newest(self, kind: str, count: int, step: int, seed: int) -> list[Task]:
        """Return up to `count` different tasks of a kind: those of the last step, then older ones.

        The run's seeds count for both code_o and code_i.
        """
        pool = self._pool(kind)
        fitting = [t for t in pool if t.kind == kind or self._steps[_key(t)] == 0]
        newest = [t for t in fitting if self._steps[_key(t)] == step - 1]
        others = [t for t in fitting if self._steps[_key(t)] != step - 1]
        rng = stream(seed)
        drawn = [
            group[int(i)]
            for group, room in ((newest, count), (others, count - len(newest)))
            for i in rng.permutation(len(group))[: max(room, 0)]
        ]
        return [t if t.kind == kind else replace(t, kind=kind) for t in drawn]


def drawn_from(tasks: Sequence[Task], most: int, rng: Generator) -> list[Task]:
    """Return up to `most` of the tasks, drawn without replacement."""
    places = rng.choice(len(tasks), min(most, len(tasks)), replace=False)
    return [tasks[int(i)] for i in places]


def _key(task: Task) -> Hashable:
    return task.kind not in CALLS and task.kind, task.program, task.input, task.inputs


@dataclass(frozen=True)
class HeldOutTask:
    """A task that members are measured on; level 1 is the easiest, 0 is unknown."""

    task: Task
    level: int


def nano_tasks(name: str) -> list[HeldOutTask]:
    """Return the tasks of one of `NANO_SETS`."""
    return [HeldOutTask(Task.from_row(row, complete=True), row["level"]) for row in _rows(name)]


def held_out_tasks(sources: tuple[str, ...], count: int) -> list[HeldOutTask]:
    """Return up to `count` tasks, spread evenly over the kinds and levels of the sources.

    A source is one of `NANO_SETS`, `EASY`, or a JSON Lines file of tasks from `selfplay tasks`
    (with an optional `level`). Raises ConfigError for any other.
    """
    groups: dict[tuple[str, int], list[HeldOutTask]] = defaultdict(list)
    for source in sources:
        for held_out in _read(source):
            groups[held_out.task.kind, held_out.level].append(held_out)
    if not groups:
        return []
    share = count // len(groups)
    more = count - share * len(groups)
    return [
        task
        for i, key in enumerate(sorted(groups))
        for task in _spread(groups[key], share + (i < more))
    ]


def require_room(tasks: Iterable[HeldOutTask], why_not_shown: Callable[[Task], str]) -> None:
    """Raise ConfigError for a task that cannot be in a prompt; why_not_shown: '' for others."""
    for held_out in tasks:
        reason = why_not_shown(held_out.task)
        if reason:
            raise ConfigError(
                f"eval.held_out: {held_out.task.id}: {reason}; leave the task out, or raise "
                "rollout.max_prompt_length"
            )


def _spread(tasks: list[HeldOutTask], count: int) -> list[HeldOutTask]:
    if count >= len(tasks):
        return tasks
    return [tasks[i * len(tasks) // count] for i in range(count)]


def _read(source: str) -> list[HeldOutTask]:
    if source in NANO_SETS:
        return nano_tasks(source)
    path = DATA / f"{source}.jsonl" if source == EASY else Path(source)
    if not path.is_file():
        expected = one_of(source, (*NANO_SETS, EASY))
        raise ConfigError(
            f"eval.held_out: {source!r} is neither a set of held-out tasks nor a file; {expected}"
        )
    tasks = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = {"id": f"{path.name}/{number}", **json.loads(line)}
            task, level = Task.from_row(row, complete=True), int(row.get("level", 0))
        except (ValueError, TypeError, CodeVerifierError) as error:
            raise ConfigError(f"{path}, line {number}: not a task: {error}") from error
        tasks.append(HeldOutTask(task, level))
    return tasks


@cache
def _text(name: str) -> str:
    return (DATA / f"{name}.jsonl").read_text(encoding="utf-8")


def _rows(name: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, _text(name).splitlines())
