"""Seeds: the tasks that a run starts from, read from a file or written by the model itself.

With `rollout.tasks` they are all valid tasks of that file, and no teacher writes others.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any

from code_verifier import (
    CodeVerifierError,
    Proposal,
    Sandbox,
    SandboxUnavailable,
    Status,
    Task,
    Tasksets,
    ordered_map,
    read_rows,
)
from lora_evo.files import write_text
from lora_evo.model import derive_seed, stream
from selfplay.config import Config
from selfplay.errors import ConfigError, SelfplayError
from selfplay.run import Run
from selfplay.sampling.prompts import Prompts, without_comments
from selfplay.sampling.texts import Proposed
from selfplay.tasks.buffer import content, draw_from, shuffled
from selfplay.tasks.held_out import DATA, Guard, drawn_by_text, equal_task
from selfplay.tasks.kind import CALLS, TaskKind, is_taskset
from selfplay.tasks.template import Template

SEED_RUNS = 32
"""Number of run seeds with different seed tasks."""
_HELLO = "'Hello world'"
IDENTITY = Task(kind="code_o", program="def f(a):\n    return a", input=_HELLO, output=_HELLO)
"""AZR's only seed: the identity function."""
BATCH = 64
"""Proposals sampled together, with the same pool of references (Absolute Zero's batch)."""
LEAST = 1 / 16
"""Smallest share of new valid tasks, after four batches, with which a model may go on."""
Say = Callable[[str], None]
Worked = tuple[Task, Mapping[str, Any]]
"""A valid task, and its row."""


