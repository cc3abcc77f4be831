"""Generation against generation: how later students do against earlier teachers, and back.

Cliff and Miller, "Tracking the Red Queen" (1995): ratings of two sides that learn together may
stand still while both improve; meetings across birth cohorts show who has moved.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from league.basics.data import Cells, PlainData
from league.basics.errors import whole_number
from league.history.history import History
from league.state.records import ROLES, STUDENT, TEACHER


@dataclass(frozen=True)
class Cohort:
    """Members of one role that came when first <= n <= last rounds had been paired."""

    role: str
    first: int
    last: int
    members: int
    """Anchors included."""
    living: int
    """Anchors left out."""


@dataclass(frozen=True)
class Generations(PlainData):
    """Matrices of shape [teachers' cohorts, students' cohorts], oldest first.

    Progress of the students shows as rates that rise along a row.
    """

    teachers: tuple[Cohort, ...]
    students: tuple[Cohort, ...]
    solve_rate: Cells
    """Right rollouts on valid tasks, over all their meetings; None where no two members of these
    cohorts ever met."""
    tasks: tuple[tuple[int, ...], ...]
    """Valid tasks that the cell rests on."""
    matches: tuple[tuple[int, ...], ...]
    """How many matches the cell rests on."""
    notes: tuple[str, ...]


def generations(history: History, *, cohorts: int = 12) -> Generations:
    """Return solve rates by birth cohort, of the living, the replaced and the anchors.

    An anchor that is a copy belongs to the cohort of the member it is a copy of. Members born in
    one round are a cohort; where there would be more than `cohorts` of a role, the rounds are cut
    into that many equal spans and the empty ones left out.
    """
    whole_number("cohorts", cohorts, 1)
    births: dict[str, int] = {}
    for life in history.lives:
        copied = life.anchor and life.parents
        births[life.name] = births[life.parents[0]] if copied else life.born
    found = {role: _cohorts(history, births, role, cohorts) for role in ROLES}
    place = {
        life.name: next(i for i, x in enumerate(found[life.role]) if births[life.name] <= x.last)
        for life in history.lives
    }
    counts = np.zeros((len(found[TEACHER]), len(found[STUDENT]), 4), dtype=np.int64)
    for match in history.matches:
        cell = counts[place[match.teacher], place[match.student]]
        cell += (match.solved, match.attempts, match.valid, 1)
    alone = "nobody has been replaced: there is one generation of each role"
    rows = counts.tolist()
    return Generations(
        teachers=found[TEACHER],
        students=found[STUDENT],
        solve_rate=tuple(tuple(c[0] / c[1] if c[1] else None for c in row) for row in rows),
        tasks=tuple(tuple(c[2] for c in row) for row in rows),
        matches=tuple(tuple(c[3] for c in row) for row in rows),
        notes=(alone,) if counts.shape[:2] == (1, 1) else (),
    )


def _cohorts(history: History, births: dict[str, int], role: str, limit: int) -> tuple[Cohort, ...]:
    lives = [life for life in history.lives if life.role == role]
    born = sorted({births[life.name] for life in lives})
    spans = [(time, time) for time in born]
    if len(born) > limit:
        width = (history.rounds + 1) / limit
        edges = [round(i * width) for i in range(limit + 1)]
        spans = [(a, b - 1) for a, b in pairwise(edges)]
        spans = [span for span in spans if any(span[0] <= time <= span[1] for time in born)]
    rows = []
    for first, last in spans:
        inside = [life for life in lives if first <= births[life.name] <= last]
        living = sum(life.ended is None and not life.anchor for life in inside)
        rows.append(Cohort(role, first, last, len(inside), living))
    return tuple(rows)
