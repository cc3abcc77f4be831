"""Lineage: how long members last, and whose descendants are left."""

from collections import Counter
from dataclasses import dataclass

from league.history.lives import History, Life
from league.plain import PlainData
from league.state.member import ROLES, STUDENT, TEACHER

_FOUNDERS = 512


@dataclass(frozen=True)
class Lifetime:
    """One member. rounds: how many were paired while it lived, so far if it is `living`."""

    member: str
    born: int
    rounds: int
    living: bool


@dataclass(frozen=True)
class Line:
    """What is left of a founder. living: members that descend from it through their main parents
    (the heaviest, the first of equals), itself included. ancestry: the mean share of it in all
    living members, weights of all parents multiplied down the tree; None in large leagues."""

    founder: str
    living: int
    ancestry: float | None


@dataclass(frozen=True)
class RoleSurvival:
    """Times are numbers of paired rounds.

    curve: (age, share of members that reach more than it), Kaplan and Meier's estimate, which
    counts the living as "not yet". median_life: the first age at which the curve is at most one
    half; None if it never is. lines: one row per founder, most descendants first. founders_alive:
    founders with any living descendant, by any parent (by main parents in large leagues).
    lines_left: (rounds, founder lines among the living), each time it changes. takeover: since
    when all living members come from one founder by main parents; None if they do not.
    """

    role: str
    members: int
    living: int
    lifetimes: tuple[Lifetime, ...]
    curve: tuple[tuple[int, float], ...]
    median_life: int | None
    lines: tuple[Line, ...]
    founders_alive: int
    lines_left: tuple[tuple[int, int], ...]
    takeover: int | None
    takeover_by: str | None


@dataclass(frozen=True)
class Survival(PlainData):
    """Both roles, and what had to be left out."""

    teachers: RoleSurvival
    students: RoleSurvival
    notes: tuple[str, ...]


def survival(history: History) -> Survival:
    """Return lifetimes and lineages of both roles; anchors are not members here."""
    crowded = [r for r in ROLES if sum(_founder(x) for x in _members(history, r)) > _FOUNDERS]
    notes = [f"more than {_FOUNDERS} founding {r}s: ancestry is by main parents" for r in crowded]
    return Survival(
        teachers=_role(history, TEACHER, TEACHER in crowded),
        students=_role(history, STUDENT, STUDENT in crowded),
        notes=tuple(notes),
    )


def _members(history: History, role: str) -> list[Life]:
    return [life for life in history.lives if life.role == role and not life.anchor]


def _founder(life: Life) -> bool:
    return not life.parents


def _role(history: History, role: str, crowded: bool) -> RoleSurvival:
    lives = _members(history, role)
    living = [life for life in lives if life.ended is None]
    # Anchors may be parents too, so lines are followed through every life of the role.
    line = _main_lines([life for life in history.lives if life.role == role])
    left = Counter(line[life.name] for life in living)
    ancestry = None if crowded else _ancestry(history, role, living)
    founders = [life.name for life in lives if _founder(life)]
    founders += sorted(set(left) - set(founders))
    lines = [Line(n, left[n], None if ancestry is None else ancestry.get(n, 0.0)) for n in founders]
    changes = _lines_left(lives, line)
    taken = changes[-1][0] if changes and changes[-1][1] == 1 else None
    curve = _kaplan_meier(history, lives)
    return RoleSurvival(
        role=role,
        members=len(lives),
        living=len(living),
        lifetimes=tuple(
            Lifetime(life.name, life.born, _age(history, life), life.ended is None)
            for life in lives
        ),
        curve=curve,
        median_life=next((age for age, share in curve if share <= 0.5), None),
        lines=tuple(sorted(lines, key=lambda row: (-row.living, -(row.ancestry or 0.0)))),
        founders_alive=sum((row.ancestry or row.living) > 0 for row in lines),
        lines_left=tuple(changes),
        takeover=taken,
        takeover_by=line[living[0].name] if taken is not None and living else None,
    )


def _age(history: History, life: Life) -> int:
    return (history.rounds if life.ended is None else life.ended) - life.born


def _main_lines(lives: list[Life]) -> dict[str, str]:
    """The founder of each member by main parents; lives are in order of arrival."""
    line: dict[str, str] = {}
    for life in lives:
        if life.parents:
            heaviest = max(range(len(life.parents)), key=lambda i: (life.weights[i], -i))
            line[life.name] = line[life.parents[heaviest]]
        else:
            line[life.name] = life.name
    return line


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
    moves: dict[int, list[tuple[str, int]]] = {}
    for life in lives:
        moves.setdefault(life.born, []).append((line[life.name], 1))
        if life.ended is not None:
            moves.setdefault(life.ended, []).append((line[life.name], -1))
    count: Counter[str] = Counter()
    changes: list[tuple[int, int]] = []
    for time in sorted(moves):
        for founder, step in moves[time]:
            count[founder] += step
        left = sum(number > 0 for number in count.values())
        if not changes or changes[-1][1] != left:
            changes.append((time, left))
    return changes


def _kaplan_meier(history: History, lives: list[Life]) -> tuple[tuple[int, float], ...]:
    """Kaplan and Meier, "Nonparametric estimation from incomplete observations" (1958)."""
    at_risk = len(lives)
    deaths = Counter(_age(history, life) for life in lives if life.ended is not None)
    leaving = Counter(_age(history, life) for life in lives)
    share = 1.0
    curve = []
    for age in sorted(leaving):
        if deaths[age]:
            share *= 1.0 - deaths[age] / at_risk
            curve.append((age, share))
        at_risk -= leaving[age]
    return tuple(curve)
