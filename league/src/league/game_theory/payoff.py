"""Payoff matrix of the living members: observed and expected shares of tasks, pair by pair."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError, check_whole
from league.pairing import expected_scores
from league.probability import Floats
from league.records import Member
from league.state import State

Cells = tuple[tuple[float | None, ...], ...]

_LIMIT = 512


@dataclass(frozen=True)
class Payoff:
    """Matrices of shape [teachers, students]; None where two members have never met."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    observed: Cells
    """Right rollouts on valid tasks; also None if there was no attempt."""
    share: Cells
    """The student's share of the tasks; it wins an invalid one, as in the ratings."""
    expected: tuple[tuple[float, ...], ...]
    """That share as expected by rating and history."""
    tasks: tuple[tuple[int, ...], ...]
    """How many tasks the cell rests on."""

    def matrix(self, fill: bool = False) -> Floats:
        """Return the shares as a zero-sum game: students want them high, teachers low.

        fill: put the expected share where two have never met; LeagueError otherwise.
        """
        pairs = [(t, s) for t in range(len(self.teachers)) for s in range(len(self.students))]
        missing = [(t, s) for t, s in pairs if self.share[t][s] is None]
        if missing and not fill:
            named = (f"{self.teachers[t]} with {self.students[s]}" for t, s in missing[:6])
            raise LeagueError(
                f"{len(missing)} of {len(pairs)} pairs have never met, such as {', '.join(named)}; "
                "use fill=True to put the expected share in their place"
            )
        matrix = np.array(self.expected, dtype=np.float64)
        for t, s in set(pairs) - set(missing):
            matrix[t, s] = self.share[t][s]
        return matrix


def payoff(state: State, top: int | None = None) -> Payoff:
    """Return the payoff matrices of the living members, by slot.

    top: only the members with the highest mu - 3 sigma of each side; LeagueError above 512 a side.
    """
    teachers, students = (_best(members, top) for members in state.sides())
    if max(len(teachers), len(students)) > _LIMIT:
        raise LeagueError(
            f"{len(teachers)} x {len(students)} members are too many for a payoff matrix; expected "
            f"at most {_LIMIT} a side: give top"
        )
    won: dict[tuple[str, str], float] = defaultdict(float)
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for pair_id, outcome in state.outcomes.items():
        key = (state.pairs[pair_id].teacher, state.pairs[pair_id].student)
        won[key] += outcome.counted * outcome.student_score
        counted[key] += outcome.counted
    names = [[(t.name, s.name) for s in students] for t in teachers]
    expected = expected_scores(state, teachers, students).tolist()
    return Payoff(
        teachers=tuple(t.name for t in teachers),
        students=tuple(s.name for s in students),
        observed=tuple(tuple(state.meeting(*key).solve_rate for key in row) for row in names),
        share=tuple(
            tuple(won[key] / counted[key] if counted.get(key) else None for key in row)
            for row in names
        ),
        expected=tuple(tuple(row) for row in expected),
        tasks=tuple(tuple(state.meeting(*key).tasks for key in row) for row in names),
    )


def _best(members: list[Member], top: int | None) -> list[Member]:
    if top is None:
        return members
    check_whole("top", top, 1)
    ranked = sorted(members, key=lambda m: 3.0 * m.rating.sigma - m.rating.mu)[:top]
    return sorted(ranked, key=lambda m: m.slot)
