"""A run directory as tables for a notebook."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from evals.frames.columns import Columns, columns
from selfplay.records.row_file import read_rows
from selfplay.records.step_row import StepRow
from selfplay.records.task_row import TaskRow
from selfplay.report.reading import run_data
from selfplay.report.reading.lineage import Life, lives
from selfplay.run.directory import TASKS

_ELSEWHERE = ("members", "ratings", "matches", "evolution")
"""Fields of a step that are tables of their own."""
ATTEMPT = (
    *("task", "step", "student", "kind", "verdict"),
    *("thought", "answer", "score", "count", "reward", "advantage"),
)
MATCH = ("step", "teacher", "student", "predicted", "observed")


@dataclass(frozen=True)
class RunFrames:
    """What a run did; docs/frames.md says what each column is."""

    steps: Columns
    """A row a step."""
    tasks: Columns
    """A row a proposal, refused ones too."""
    attempts: Columns
    """A row for each different answer of a student to a task."""
    members: Columns
    """A row a step and living member: what it earned, and what the update did to it."""
    ratings: Columns
    """A row a step and rated member."""
    matches: Columns
    """A row a match."""
    standings: Columns
    """A row a measurement of a member on tasks that never change."""
    lineage: Columns
    """A row a member that ever lived."""


def read_run(directory: str | os.PathLike[str]) -> RunFrames:
    """Read a run directory, finished or not.

    Raises RunDirectoryError when it is no run, is damaged, or holds no finished step.
    """
    run = run_data.read_run(Path(directory))
    tasks = list(read_rows(run.directory / TASKS, TaskRow))
    return RunFrames(
        steps=columns(_without(row, *_ELSEWHERE) for row in run.steps),
        tasks=columns((_without(row, "attempts") for row in tasks), ("id", "step", "teacher")),
        attempts=columns(_attempts(tasks), ATTEMPT),
        members=columns(_members(run.steps)),
        ratings=columns(_ratings(run.steps), ("step", "member", "mu", "sigma")),
        matches=columns(_matches(run.steps), MATCH),
        standings=columns(map(to_builtins, run.standings), ("step", "member", "role")),
        lineage=columns(map(_life, lives(run))),
    )


def _without(row: Struct, *names: str) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {name: value for name, value in plain.items() if name not in names}


def _attempts(tasks: Iterable[TaskRow]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        place = {"task": task.id, "step": task.step, "student": task.student, "kind": task.kind}
        for attempt in task.attempts:
            yield {**place, "verdict": attempt.verdict, **to_builtins(attempt)}


def _members(steps: Iterable[StepRow]) -> Iterator[dict[str, Any]]:
    for row in steps:
        for name, member in row.members.items():
            yield {"step": row.step, "member": name, **to_builtins(member)}


def _ratings(steps: Iterable[StepRow]) -> Iterator[dict[str, Any]]:
    for row in steps:
        for name, (mu, sigma) in row.ratings.items():
            yield {"step": row.step, "member": name, "mu": mu, "sigma": sigma}


def _matches(steps: Iterable[StepRow]) -> Iterator[dict[str, Any]]:
    for row in steps:
        for match in row.matches:
            yield {"step": row.step, **to_builtins(match)}


def _life(life: Life) -> dict[str, Any]:
    birth = life.birth
    return {
        "member": life.name,
        "role": life.role,
        "slot": life.lane,
        "born": life.born,
        "replaced": life.died,
        "parents": list(birth.parents) if birth else [],
        "operator": birth.operator if birth else None,
        "relative_change": birth.relative_change if birth else None,
        "replaces": birth.removed if birth else None,
    }
