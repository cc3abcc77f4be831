"""Where members stand against the frozen base: the numbers that a report leads with."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean

from selfplay.report.reading.row_reader import Row, read_rows


@dataclass(frozen=True, slots=True)
class Rate:
    """A solve rate on held-out tasks beside the frozen base's on the same; shares in [0, 1]."""

    member: float
    base: float
    difference: float
    error: float | None
    """Standard error of the difference, paired over tasks."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One measurement of one member; the base itself is the member `base` at step 0."""

    step: int
    member: str
    role: str
    rate: Rate | None
    """None for teachers, and where there are no held-out tasks."""
    kinds: dict[str, Rate]
    pass_at_k: float | None
    tokens: float | None
    """Mean length of an answer with its thought."""
    tasks: int
    samples: int
    base_solve_rate: float | None
    """Teachers: what the frozen base solves of their valid tasks."""
    valid_share: float | None
    reward: float | None
    """Teachers: mean reward as if the base were the student."""
    new_structures: float | None


def read_standings(path: Path) -> tuple[Standing, ...]:
    """Read yardstick.jsonl in order; a run without one has none."""
    return tuple(_standing(row) for row in read_rows(path)) if path.is_file() else ()


def latest(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings of the last measurement."""
    last = max((s.step for s in standings), default=0)
    return [s for s in standings if s.step == last]


def solvers(standings: Sequence[Standing]) -> list[Standing]:
    """Return those with a rate on held-out tasks, the base left out."""
    return [s for s in standings if s.rate is not None and s.role != "base"]


def teachers(standings: Sequence[Standing]) -> list[Standing]:
    """Return those whose proposals were measured, the base left out."""
    return [s for s in standings if s.valid_share is not None and s.role != "base"]


def conclusion(standings: Sequence[Standing]) -> str:
    """Return one line: held-out rate before and after, mean of the living; empty without any."""
    found = [(s, s.rate) for s in solvers(latest(standings)) if s.rate is not None]
    if not found:
        return ""
    base, now = fmean(r.base for _, r in found), fmean(r.member for _, r in found)
    who = "the agent" if found[0][0].role == "agent" else "students"
    return (
        f"Held-out tasks, never trained on: {who} solve {now:.1%} after step {found[0][0].step}, "
        f"the frozen base {base:.1%} ({100 * (now - base):+.1f} points)"
    ).replace("%", " %")


def standing_lines(standings: Sequence[Standing]) -> list[str]:
    """Return the last measurement as lines of a terminal."""
    last = latest(standings)
    lines = []
    solving, teaching = solvers(last), teachers(last)
    if solving:
        s = solving[0]
        lines.append(f"{s.tasks} held-out tasks, {s.samples} samples each, after step {s.step}:")
        lines += [f"  {s.member:6}{rate_text(s.rate)}" for s in solving if s.rate]
    if teaching:
        first = next((s for s in standings if s.role == "base" and s.valid_share is not None), None)
        lines.append("Tasks of the teachers, solved by the frozen base:")
        shown = [*([first] if first else []), *teaching]
        lines += [
            f"  {s.member:6}{_percent(s.base_solve_rate)} solved, {_percent(s.valid_share)} valid, "
            f"reward against the base {_signed(s.reward)}"
            for s in shown
        ]
    return lines


def rate_text(rate: Rate) -> str:
    """Return `38.6 % -> 47.0 % (+8.4 ± 1.8 points)`: base, member, difference."""
    error = "" if rate.error is None else f" ± {100 * rate.error:.1f}"
    return (
        f"{_percent(rate.base)} → {_percent(rate.member)} "
        f"({100 * rate.difference:+.1f}{error} points)"
    )


def mean_rate(rates: Sequence[Rate]) -> Rate | None:
    """Return the mean of several members' rates on the same tasks.

    Its error is that of members that err together: the root mean square of theirs.
    """
    if not rates:
        return None
    errors = [r.error for r in rates if r.error is not None]
    return Rate(
        fmean(r.member for r in rates),
        fmean(r.base for r in rates),
        fmean(r.difference for r in rates),
        sqrt(fmean(e * e for e in errors)) if errors else None,
    )


def _standing(row: Row) -> Standing:
    solving, teaching = row.section("solving"), row.section("teaching")
    judged = [int(n) for n in solving.items("judged")]
    return Standing(
        step=row.count("step"),
        member=row.text("member") or "?",
        role=row.text("role") or "member",
        rate=_rate(solving),
        kinds={k: rate for k, r in solving.sections("kinds").items() if (rate := _rate(r))},
        pass_at_k=solving.number("pass_at_k"),
        tokens=solving.number("tokens"),
        tasks=len(judged),
        samples=max(judged, default=0),
        base_solve_rate=teaching.number("base_solve_rate"),
        valid_share=teaching.number("valid_share"),
        reward=teaching.number("reward"),
        new_structures=teaching.number("new_structures"),
    )


def _rate(row: Row) -> Rate | None:
    member, base = row.number("solve_rate"), row.number("base_solve_rate")
    difference = row.number("difference")
    if member is None or base is None or difference is None:
        return None
    return Rate(member, base, difference, row.number("standard_error"))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
