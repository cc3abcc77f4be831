"""The payoff matrix: what happened between the living teachers and students."""

from dataclasses import asdict, dataclass
from typing import Any

from league.errors import LeagueError
from league.expectation import expected_scores
from league.member import STUDENT, TEACHER
from league.state import Meeting, State

_LIMIT = 512

Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Payoff:
    """Matrices of shape [teachers, students]; None where two members have never met.

    observed: right rollouts on valid tasks (also None if there was no attempt). blended: the
    student's expected share of tasks, by rating and history, as matchmaking uses it. tasks: how
    many tasks the cell rests on.
    """

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    observed: Cells
    blended: Cells
    tasks: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict of lists."""
        return asdict(self)


def payoff(state: State) -> Payoff:
    """Return the payoff matrices of the living members, by slot; LeagueError above 512 a side."""
    teachers, students = state.living(TEACHER), state.living(STUDENT)
    if max(len(teachers), len(students)) > _LIMIT:
        raise LeagueError(
            f"a payoff matrix of {len(teachers)} x {len(students)} members is too large; expected "
            f"at most {_LIMIT} a side: read the pairs that have met from state.meetings"
        )
    expected = expected_scores(state, teachers, students)
    nothing = Meeting()
    cells = [[state.meetings.get((t.name, s.name), nothing) for s in students] for t in teachers]
    return Payoff(
        teachers=tuple(t.name for t in teachers),
        students=tuple(s.name for s in students),
        observed=tuple(
            tuple(m.solved / m.attempts if m.attempts else None for m in row) for row in cells
        ),
        blended=tuple(
            tuple(float(expected[i, j]) if m.matches else None for j, m in enumerate(row))
            for i, row in enumerate(cells)
        ),
        tasks=tuple(tuple(m.tasks for m in row) for row in cells),
    )
