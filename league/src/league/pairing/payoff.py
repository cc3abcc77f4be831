"""What matches are expected to bring, and the payoff matrix of what they brought."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from league.basics.data import Cells, Floats, PlainData
from league.basics.errors import LeagueError
from league.rating.rating import Skills
from league.state.config import scheme_of
from league.state.records import STUDENT, TEACHER, Member
from league.state.state import State


def expected_scores(state: State, teachers: Sequence[Member], students: Sequence[Member]) -> Floats:
    """Return the students' expected share of the tasks, shape [teachers, students], in [0, 1].

    By ratings p is what the league's scheme predicts, and by default
    Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)); with n faded tasks of
    history at mean r it becomes (n r + n0 p) / (n + n0), n0 = config.history_tasks, which picks
    up what one number per member cannot say. The share is the solve rate when all tasks are
    valid; an invalid task counts as won by the student.
    """
    column = Skills.of([m.rating for m in teachers]).as_rows()
    row = Skills.of([m.rating for m in students])
    scores = scheme_of(state.config).predict(column, row)
    for i, teacher in enumerate(teachers):
        for j, student in enumerate(students):
            if (teacher.name, student.name) in state.meetings:
                scores[i, j] = _blended(state, float(scores[i, j]), teacher, student)
    return np.asarray(scores, dtype=np.float64)


def expected_of_pairs(state: State, pairs: Sequence[tuple[Member, Member]]) -> Floats:
    """Return what `expected_scores` says of n (teacher, student) pairs alone, shape [n]."""
    if not pairs:
        return np.zeros(0)
    teachers, students = (Skills.of([pair[i].rating for pair in pairs]) for i in (0, 1))
    scores = scheme_of(state.config).predict(teachers, students)
    for i, pair in enumerate(pairs):
        scores[i] = _blended(state, float(scores[i]), *pair)
    return np.asarray(scores, dtype=np.float64)


def _blended(state: State, score: float, teacher: Member, student: Member) -> float:
    """The rating's prediction together with the faded past of the pair, if there is any."""
    meeting, prior = state.meeting(teacher.name, student.name), state.config.history_tasks
    if meeting.past_tasks <= 0.0:
        return score
    return (meeting.past_won + prior * score) / (meeting.past_tasks + prior)


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