def seed_tasks(template: str, count: int, seed: int, guard: Guard | None = None) -> list[Task]:
    """Return the template's seed tasks: for nano, code_o tasks on easy programs.

    Their file has a block for each of `SEED_RUNS` seeds; a run reads from the start of its block.
    Tasks that guard holds are passed over. Other templates have only the identity function. Raises
    ConfigError if `count` is larger than the number of tasks.
    """
    if template != "nano" and count > 1:
        raise ConfigError(
            f"rollout.seed_tasks is {count}, and template {template} has one, the identity "
            "function; name more as rollout.seed_file, let the base write them with "
            "rollout.self_seed=true, or set rollout.seed_tasks=1"
        )
    if template != "nano":
        return [IDENTITY]
    lines = (DATA / "seed_tasks.jsonl").read_text(encoding="utf-8").splitlines()
    if count > len(lines):
        raise ConfigError(f"rollout.seed_tasks is {count}; expected at most {len(lines)}")
    start = seed % SEED_RUNS * (len(lines) // SEED_RUNS)
    rows = map(json.loads, (*lines[start:], *lines[:start]))
    tasks = (Task.from_row(row, complete=True) for row in rows)
    free = (task for task in tasks if equal_task(task, guard or {}) is None)
    return [replace(task, id=f"seed-{i}") for i, task in enumerate(islice(free, count))]


def require_seeds(config: Config) -> None:
    """Raise ConfigError, before anything loads, if the seeds' file or template cannot give them."""
    r = config.rollout
    if r.tasks is not None:
        if not is_taskset(r.tasks) and not Path(r.tasks).is_file():
            raise ConfigError(
                f"rollout.tasks: there is no file {r.tasks}; expected JSON Lines of tasks, as "
                "`selfplay tasks RUN --out FILE` writes them, or verifiers:TASKSET"
            )
        return
    if r.seed_file is not None and not Path(r.seed_file).is_file():
        raise ConfigError(f"rollout.seed_file: there is no file {r.seed_file}")
    if r.seed_file is None and not r.self_seed:
        seed_tasks(config.template, r.seed_tasks, config.seed)


def taskset_tasks(config: Config, tasksets: Tasksets) -> tuple[list[Worked], list[str | Task]]:
    """Return the tasks of a run's taskset that it trains on, and what it holds out: the tasksets'
    tasks and other sources in `eval.held_out`; if that is empty, a tenth of its tasks."""
    tasks, *others = tasksets.tasks if is_taskset(config.rollout.tasks) else [[], *tasksets.tasks]
    if config.eval.held_out:
        named = [source for source in config.eval.held_out if not is_taskset(source)]
        return [*tasks], [*named, *(task for rows in others for task, _ in rows)]
    held_out = dict.fromkeys(drawn_by_text([task for task, _ in tasks], len(tasks) // 10))
    return [row for row in tasks if row[0] not in held_out], [*held_out]


def given_seeds(
    config: Config, sandbox: Sandbox, prompts: Prompts, guard: Guard, pairs: Iterable[Worked] = ()
) -> list[Task]:
    """Return the seeds of a new run: all of `rollout.tasks`, or of `seed_file`, or the template's.

    From a seed file `seed_tasks` tasks of code_o and code_i that are not held out are drawn by the
    run's seed, and up to as many of each other kind in play. pairs: the tasks of a taskset in
    `rollout.tasks`. Raises ConfigError if the file has too few.
    """
    r = config.rollout
    if r.tasks is not None:
        kinds = [kind.name for kind in prompts.template.in_play]
        rows = [row for row in pairs if not prompts.why_not_shown(row[0])]
        if not is_taskset(r.tasks):
            rows = _valid("rollout.tasks", Path(r.tasks), kinds, sandbox, prompts)
        return _fixed(r.tasks, rows, kinds, config, guard)
    if r.self_seed:
        return [IDENTITY]
    if r.seed_file is None:
        return seed_tasks(config.template, r.seed_tasks, config.seed, guard)
    place = Path(r.seed_file)
    names = [k.name for k in prompts.template.in_play if k.name not in CALLS]
    different: dict[Hashable, Task] = {}
    for task, _ in _valid("rollout.seed_file", place, (*CALLS, *names), sandbox, prompts):
        if equal_task(task, guard) is None:
            different.setdefault(content(task), replace(task, id=f"seed-{len(different)}"))
    tasks = shuffled(list(different.values()), derive_seed(config.seed, "seed-tasks"))
    calls = [task for task in tasks if task.kind in CALLS][: r.seed_tasks]
    if len(calls) < r.seed_tasks:
        raise ConfigError(
            f"rollout.seed_tasks is {r.seed_tasks}, and {place} has {len(calls)} different valid "
            f"tasks of code_o and code_i whose prompts fit and hold no control tokens; "
            f"--set rollout.seed_tasks={len(calls)}, or give more rows"
        )
    for kind in names:
        calls += [task for task in tasks if task.kind == kind][: r.seed_tasks]
    return calls


def _fixed(
    place: str, rows: list[Worked], kinds: Sequence[str], config: Config, guard: Guard
) -> list[Task]:
    """Return all valid tasks of `rollout.tasks`, equal ones too; the easiest first if ordered."""
    present = {task.kind for task, _ in rows}
    if missing := [kind for kind in kinds if kind not in present]:
        raise ConfigError(
            f"rollout.tasks: {place} has no valid task of {', '.join(missing)}; give some, or leave"
            f" it out: --set rollout.kinds=[{','.join(k for k in kinds if k in present)}]"
        )
    trained = {task.kind for task, _ in rows if equal_task(task, guard) is None}
    if only_held_out := [kind for kind in kinds if kind not in trained]:
        raise ConfigError(
            f"rollout.tasks: all tasks of {', '.join(only_held_out)} in {place} are held-out tasks,"
            " on which members are measured; give others, or measure on others: --set "
            "eval.held_out=FILE"
        )
    if config.rollout.tasks_order == "solve_rate":
        for task, row in rows:
            rate = row.get("solve_rate")
            if not isinstance(rate, int | float) or isnan(rate):
                raise ConfigError(
                    f"rollout.tasks_order is solve_rate, and {place} has none for "
                    f"{task.program or task.input!r}; expected a number in every row, as `selfplay "
                    "tasks` writes it, or --set rollout.tasks_order=shuffled"
                )
        rows.sort(key=lambda pair: -pair[1]["solve_rate"])
    return [replace(task, id=f"seed-{number}") for number, (task, _) in enumerate(rows)]


def _valid(
    key: str, place: Path, kinds: Sequence[str], sandbox: Sandbox, prompts: Prompts
) -> list[Worked]:
    """Return the valid tasks of a file that fit into prompts. key: the setting that names it."""
    try:
        rows = read_tasks(place, prompts.template, kinds, sandbox, lambda _: None)
    except (SelfplayError, CodeVerifierError, OSError) as error:
        raise ConfigError(f"{key}: {error}") from error
    return [(task, row) for task, row in rows if not prompts.why_not_shown(task)]


def self_made_seeds(run: Run) -> list[Task]:
    """Let the model write the seeds, from the identity function on (arXiv 2505.03335, section 3).

    References are drawn from earlier accepted seeds. First come `seed_tasks` of code_o and code_i
    together, then as many of each other kind in play. The frozen base writes, or, after a warm
    start, the first member. Raises SelfplayError for a model that writes too few valid tasks.
    """
    kinds = run.template.in_play
    calls = [k for k in kinds if k.name in CALLS] or [run.template.kind("code_o")]
    seeds = _let_write(run, calls, [], [IDENTITY])
    for kind in kinds:
        if kind.name not in CALLS:
            seeds += _let_write(run, [kind], seeds, [])
    return seeds


def _let_write(
    run: Run, kinds: Sequence[TaskKind], pool: Sequence[Task], tasks: list[Task]
) -> list[Task]:
    """Return `seed_tasks` tasks: the given ones, and valid ones that the model writes in batches.

    kinds: in turn. pool: more tasks for references.
    """
    r, batch = run.config.rollout, 0
    writer = None if run.config.warm_start is None else run.population.members[0]
    different = {content(task): task for task in tasks}
    while len(different) < r.seed_tasks:
        if batch >= 4 and len(different) < LEAST * BATCH * batch:
            raise SelfplayError(
                f"after {batch * BATCH} proposals of {run.config.base} there are {len(different)} "
                f"different valid tasks of {' and '.join(k.name for k in kinds)}, expected "
                f"rollout.seed_tasks={r.seed_tasks}; start from an adapter of `selfplay "
                "sft` (warm_start), or give seeds: --set rollout.self_seed=false --set "
                "rollout.seed_file=FILE"
            )
        drafts = []
        for i in range(BATCH):
            kind = kinds[i % len(kinds)]
            name = f"seed-{kind.name}-{batch}-{i}"
            candidates = [task for task in (*pool, *different.values()) if task.kind in kind.shows]
            rng = stream(run.seed(name, "references"))
            references = draw_from(candidates, kind.references(r.num_references), rng)
            seed = run.seed(name, "propose")
            drafts.append(Proposed(i, name, writer, None, kind.name, tuple(references), seed))
        written = run.validate(run.sample(drafts))
        run.leave_out(written)
        for p in written:
            if p.task is not None:
                different.setdefault(content(p.task), p.task)
        batch += 1
    return list(different.values())[: r.seed_tasks]


def write_seeds(path: Path, seeds: Iterable[Task]) -> None:
    """Write a run's seeds to a file, for a resume."""
    write_text(path, "".join(json.dumps(task.to_row()) + "\n" for task in seeds))


def read_seeds(path: Path) -> list[Task]:
    """Return the seeds that `write_seeds` wrote; none for a missing file."""
    rows = read_rows(path) if path.exists() else ()
    return [Task.from_row(row, complete=True) for _, row in rows]


def read_tasks(
    path: Path, template: Template, kinds: Sequence[str], sandbox: Sandbox, say: Say
) -> list[Worked]:
    """Read JSON Lines of tasks: ours, or Absolute Zero's {"snippet", "input", "output"}.

    A row without `kind` gives a task of code_o and one of code_i, or of code_f if it has `inputs`.
    Comments are removed from programs. Outputs come from running the programs, not from the rows.
    Raises SelfplayError for a file without a valid row, SandboxUnavailable if a row cannot be
    judged, because a run must not depend on which were.
    """
    if not path.is_file():
        raise SelfplayError(f"there is no file {path}; expected JSON Lines of tasks")
    rows, proposals = list(read_rows(path)), []
    for line, row in rows:
        try:
            proposals.append(Proposal.from_row(row))
            template.kind(proposals[-1].kind)
        except (CodeVerifierError, ConfigError) as error:
            raise SelfplayError(f"{path}, line {line}: {error}") from None
    refused: Counter[str] = Counter()
    tasks: list[Worked] = []
    bare = map(without_comments, proposals)
    verdicts = ordered_map(
        lambda p: template.kind(p.kind).validate(p, sandbox), bare, sandbox.workers
    )
    for (line, row), verdict in zip(rows, verdicts, strict=True):
        if verdict.status == Status.SANDBOX_ERROR:
            raise SandboxUnavailable(
                f"{path}, line {line}: not judged: {verdict.reason}; type `code-verifier doctor`"
            )
        if verdict.task is None:
            refused[str(verdict.status)] += 1
            continue
        kind = verdict.task.kind
        both = not row.get("kind") and kind in CALLS
        row_kinds = [k for k in (CALLS if both else (kind,)) if k in kinds]
        tasks += [(replace(verdict.task, kind=k), row) for k in row_kinds]
        if not row_kinds:
            refused["of a kind that is not trained"] += 1
    summary = f"{len(rows)} rows of {path} give {len(tasks)} tasks of {', '.join(kinds)}"
    summary += "".join(f", {count} refused: {status}" for status, count in refused.most_common())
    if not tasks:
        raise SelfplayError(f"{summary}; expected rows as `selfplay tasks` writes them")
    say(summary)
    return tasks
