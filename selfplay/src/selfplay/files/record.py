"""A run directory as a `RunRecord`: settings, steps, evaluations, tasks, lives; and trends."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, structs, to_builtins

from selfplay.errors import RunDirectoryError, SelfplayError, pip_install
from selfplay.files import rows
from selfplay.files.intervals import Families, Floats, mean_and_error, plus_minus
from selfplay.files.layout import CHANGES, EVALS, METRICS, RESOURCES, TASKS, config_of
from selfplay.files.rows import BASE, BirthRow, EvalRow, StepRow, TaskRow, mean, read_rows
from selfplay.settings import read_yaml
from selfplay.terminal import program, quote

Points = Sequence[tuple[int, float | None]]
"""A value, or None, by step."""


@dataclass(frozen=True, slots=True)
class Life:
    """A member from its birth (step 0 for founders) to the step at which it was replaced."""

    name: str
    role: str
    place: int
    """Number of its place in the population; a child takes the place of the member it replaces."""
    born: int
    died: int | None = None
    birth: BirthRow | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RunRecord:
    """The rows of a run.

    - evals: measurements against the frozen base.
    - changes: settings that a resume found changed.
    - codes: commits, or versions, of the code that made the steps, sorted.
    - held_out: of their SHA-256, as in `ResourceRow`; "" if the rows have none.
    """

    directory: Path
    config: Mapping[str, Any]
    steps: tuple[StepRow, ...]
    evals: tuple[EvalRow, ...] = ()
    changes: tuple[rows.ChangeRow, ...] = ()
    codes: tuple[str, ...] = ()
    held_out: str = ""

    def __repr__(self) -> str:
        gain = held_out_gain(self)
        result = f", {plus_minus(gain)} points above the base, held-out" if gain else ""
        births = f", {len(self.births)} members born"
        return f"RunRecord({str(self.directory)!r}, {self.last} steps{births}{result})"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.directory.resolve().name

    @property
    def single(self) -> bool:
        """Whether one agent is trained."""
        return self.config.get("mode") == "azr"

    @property
    def last(self) -> int:
        """Number of the last finished step."""
        return self.steps[-1].step

    @property
    def planned(self) -> int:
        """Number of steps of the whole run."""
        return int(self.config.get("steps", self.last))

    @property
    def kinds(self) -> list[str]:
        """Task kinds that occur, sorted."""
        return sorted({kind for step in self.steps for kind in step.kinds})

    @property
    def base(self) -> rows.SolvingRow | None:
        """The frozen base's results on the held-out tasks."""
        return next((row.rate for row in self.evals if row.rate and row.role == BASE), None)

    @property
    def families(self) -> Families | None:
        """The family of each held-out task; None if the rows have none."""
        return self.base.families or None if self.base else None

    @property
    def births(self) -> list[tuple[int, BirthRow]]:
        """All replacements with their steps, in order."""
        return [(row.step, birth) for row in self.steps for birth in row.evolution]

    @property
    def asked(self) -> dict[str, Any]:
        """The settings that decide what a held-out solve rate means."""
        settings = self.config.get("eval", {})
        keys = ("held_out", "tasks", "samples", "temperature")
        names = {f"eval.{key}": settings.get(key) for key in keys}
        names |= {"eval.held_out's tasks": self.held_out} if self.held_out else {}
        return {"base": self.config.get("base"), "template": self.config.get("template"), **names}

    def tasks(self) -> Iterator[TaskRow]:
        """Read all proposals up to the last step, including refused ones."""
        last = self.last if self.steps else math.inf
        return (row for row in read_rows(self.directory / TASKS, TaskRow) if row.step <= last)

    def series(self, path: str) -> list[tuple[int, float | None]]:
        """Return a number of every step by its dotted path, such as `complexity.loc`."""
        return [(step.step, number_at(step, path)) for step in self.steps]

    def until(self, step: int) -> "RunRecord":
        """Return the run as it was after a step."""
        steps = tuple(row for row in self.steps if row.step <= step)
        return replace(self, steps=steps, evals=tuple(r for r in self.evals if r.step <= step))

    def lives(self) -> list[Life]:
        """Return all members, founders first, then children in the order of their births."""
        roles = {name: m.role for step in reversed(self.steps) for name, m in step.members.items()}
        children = {birth.child for _, birth in self.births}
        founders = [name for name in roles if name not in children]
        founders.sort(key=lambda name: (roles[name] != "teacher", name[0], len(name), name))
        lives = {name: Life(name, roles[name], i, 0) for i, name in enumerate(founders)}
        for step, birth in self.births:
            old = lives.get(birth.removed) or Life(birth.removed, "member", len(lives), 0)
            lives[old.name] = replace(old, died=step)
            lives[birth.child] = Life(birth.child, old.role, old.place, step, None, birth)
        return list(lives.values())

    def latest_evals(self) -> list[EvalRow]:
        """Return the rows of the last evaluation."""
        return [row for row in self.evals if row.step == self.evals[-1].step]

    def solvers(self) -> list[EvalRow]:
        """Return the evaluations on held-out tasks, without the base's."""
        return [row for row in self.evals if row.rate and row.role != BASE]

    def held_out_gains(self) -> dict[int, dict[str, Floats]]:
        """Return by step and member [tasks] held-out solve rates minus the frozen base's.

        NaN for a task that was not judged. At step 0 the warm start counts as a member. A child is
        left out at the step of its birth: it has not learned yet.
        """
        base, rates = self.held_out_rates()
        born = {(row.step, row.member) for row in self.evals if row.born is True}
        return {
            step: {m: rate - base for m, rate in of_members.items() if (step, m) not in born}
            for step, of_members in rates.items()
        }

    def held_out_rates(self) -> tuple[Floats, dict[int, dict[str, Floats]]]:
        """Return the [tasks] held-out solve rates of the frozen base, and of members by step."""
        base = np.array(self.base.rates if self.base else [], float)
        rates: dict[int, dict[str, Floats]] = {}
        for row in self.evals:
            if row.rate and row.role != BASE and len(row.rate.rates) == len(base):
                rates.setdefault(row.step, {})[row.member] = np.array(row.rate.rates, float)
        return base, dict(sorted(rates.items()))

    def to_pandas(self) -> dict[str, Any]:
        """Return a `pandas.DataFrame` each of steps, tasks, attempts, members, ratings, evals and
        lineage.

        A nested value becomes a column of its own, `outer/inner`. Needs pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise SelfplayError(f"to_pandas needs pandas; type: {pip_install('pandas')}") from error
        nested = ("members", "ratings", "evolution")
        tasks = list(self.tasks())
        tables = {
            "steps": [_plain(row, *nested) for row in self.steps],
            "tasks": [_plain(task, "attempts") for task in tasks],
            "attempts": [
                {"task": t.id, "step": t.step, "student": t.student, "kind": t.kind}
                | {"verdict": attempt.verdict, **_plain(attempt)}
                for t in tasks
                for attempt in t.attempts
            ],
            "members": [
                {"step": row.step, "member": name, **_plain(member)}
                for row in self.steps
                for name, member in row.members.items()
            ],
            "ratings": [
                {"step": row.step, "member": name, "mu": mu, "sigma": sigma}
                for row in self.steps
                for name, (mu, sigma) in row.ratings.items()
            ],
            "evals": [_plain(row) for row in self.evals],
            "lineage": [
                {"member": life.name, "role": life.role, "born": life.born, "died": life.died}
                | (_plain(life.birth, "child") if life.birth else {})
                for life in self.lives()
            ],
        }
        return {name: pandas.json_normalize(rows, sep="/") for name, rows in tables.items()}


def number_at(row: Struct | dict[str, Any], path: str) -> float | None:
    """Return the number at a dotted path of fields and keys; None without one."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value if isinstance(value, int | float) else None


