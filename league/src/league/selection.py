"""Fitness, leaderboard and payoff matrix; and selection of the members to replace."""

from dataclasses import dataclass, replace

from league.config import FITNESSES
from league.errors import LeagueError, check_whole
from league.pairing import expected_scores, tie_break
from league.ratings import lower_bound
from league.state import MEMBER, STUDENT, TEACHER, State


@dataclass(frozen=True)
class Standing:
    """One row of a leaderboard; rates are None where there was no match.

    - lower_bound: mu - 3 sigma.
    - mean_solve_rate: right rollouts on valid tasks.
    - valid_rate: valid of all tasks.
    - unsolved_rate: unsolved of the attempted valid tasks.
    - mean_reward: per task for a teacher, the solve rate for a student, the mean of both in one
      population.
    - age: rounds since the member came.
    - fitness: the number by which rows are ranked.
    - infra_errors: tasks lost to infrastructure, which no rate counts.
    """

    member: str
    role: str
    slot: int
    mu: float
    sigma: float
    lower_bound: float
    matches: int
    mean_solve_rate: float | None
    valid_rate: float | None
    unsolved_rate: float | None
    mean_reward: float | None
    age: int
    parents: tuple[str, ...]
    operator: str
    fitness: float | None = None
    infra_errors: int = 0


def leaderboard(state: State, role: str) -> list[Standing]:
    """Return the living members of a role, best first; equals in random order, those without
    fitness last."""
    rows, field = [], FITNESSES[state.config.fitness]
    for m in state.living(role):
        taught, solved = state.results(m)
        rewards = {TEACHER: [taught.reward], STUDENT: [solved.solve_rate]}
        rewards[MEMBER] = rewards[STUDENT] + rewards[TEACHER]
        numbers = [reward for reward in rewards[role] if reward is not None]
        row = Standing(
            *(m.name, role, m.slot, m.rating.mu, m.rating.sigma, lower_bound(m.rating)),
            matches=taught.matches + (solved.matches if role == MEMBER else 0),
            mean_solve_rate=solved.solve_rate,
            valid_rate=taught.valid / taught.tasks if taught.tasks else None,
            unsolved_rate=taught.unsolved / taught.tried if taught.tried else None,
            mean_reward=sum(numbers) / len(numbers) if numbers else None,
            age=len(state.rounds) - m.born,
            parents=m.parents,
            operator=m.operator,
            infra_errors=taught.infra_errors,
        )
        drawn = tie_break(state.config.seed, "fitness", len(state.rounds), m.name) / 2**64
        rows.append(replace(row, fitness=getattr(row, field) if field else drawn))
    rows.sort(key=lambda row: tie_break(state.config.seed, "tie", row.member))
    return sorted(rows, key=lambda row: (row.fitness is None, -(row.fitness or 0.0)))


def select(state: State, role: str, count: int) -> list[str]:
    """Return the names of the `count` least fit members, the weakest first.

    A child with fewer than `config.grace_matches` matches is spared, and so is a member without a
    fitness, so that fewer may be returned. A whole role is never selected. The result depends only
    on the state.
    """
    board = leaderboard(state, role)
    check_whole("n", count)
    if count >= len(board):
        raise LeagueError(
            f"cannot select {count} of {len(board)} {role}s; expected a whole number from 0 "
            f"to {len(board) - 1}: a role never dies out"
        )
    grace = state.config.grace_matches
    rated = [row for row in board[::-1] if row.fitness is not None]
    return [row.member for row in rated if not row.parents or row.matches >= grace][:count]


Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Payoff:
    """Matrices of shape [teachers, students]; None where two members have never met.

    - observed: right rollouts on valid tasks; also None if there was no attempt.
    - share: the student's share of the tasks; it wins an invalid one, as in the ratings.
    - expected: that share as expected by rating and history.
    - tasks: number of tasks.
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
    if top is not None:
        check_whole("top", top, 1)
    best = (sorted(side, key=lambda m: -lower_bound(m.rating))[:top] for side in state.sides())
    teachers, students = (sorted(side, key=lambda m: m.slot) for side in best)
    met = [[state.meeting(t.name, s.name) for s in students] for t in teachers]
    return Payoff(
        teachers=tuple(t.name for t in teachers),
        students=tuple(s.name for s in students),
        observed=tuple(tuple(m.solve_rate for m in row) for row in met),
        share=tuple(tuple(m.won / m.counted if m.counted else None for m in row) for row in met),
        expected=tuple(map(tuple, expected_scores(state, teachers, students).tolist())),
        tasks=tuple(tuple(m.tasks for m in row) for row in met),
    )
