"""A run directory as a `RunRecord`: settings, steps, evaluations, tasks, lives; and trends."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, UnsetType, structs, to_builtins

from selfplay.errors import RunDirectoryError, SelfplayError, pip_install, program, quote
from selfplay.files.layout import CHANGES, EVALS, METRICS, RESOURCES, TASKS, config_of
from selfplay.files.rows import (
    BASE,
    START,
    BirthRow,
    ChangeRow,
    EvalRow,
    Maybe,
    ResourceRow,
    StepRow,
    TaskRow,
    mean,
    read_rows,
)
from selfplay.settings import read_yaml

Floats = npt.NDArray[np.float64]
Points = Sequence[tuple[int, float | None]]
"""A value, or None, by step."""
FALL = 5.0
"""Points that a member must lose between two evaluations, and at least two standard errors over
tasks, before a report says so."""
WINDOW = 10
"""Steps over which progress lines and warnings average."""
LEAST_TASKS = 4
"""Tasks of a step that counts for signs of a collapse: of fewer, one structure has a large share by
chance."""
SIGNS = (
    ("coverage.commonest", 0.5, "of the tasks have one structure: teachers repeat a program"),
    ("flat", 0.9, "of the tasks are solved by all attempts or by none: they teach nothing"),
)
"""Signs of a collapse: path of a share of the tasks, its limit, and the warning above the limit."""
LEAST_VALID = 0.1
"""Share of valid proposals below which a warning says so."""


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
    generation: int = 0
    """1 + the largest of the parents'; 0 for founders."""


@dataclass(frozen=True, slots=True, repr=False)
class RunRecord:
    """The rows of a run.

    - evals: measurements against the frozen base.
    - changes: settings that a resume found changed.
    """

    directory: Path
    config: Mapping[str, Any]
    steps: tuple[StepRow, ...]
    evals: tuple[EvalRow, ...] = ()
    changes: tuple[ChangeRow, ...] = ()

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
    def kinds(self) -> list[str]:
        """Task kinds that occur, sorted."""
        return sorted({kind for step in self.steps for kind in step.kinds})

    @property
    def births(self) -> list[tuple[int, BirthRow]]:
        """All replacements with their steps, in order."""
        return [(row.step, birth) for row in self.steps for birth in row.evolution]

    def tasks(self) -> Iterator[TaskRow]:
        """Read all proposals, including refused ones."""
        return read_rows(self.directory / TASKS, TaskRow)

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
            parents = [lives[parent].generation for parent in birth.parents if parent in lives]
            generation = 1 + max(parents, default=0)
            lives[birth.child] = Life(
                birth.child, old.role, old.place, step, None, birth, generation
            )
        return list(lives.values())

    def latest_evals(self) -> list[EvalRow]:
        """Return the rows of the last evaluation."""
        last = max((row.step for row in self.evals), default=0)
        return [row for row in self.evals if row.step == last]

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
        rows = [
            (row.step, row.member, np.array(row.rate.rates, float))
            for row in self.evals
            if row.rate
        ]
        base = next((rate for _, member, rate in rows if member == BASE), np.array([]))
        rates: dict[int, dict[str, Floats]] = {}
        for step, member, rate in rows:
            if member != BASE and len(rate) == len(base):
                rates.setdefault(step, {})[member] = rate
        return base, dict(sorted(rates.items()))

    def to_pandas(self) -> dict[str, Any]:
        """Return a `pandas.DataFrame` each of steps, tasks, attempts, members, ratings, matches,
        evals and lineage.

        A nested value becomes a column of its own, `outer/inner`. Needs pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise SelfplayError(f"to_pandas needs pandas; type: {pip_install('pandas')}") from error
        nested = ("members", "ratings", "matches", "evolution")
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
            "matches": [
                {"step": row.step, **_plain(match)} for row in self.steps for match in row.matches
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


def flattened(data: Mapping[str, Any], joint: str = ".", above: str = "") -> dict[str, Any]:
    """Return nested values by their joined names, such as `learner.r`."""
    values: dict[str, Any] = {}
    for name, value in data.items():
        key = f"{above}{name}"
        values |= (
            flattened(value, joint, key + joint) if isinstance(value, Mapping) else {key: value}
        )
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
    resources = {r.step: r for r in read_rows(home / RESOURCES, ResourceRow)}
    steps: list[StepRow] = []
    for row in read_rows(home / METRICS, StepRow):
        resource = resources.get(row.step)
        steps.append(structs.replace(row, memory_mb=resource.memory_mb) if resource else row)
    if not steps:
        raise RunDirectoryError(
            f"{home} has no finished step yet; `{program()} resume {quote(home)}` continues it"
        )
    return RunRecord(
        directory=home,
        config=settings,
        steps=tuple(steps),
        evals=tuple(read_rows(home / EVALS, EvalRow)),
        changes=tuple(read_rows(home / CHANGES, ChangeRow)),
    )


def _plain(row: Struct, *without: str) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {name: value for name, value in plain.items() if name not in without}


def mean_and_error(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean and its standard error (sd / sqrt(n)); None for fewer than two values."""
    if len(values) < 2:
        return None
    return fmean(values), stdev(values) / math.sqrt(len(values))