def flatten(data: Mapping[str, Any], joint: str = ".", above: str = "") -> dict[str, Any]:
    """Return nested values by their joined names, such as `learner.r`."""
    values: dict[str, Any] = {}
    for name, value in data.items():
        key = f"{above}{name}"
        values |= flatten(value, joint, key + joint) if isinstance(value, Mapping) else {key: value}
    return values


def read_run(directory: str | os.PathLike[str]) -> RunRecord:
    """Read a run directory, finished or not.

    Raises RunDirectoryError if it is missing, is not a run, is damaged, or has no finished step.

    Example:

        >>> run = read_run("runs/mine")
        >>> run.last, sorted(run.steps[-1].ratings)
        (2, ['s0', 's1', 't0', 't1'])
    """
    home = Path(directory)
    settings = read_yaml(config_of(home))
    resources = {r.step: r for r in read_rows(home / RESOURCES, rows.ResourceRow)}
    memory = {step: row.memory_mb for step, row in resources.items()}
    stored = read_rows(home / METRICS, StepRow)
    steps = tuple(structs.replace(row, memory_mb=memory.get(row.step, UNSET)) for row in stored)
    if not steps:
        raise RunDirectoryError(
            f"{home} has no finished step yet; `{program()} resume {quote(home)}` continues it"
        )
    return RunRecord(
        directory=home,
        config=settings,
        steps=steps,
        evals=tuple(read_rows(home / EVALS, EvalRow)),
        changes=tuple(read_rows(home / CHANGES, rows.ChangeRow)),
        codes=tuple(sorted({row.code for row in resources.values()} - {""})),
        held_out=max((row.held_out for row in resources.values()), default=""),
    )


def _plain(row: Struct, *without: str) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {name: value for name, value in plain.items() if name not in without}


def held_out_gain(run: RunRecord) -> tuple[float, float] | None:
    """Return the last held-out gain of living members, and its standard error; points.

    A task's gain is the members' mean solve rate minus the frozen base's with the same seeds.
    """
    gains = run.held_out_gains()
    last = list(gains[max(gains)].values()) if gains else []
    return mean_and_error(100 * np.mean(last, axis=0), run.families) if last else None


def quarters(points: Points) -> tuple[float, float] | None:
    """Return the means of the first and last quarter of the steps; None if either has no number."""
    size = max(1, len(points) // 4)
    first, last = (mean(value for _, value in part) for part in (points[:size], points[-size:]))
    return None if first is None or last is None else (first, last)


def smooth(points: Points) -> list[tuple[int, float]]:
    """Return a Gaussian-weighted running mean over the steps that have a value.

    The kernel's standard deviation is a twentieth of the run, at least one step.
    """
    pairs = [(step, value) for step, value in points if value is not None]
    if not pairs:
        return []
    steps, values = np.array(pairs, float).T
    distances = (steps[:, None] - steps) / max(1.0, (steps[-1] - steps[0] + 1) / 20)
    weights = np.where(abs(distances) <= 3, np.exp(-0.5 * distances**2), 0.0)
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return [(step, float(mean)) for (step, _), mean in zip(pairs, means, strict=True)]


def downsample(points: Points, limit: int = 300) -> list[tuple[int, float | None]]:
    """Return at most `limit` points, each the mean of equally many neighbours."""
    size = max(1, math.ceil(len(points) / limit))
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(part[len(part) // 2][0], mean(value for _, value in part)) for part in parts]
