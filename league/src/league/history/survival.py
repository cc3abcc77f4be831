"""Lineage: how long members last, and whose descendants are left."""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from league.basics.data import PlainData
from league.history.history import History, Life
from league.state.records import ROLES, STUDENT, TEACHER

_FOUNDERS = 512


@dataclass(frozen=True)
class Lifetime:
    """How long one member lasted."""

    member: str
    born: int
    rounds: int
    """How many were paired while it lived, so far if it is `living`."""
    living: bool


@dataclass(frozen=True)
class Line:
    """What is left of a founder."""

    founder: str
    living: int
    """Members that descend from it through their main parents (the heaviest, the first of equals),
    itself included."""
    ancestry: float | None
    """The mean share of it in all living members, weights of all parents multiplied down the tree;
    None in large leagues."""


@dataclass(frozen=True)
class RoleSurvival:
    """Lifetimes and lines of one role; times are numbers of paired rounds."""

    role: str
    members: int
    living: int
    lifetimes: tuple[Lifetime, ...]
    curve: tuple[tuple[int, float], ...]
    """(age, share of members that reach more than it), Kaplan and Meier's estimate, which counts
    the living as "not yet"."""
    median_life: int | None
    """The first age at which the curve is at most one half; None if it never is."""
    lines: tuple[Line, ...]
    """One row per founder, most descendants first."""
    founders_alive: int
    """Founders with any living descendant, by any parent (by main parents in large leagues)."""
    lines_left: tuple[tuple[int, int], ...]
    """(rounds, founder lines among the living), each time it changes."""
    takeover: int | None
    """Since when all living members come from one founder by main parents; None if they do not."""
    takeover_by: str | None


@dataclass(frozen=True)
class Survival(PlainData):
    """Both roles, and what had to be left out."""

    teachers: RoleSurvival
    students: RoleSurvival
    notes: tuple[str, ...]


def survival(history: History) -> Survival:
    """Return lifetimes and lineages of both roles; anchors are not members here."""
    crowded = [r for r in ROLES if sum(not x.parents for x in history.everyone(r)) > _FOUNDERS]
    notes = [f"more than {_FOUNDERS} founding {r}s: ancestry is by main parents" for r in crowded]
    return Survival(
        teachers=_role(history, TEACHER, TEACHER in crowded),
        students=_role(history, STUDENT, STUDENT in crowded),
        notes=tuple(notes),
    )


def _role(history: History, role: str, crowded: bool) -> RoleSurvival:
    lives = history.everyone(role)
    living = [life for life in lives if life.ended is None]
    # Anchors may be parents too, so lines are followed through every life of the role.
    line: dict[str, str] = {}
    for life in history.lives:
        if life.role == role:
            line[life.name] = line[life.main_parent] if life.parents else life.name
    left = Counter(line[life.name] for life in living)
    ancestry = None if crowded else _ancestry(history, role, living)
    founders = [life.name for life in lives if not life.parents]
    founders += sorted(set(left) - set(founders))
    lines = [Line(n, left[n], None if ancestry is None else ancestry.get(n, 0.0)) for n in founders]
    changes = _lines_left(lives, line)
    taken = changes[-1][0] if changes and changes[-1][1] == 1 else None
    ages = [(history.rounds if x.ended is None else x.ended) - x.born for x in lives]
    dead = [x.ended - x.born for x in lives if x.ended is not None]
    curve = _kaplan_meier(ages, dead)
    return RoleSurvival(
        role=role,
        members=len(lives),
        living=len(living),
        lifetimes=tuple(
            Lifetime(x.name, x.born, age, x.ended is None)
            for x, age in zip(lives, ages, strict=True)
        ),
        curve=curve,
        median_life=next((age for age, share in curve if share <= 0.5), None),
        lines=tuple(sorted(lines, key=lambda row: (-row.living, -(row.ancestry or 0.0)))),
        founders_alive=sum((row.ancestry or row.living) > 0 for row in lines),
        lines_left=tuple(changes),
        takeover=taken,
        takeover_by=line[living[0].name] if taken is not None and living else None,
    )


def _ancestry(history: History, role: str, living: list[Life]) -> dict[str, float]:
    shares: dict[str, dict[str, float]] = {}
    for life in history.lives:
        if life.role != role:
            continue
        if not life.parents:
            shares[life.name] = {life.name: 1.0}
            continue
        own: dict[str, float] = {}
        for parent, weight in zip(life.parents, life.weights, strict=True):
            for founder, share in shares[parent].items():
                own[founder] = own.get(founder, 0.0) + weight * share
        shares[life.name] = {founder: share for founder, share in own.items() if share > 0.0}
    mean: dict[str, float] = {}
    for life in living:
        for founder, share in shares[life.name].items():
            mean[founder] = mean.get(founder, 0.0) + share / len(living)
    return mean


def _lines_left(lives: list[Life], line: dict[str, str]) -> list[tuple[int, int]]:
    moves = [(life.born, line[life.name], 1) for life in lives]
    moves += [(life.ended, line[life.name], -1) for life in lives if life.ended is not None]
    count: Counter[str] = Counter()
    changes: list[tuple[int, int]] = []
    for time, group in groupby(sorted(moves), key=itemgetter(0)):
        for _time, founder, step in group:
            count[founder] += step
        left = sum(number > 0 for number in count.values())
        if not changes or changes[-1][1] != left:
            changes.append((time, left))
    return changes


def _kaplan_meier(ages: list[int], dead: list[int]) -> tuple[tuple[int, float], ...]:
    """Kaplan and Meier, "Nonparametric estimation from incomplete observations" (1958)."""
    at_risk, deaths, leaving = len(ages), Counter(dead), Counter(ages)
    share = 1.0
    curve = []
    for age in sorted(leaving):
        if deaths[age]:
            share *= 1.0 - deaths[age] / at_risk
            curve.append((age, share))
        at_risk -= leaving[age]
    return tuple(curve)