def held_out_gain(run: RunRecord) -> tuple[float, float] | None:
    """Return the last held-out gain of living members, and its standard error over tasks; points.

    A task's gain is the members' mean solve rate minus the frozen base's with the same seeds.
    """
    gains = run.held_out_gains()
    return mean_gain(list(gains[max(gains)].values())) if gains else None


def mean_gain(gains: Sequence[Floats]) -> tuple[float, float] | None:
    """Return the mean over members and tasks, in points, and its standard error over tasks.

    gains: one array for each member, [tasks] solve rates minus the base's, NaN if not judged.
    """
    of_task = np.mean(gains, axis=0) if gains else np.array([])
    return mean_and_error([100 * float(gain) for gain in of_task if not np.isnan(gain)])


def not_judged(counts: Iterable[int | UnsetType], before: str = ", ") -> str:
    """Return `, 3 not judged` for a rate that leaves out so many texts in all; '' for none."""
    total = sum(count for count in counts if isinstance(count, int))
    return f"{before}{total} not judged" if total else ""


def faults(steps: Iterable[StepRow], noun: str) -> list[int]:
    """Return by step the number of `proposals` or `attempts` at which the sandbox failed."""
    return [step.infra_errors.get(noun, 0) for step in steps]


def plus_minus(gain: tuple[float, float]) -> str:
    """Return `+8.4 ± 1.8` of a mean and its standard error."""
    return f"{gain[0]:+.1f} ± {gain[1]:.1f}"


def gain_text(difference: Maybe, error: Maybe) -> str:
    """Return `+8.4 ± 1.8`, in points, of a difference of shares and its standard error."""
    if not isinstance(difference, float):
        return "–"
    after = f" ± {100 * error:.1f}" if isinstance(error, float) else ""
    return f"{100 * difference:+.1f}{after}"


def conclusion(run: RunRecord) -> str:
    """Return one line: held-out solve rate of living members against the base; '' without any."""
    solvers = [row for row in run.latest_evals() if row.rate and row.role != BASE]
    last = [row for row in solvers if row.born is not True]
    children = ", ".join(row.member for row in solvers if row.born is True)
    rate = mean(row.rate.solve_rate for row in last if row.rate)
    base = mean(row.rate.base_solve_rate for row in last if row.rate)
    if rate is None or base is None:
        return ""
    who = "the agent solves" if last[0].role == "agent" else "students solve"
    who = f"{who} (without {children}, born then)" if children else who
    gains = [row.rate.over_start for row in last if row.rate]
    over = mean(gain for gain in gains if isinstance(gain, float))
    start = ""
    if over is not None:
        start = f", the warm start {100 * (rate - over):.1f} % ({100 * over:+.1f})"
    gain = held_out_gain(run)
    error = f" ± {gain[1]:.1f}" if gain else ""
    meaning = "; ±: one standard error over the tasks" if gain else ""
    meaning += not_judged((row.rate.not_judged for row in last if row.rate), "; ")
    return (
        f"Held-out tasks, never trained on: {who} {100 * rate:.1f} % after step "
        f"{last[0].step}{start}, the frozen base {100 * base:.1f} % "
        f"({100 * (rate - base):+.1f}{error} points{meaning})"
    )


@dataclass(frozen=True)
class Fall:
    """The change of one member's held-out solve rates from an evaluation to its next."""

    member: str
    before: int
    """Step of the earlier evaluation; 0 is the start of the run."""
    after: int
    earlier: Floats
    """[tasks] solve rates before; NaN for a task that was not judged."""
    later: Floats

    @property
    def lost(self) -> Floats:
        """[tasks] solve rate before minus after."""
        return self.earlier - self.later

    @property
    def mean(self) -> float:
        """The mean over the tasks; negative where the member rose."""
        return float(np.nanmean(self.lost))

    @property
    def error(self) -> float:
        """The standard error of the mean over the tasks; inf for fewer than two judged tasks."""
        estimate = mean_and_error(self.lost[~np.isnan(self.lost)].tolist())
        return math.inf if estimate is None else estimate[1]

    def __str__(self) -> str:
        when = f"after step {self.before}" if self.before else "at the start"
        return (
            f"{self.member} fell by {100 * self.mean:.1f} ± {100 * self.error:.1f} points "
            "on held-out tasks: "
            f"{100 * np.nanmean(self.earlier):.1f} % {when}, "
            f"{100 * np.nanmean(self.later):.1f} % after step {self.after}"
        )


