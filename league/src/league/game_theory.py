"""The payoff matrix of a league: who of the living members solves whose tasks."""

from collections import defaultdict
from dataclasses import dataclass

from league.errors import check_whole
from league.pairing import expected_scores
from league.state import Member, State

Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Payoff:
    """Matrices of shape [teachers, students]; None where two members have never met.

    - observed: right rollouts on valid tasks; also None if there was no attempt.
    - share: the student's share of the tasks; it wins an invalid one, as in the ratings.
    - expected: that share as expected by rating and history.
    - tasks: how many tasks the cell rests on.
    """

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    observed: Cells
    share: Cells
    expected: tuple[tuple[float, ...], ...]
    tasks: tuple[tuple[int, ...], ...]


def payoff(state: State, top: int | None = None) -> Payoff:
    """Return the payoff matrices of the living members, by slot.

    top: only the members with the highest mu - 3 sigma of each side.
    """
    teachers, students = (_best(members, top) for members in state.sides())
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
        expected=tuple(map(tuple, expected)),
        tasks=tuple(tuple(state.meeting(*key).tasks for key in row) for row in names),
    )


def _best(members: list[Member], top: int | None) -> list[Member]:
    if top is None:
        return members
    check_whole("top", top, 1)
    ranked = sorted(members, key=lambda m: 3.0 * m.rating.sigma - m.rating.mu)[:top]
    return sorted(ranked, key=lambda m: m.slot)
