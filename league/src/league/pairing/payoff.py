"""The payoff matrix: what happened between the living teachers and students."""

from dataclasses import dataclass

from league.errors import LeagueError
from league.pairing.expectation import expected_scores
from league.plain_data import Cells, PlainData
from league.roles import STUDENT, TEACHER
from league.state.state import State

_LIMIT = 512


@dataclass(frozen=True)
class Payoff(PlainData):
    """Matrices of shape [teachers, students]; None where two members have never met."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    observed: Cells
    """Right rollouts on valid tasks; also None if there was no attempt."""
    blended: Cells
    """The student's expected share of tasks, by rating and history, as matchmaking uses it."""
    tasks: tuple[tuple[int, ...], ...]
    """How many tasks the cell rests on."""


def payoff(state: State) -> Payoff:
    """Return the payoff matrices of the living members, by slot; LeagueError above 512 a side."""
    teachers, students = state.living(TEACHER), state.living(STUDENT)
    if max(len(teachers), len(students)) > _LIMIT:
        raise LeagueError(
            f"a payoff matrix of {len(teachers)} x {len(students)} members is too large; expected "
            f"at most {_LIMIT} a side: read the pairs that have met from state.meetings"
        )
    expected = expected_scores(state, teachers, students)
    cells = [[state.meeting(t.name, s.name) for s in students] for t in teachers]
    return Payoff(
        teachers=tuple(t.name for t in teachers),
        students=tuple(s.name for s in students),
        observed=tuple(tuple(m.solve_rate for m in row) for row in cells),
        blended=tuple(
            tuple(float(expected[i, j]) if m.matches else None for j, m in enumerate(row))
            for i, row in enumerate(cells)
        ),
        tasks=tuple(tuple(m.tasks for m in row) for row in cells),
    )
