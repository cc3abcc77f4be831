"""Findings of a run in words: its conclusion, falls, signs of a collapse, what was not judged."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET, UnsetType

from selfplay.files.intervals import Families, Floats, mean_and_error
from selfplay.files.record import RunRecord, held_out_gain, number_at
from selfplay.files.rows import BASE, START, MemberRow, StepRow, mean
from selfplay.tasks.held_out import HELD_OUT

FALL = 5.0
"""Points that a member must lose between two evaluations, and at least two standard errors over
tasks, before a report says so."""
WINDOW = 10
"""Steps over which progress lines and warnings average."""
IDLE = 5
"""Steps in a row after which a role that learned nothing is named."""
LEAST_TASKS = 4
"""Tasks of a step that counts for `SIGNS`: of fewer, one has a large share by chance."""
SIGNS = (
    ("coverage.commonest", 0.5, "of the tasks have one structure: teachers repeat a program"),
    ("flat", 0.9, "of the tasks are solved by all attempts or by none: they teach nothing"),
)
"""Signs of a collapse: path of a share of the tasks, its limit, and the warning above the limit."""
LEAST_VALID = 0.1
"""Share of valid proposals below which a warning says so."""


def not_judged(counts: Iterable[int | UnsetType], before: str = ", ") -> str:
    """Return `, 3 not judged` for a rate that leaves out so many texts in all; '' for none."""
    total = sum(count for count in counts if isinstance(count, int))
    return f"{before}{total} not judged" if total else ""


def faults(steps: Iterable[StepRow], noun: str) -> list[int]:
    """Return by step the number of `proposals` or `attempts` at which the sandbox failed."""
    return [step.infra_errors.get(noun, 0) for step in steps]


def held_out_met(steps: Iterable[StepRow]) -> int:
    """Return how many of the tasks that were written, or drawn from a file, are held out."""
    return sum(step.rejected.get(HELD_OUT, 0) for step in steps)


def conclusion(run: RunRecord) -> str:
    """Return one line: held-out solve rate of living members against the base; '' without any."""
    solvers = [row for row in run.latest_evals() if row.rate and row.role != BASE]
    last = [row for row in solvers if row.born is not True]
    children = ", ".join(row.member for row in solvers if row.born is True)
    rates = [row.rate for row in last if row.rate]
    rate, base = mean(r.solve_rate for r in rates), mean(r.base_solve_rate for r in rates)
    if rate is None or base is None:
        return ""
    who = "the agent solves" if last[0].role == "agent" else "students solve"
    who = f"{who} (without {children}, born then)" if children else who
    over, start = mean(r.over_start for r in rates if isinstance(r.over_start, float)), ""
    if over is not None:
        start = f", the warm start {100 * (rate - over):.1f} % ({100 * over:+.1f})"
    points, meaning = f"{100 * (rate - base):+.1f}", ""
    if gain := held_out_gain(run):
        points += f" ± {gain[1]:.1f}"
        meaning = "; ±: one standard error over the tasks"
    meaning += not_judged((r.not_judged for r in rates), "; ")
    return (
        f"Held-out tasks, never trained on: {who} {100 * rate:.1f} % after step "
        f"{last[0].step}{start}, the frozen base {100 * base:.1f} % ({points} points{meaning})"
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
    families: Families | None = None

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
        """The standard error of the mean over the tasks; inf where it cannot be estimated."""
        estimate = mean_and_error(self.lost, self.families)
        return math.inf if estimate is None else estimate[1]

    def __str__(self) -> str:
        when = f"after step {self.before}" if self.before else "at the start"
        earlier, later = (100 * np.nanmean(rates) for rates in (self.earlier, self.later))
        return (
            f"{self.member} fell by {100 * self.mean:.1f} ± {100 * self.error:.1f} points on "
            f"held-out tasks: {earlier:.1f} % {when}, {later:.1f} % after step {self.after}"
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
            before, earlier = last.get(member, (step if member in born else 0, start))
            if before < step:
                changes.append(Fall(member, before, step, earlier, rate, run.families))
            last[member] = step, rate
    return changes


def falls(run: RunRecord) -> list[Fall]:
    """Return the falls by at least `FALL` points and two standard errors."""
    return [f for f in moves(run) if 100 * f.mean >= FALL and f.mean >= 2 * f.error]


def warnings_of(run: RunRecord) -> list[str]:
    """Return a line for what was not judged, and for each fall of a member, sign of a collapse at
    the end, role whose texts are all cut or that learns nothing, and changed setting."""
    frozen = run.config.get("learner", {}).get("frozen", ())
    met = held_out_met(run.steps)
    return [
        *unjudged(run),
        *([f"{met} of the run's tasks were held-out ones: left out"] if met else []),
        *map(str, falls(run)),
        *(f"In the last {WINDOW} steps {sign}" for sign in signs_in(run.steps)),
        *(f"In the last step {line}" for line in cut_roles(run.steps[-1])),
        *(f"In the last {IDLE} steps {line}" for line in idle_roles(run.steps, frozen).values()),
        *(f"From step {change.step} on {change}" for change in run.changes),
    ]


def unjudged(run: RunRecord) -> list[str]:
    """Return a line with the number of texts of the whole run that the sandbox failed at."""
    parts = {f"{noun} of the steps": faults(run.steps, noun) for noun in ("proposals", "attempts")}
    counts = (of.not_judged for row in run.evals for of in (row.rate, row.taught) if of)
    parts["texts of the evaluations"] = [count for count in counts if isinstance(count, int)]
    words = ", ".join(f"{sum(counts)} {noun}" for noun, counts in parts.items() if sum(counts))
    return [f"Not judged, and in no number: {words} (the sandbox failed)"] if words else []


def signs_in(steps: Sequence[StepRow]) -> list[str]:
    """Return the signs of a collapse in the last `WINDOW` steps.

    Those of `SIGNS` need `LEAST_TASKS` tasks in at least half of the steps.
    """
    late, signs = steps[-WINDOW:], list[str]()
    if len(late) < WINDOW:
        return signs
    enough = [s for s in late if sum(s.solve_rates or (LEAST_TASKS,)) >= LEAST_TASKS]
    for path, limit, words in SIGNS:
        share = mean(number_at(step, path) for step in enough)
        if 2 * len(enough) >= WINDOW and share is not None and share > limit:
            signs.append(f"{100 * share:.0f} % {words}")
    valid = mean(step.valid_share for step in late)
    if valid is not None and valid < LEAST_VALID:
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


def idle_roles(steps: Sequence[StepRow], frozen: Collection[str] = ()) -> dict[str, str]:
    """Return a line, with the reason, for each role that learned nothing in the last `IDLE` steps.

    frozen: members that never learn.
    """
    rows: dict[str, list[MemberRow]] = {}
    for step in steps[-IDLE:] if len(steps) >= IDLE else ():
        for member, row in step.members.items():
            if member not in frozen:
                rows.setdefault(row.role, []).append(row)
    idle = {role: of_role for role, of_role in rows.items() if all(map(_is_idle, of_role))}
    return {role: f"no {role} learned: {_why_idle(of_role)}" for role, of_role in idle.items()}


def _is_idle(row: MemberRow) -> bool:
    if row.stepped is UNSET:  # no sample of it; in a loop of one's own there may be
        return row.solve_rate is None
    return row.stepped is False or row.regularised is True


def _why_idle(rows: Sequence[MemberRow]) -> str:
    if faults := [row.skipped for row in rows if row.skipped]:
        return str(faults[-1])
    if all(row.learning_rate == 0.0 for row in rows):
        return "the learning rate is 0"
    if not any(row.tokens for row in rows):
        return "there was no valid task, or the sandbox judged none"
    if all(row.cut == 1.0 for row in rows):
        return "every text ended at the token limit"
    rewards = mean([row.reward for row in rows if isinstance(row.reward, float)])
    words = "" if rewards is None else f" ({rewards:.2g} in the mean)"
    return f"rewards that are compared with each other were equal{words}"