def moves(run: RunRecord) -> list[Fall]:
    """Return every member's changes from one held-out evaluation to the next.

    A founder's first evaluation is that of the base or the warm start at step 0; a child's is the
    one at its birth.
    """
    base, rates = run.held_out_rates()
    start = rates.get(0, {}).get(START, base)
    born = {birth.child for _, birth in run.births}
    last: dict[str, tuple[int, Floats]] = {}
    changes: list[Fall] = []
    for step, of_members in rates.items():
        for member, rate in of_members.items():
            if member == START:
                continue
            if member not in last and member not in born:
                last[member] = 0, start
            if member in last and last[member][0] < step:
                before, earlier = last[member]
                changes.append(Fall(member, before, step, earlier, rate))
            last[member] = step, rate
    return changes


def largest_fall(run: RunRecord) -> Fall | None:
    """Return the largest fall of any member; None if no member has two evaluations."""
    return max(moves(run), key=lambda fall: fall.mean, default=None)


def falls(run: RunRecord) -> list[Fall]:
    """Return the falls by at least `FALL` points and two standard errors."""
    return [f for f in moves(run) if 100 * f.mean >= FALL and f.mean >= 2 * f.error]


def warnings_of(run: RunRecord) -> list[str]:
    """Return a line for what was not judged, and for each fall of a member, sign of a collapse at
    the end, role whose texts are all cut, and changed setting."""
    return [
        *unjudged(run),
        *map(str, falls(run)),
        *(f"In the last {WINDOW} steps {sign}" for sign in signs_in(run.steps)),
        *(f"In the last step {line}" for line in cut_roles(run.steps[-1])),
        *(f"From step {change.step} on {change}" for change in run.changes),
    ]


def unjudged(run: RunRecord) -> list[str]:
    """Return a line with the number of texts of the whole run that the sandbox failed at."""
    parts = {f"{noun} of the steps": faults(run.steps, noun) for noun in ("proposals", "attempts")}
    solving = [row.rate.not_judged for row in run.evals if row.rate]
    teaching = [row.taught.not_judged for row in run.evals if row.taught]
    parts["texts of the evaluations"] = [n for n in solving + teaching if isinstance(n, int)]
    words = ", ".join(f"{sum(counts)} {noun}" for noun, counts in parts.items() if sum(counts))
    return [f"Not judged, and in no number: {words} (the sandbox failed)"] if words else []


def signs_in(steps: Sequence[StepRow]) -> list[str]:
    """Return the signs of a collapse in the last `WINDOW` steps.

    Those of `SIGNS` need `LEAST_TASKS` tasks in at least half of the steps.
    """
    late, signs = steps[-WINDOW:], []
    enough = [s for s in late if sum(s.solve_rates or (LEAST_TASKS,)) >= LEAST_TASKS]
    for path, limit, words in SIGNS:
        share = mean(number_at(step, path) for step in enough)
        if len(late) == WINDOW <= 2 * len(enough) and share is not None and share > limit:
            signs.append(f"{100 * share:.0f} % {words}")
    valid = mean(step.valid_share for step in late)
    if len(late) == WINDOW and valid is not None and valid < LEAST_VALID:
        signs.append(f"{100 * valid:.0f} % of the proposals are valid: few tasks are left to learn")
    return signs


def cut_roles(step: StepRow) -> list[str]:
    """Return a line for each role all of whose texts ended at the token limit, unreadable."""
    rows = step.members.values()
    readable = {row.role for row in rows if row.cut != 1.0 or row.valid_share or row.well_formed}
    return [
        f"every text of the {role}s ended at the token limit; raise rollout."
        f"max_{'proposal' if role == 'teacher' else 'completion'}_length"
        for role in sorted({row.role for row in rows} - readable)
    ]


def quarters(points: Points) -> tuple[float, float] | None:
    """Return the means of the first and last quarter of the steps; None if either has no number."""
    size = max(1, len(points) // 4)
    first, last = (mean(value for _, value in part) for part in (points[:size], points[-size:]))
    return None if first is None or last is None else (first, last)


def smooth(points: Points) -> list[tuple[int, float]]:
    """Return a Gaussian-weighted running mean over the steps that have a value.

    The kernel's standard deviation is a twentieth of the run, at least one step.
    """
    known = [(step, value) for step, value in points if value is not None]
    if not known:
        return []
    steps, values = np.array(known, float).T
    distances = (steps[:, None] - steps) / max(1.0, (steps[-1] - steps[0] + 1) / 20)
    weights = np.where(abs(distances) <= 3, np.exp(-0.5 * distances**2), 0.0)
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return [(step, float(mean)) for (step, _), mean in zip(known, means, strict=True)]


def downsample(points: Points, limit: int = 300) -> list[tuple[int, float | None]]:
    """Return at most `limit` points, each the mean of equally many neighbours."""
    size = max(1, math.ceil(len(points) / limit))
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(part[len(part) // 2][0], mean(value for _, value in part)) for part in parts]
