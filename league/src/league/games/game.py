"""The game that teachers and students play: the student's share of the tasks, cell by cell.

The students want each cell high, the teachers want it low: a zero-sum game of shape
[teachers, students]. An invalid task counts as won by the student, as in the ratings; leaving it
out would make a broken teacher unbeatable.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import LeagueError, whole_number
from league.history.history import History, Life, Match
from league.rating.rating import Skills
from league.state.config import scheme_of
from league.state.records import STUDENT, TEACHER

FILL = "predicted"
_SHOWN = 6


@dataclass(frozen=True)
class Played:
    """What the best members played against each other."""

    teachers: tuple[Life, ...]
    students: tuple[Life, ...]
    won: Floats
    """Tasks won by the student, shape [teachers, students]."""
    counted: Floats
    """Tasks with a winner, of the same shape."""
    notes: tuple[str, ...]
    """What was left out."""

    def meetings(self, history: History, since: int) -> Iterator[tuple[tuple[int, int], Match]]:
        """Yield the cell and the match of all that these members played from a round on."""
        rows = {life.name: i for i, life in enumerate(self.teachers)}
        columns = {life.name: j for j, life in enumerate(self.students)}
        for match in history.matches:
            if match.round >= since and match.teacher in rows and match.student in columns:
                yield (rows[match.teacher], columns[match.student]), match


@dataclass(frozen=True)
class Game(PlainData):
    """A full matrix of the students' shares of the tasks."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    share: tuple[tuple[float, ...], ...]
    """share[t][s], in [0, 1]."""
    tasks: tuple[tuple[int, ...], ...]
    """How many tasks each cell rests on, 0 where it was filled."""
    filled: float
    """The share of cells that are the ratings' prediction and no observation."""
    notes: tuple[str, ...]
    """What was left out or filled."""

    def matrix(self) -> Floats:
        """The shares as an array of shape [teachers, students]."""
        return np.array(self.share, dtype=np.float64)


def played(history: History, top: int, since: int = 0, replaced: bool = False) -> Played:
    """Return what the best members of each role played, as `game` describes."""
    whole_number("since", since)
    notes = ["replaced members are among them"] if replaced else []
    sides = []
    for role in (TEACHER, STUDENT):
        members = history.everyone(role) if replaced else history.living(role)
        sides.append(_best(members, top))
        if len(sides[-1]) < len(members):
            notes.append(f"the best {len(sides[-1])} of {len(members)} {role}s by mu - 3 sigma")
    if since:
        notes.append(f"matches from round {since} on")
    won, counted = np.zeros((2, len(sides[0]), len(sides[1])))
    found = Played(tuple(sides[0]), tuple(sides[1]), won, counted, tuple(notes))
    for cell, match in found.meetings(history, since):
        won[cell] += match.won
        counted[cell] += match.counted
    return found


def _best(members: list[Life], count: int) -> list[Life]:
    """The `count` members with the highest mu - 3 sigma, in the order given."""
    whole_number("top", count, 1)
    lower = [life.rating.mu - 3.0 * life.rating.sigma for life in members]
    chosen = sorted(range(len(members)), key=lambda i: -lower[i])[:count]
    return [members[i] for i in sorted(chosen)]


def game(
    history: History,
    *,
    fill: str | None = None,
    top: int = 256,
    since: int = 0,
    replaced: bool = False,
) -> Game:
    """Return the game of the best members of each role.

    fill: what stands where two never met; None refuses such a game, "predicted" takes what the
    league's rating scheme predicts. top: how many members of each role, those with the highest
    mu - 3 sigma. since: leave out earlier rounds. replaced: take former members too, with the
    ratings they ended with.
    Raises LeagueError naming the missing pairs if there are any and fill is None.
    """
    if fill not in (None, FILL):
        raise LeagueError(f"fill is {fill!r}; expected None or {FILL!r}")
    found = played(history, top, since, replaced)
    teachers, students = ([life.name for life in x] for x in (found.teachers, found.students))
    empty = found.counted == 0.0
    missing = np.argwhere(empty).tolist()
    notes = list(found.notes)
    if missing and fill is None:
        shown = ", ".join(f"{teachers[i]} with {students[j]}" for i, j in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise LeagueError(
            f"{len(missing)} of {found.won.size} pairs have never met: {shown}{more}; play them, "
            f"or use fill={FILL!r} (--fill {FILL}) to put the ratings' prediction in their place"
        )
    observed = found.won / np.where(empty, 1, found.counted)
    share = np.where(empty, _predicted(history, found), observed)
    if missing:
        notes.append(
            f"{len(missing)} of {found.won.size} pairs have never met and are predicted by rating"
        )
    return Game(
        teachers=tuple(teachers),
        students=tuple(students),
        share=tuple(tuple(row) for row in share.tolist()),
        tasks=tuple(tuple(int(n) for n in row) for row in found.counted.tolist()),
        filled=len(missing) / found.won.size,
        notes=tuple(notes),
    )


def _predicted(history: History, found: Played) -> Floats:
    """The ratings' prediction of each cell, shape [teachers, students], in [0, 1]."""
    rows = Skills.of([life.rating for life in found.teachers]).as_rows()
    columns = Skills.of([life.rating for life in found.students])
    return scheme_of(history.config).predict(rows, columns)
