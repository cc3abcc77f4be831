"""Who is best: fitness, leaderboard and payoff matrix; and selection of who is replaced."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from league.errors import LeagueError, UnknownMember, check_whole, is_finite
from league.pairing import expected_scores, tie_break
from league.ratings import lower_bound
from league.state import Member, State

FITNESS: dict[str, Callable[[Member], float | None]] = {
    "rating": lambda member: member.rating.mu,
    "lower_bound": lambda member: lower_bound(member.rating),
    "reward": lambda member: member.mean_reward,
}
"""Every fitness by the name that `LeagueConfig.fitness` gives it."""


@dataclass(frozen=True)
class Standing:
    """One row of a leaderboard; rates are None where there was no match.

    - lower_bound: mu - 3 sigma.
    - mean_solve_rate: right rollouts on valid tasks.
    - valid_rate: valid of all tasks.
    - unsolved_rate: unsolved of the attempted valid tasks.
    - mean_reward: per task for a teacher, the solve rate for a student, the mean of both in one
      population.
    - age: rounds since it came.
    - fitness: what the row is ranked by.
    - infra_errors: tasks lost to infrastructure, in none of the rates.
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
    fitness: float | None
    infra_errors: int = 0


_AS_IN_MEMBER = ("role", "slot", "matches", "mean_reward", "parents", "operator", "infra_errors")


def leaderboard(state: State, role: str) -> list[Standing]:
    """Return the living members of a role, best first; equals in random order."""
    fitness = _fitness(state, role)
    return [
        Standing(
            **{name: getattr(m, name) for name in _AS_IN_MEMBER},
            member=m.name,
            mu=m.rating.mu,
            sigma=m.rating.sigma,
            lower_bound=lower_bound(m.rating),
            mean_solve_rate=m.solved / m.attempts if m.attempts else None,
            valid_rate=m.valid / m.tasks if m.tasks else None,
            unsolved_rate=m.unsolved / m.tried if m.tried else None,
            age=len(state.rounds) - m.born,
            fitness=fitness[m.name],
        )
        for m in _best_first(state, role, fitness)
    ]


def select(
    state: State, role: str, count: int, fitness: Mapping[str, float] | None = None
) -> list[str]:
    """Return the names of the `count` least fit members, the weakest first.

    fitness: a finite fitness by name for exactly the living members of the role; the config's if
    None. A child that has played fewer than `config.grace_matches` matches is spared,
    and so is a member without a fitness; when too few are left, fewer are returned. A whole role
    is never selected. The same state gives the same answer.
    """
    if fitness is not None:
        _check(state, role, fitness)
    values = _fitness(state, role) if fitness is None else fitness
    members = _best_first(state, role, values)
    check_whole("n", count)
    if count >= len(members):
        raise LeagueError(
            f"cannot select {count} of {len(members)} {role}s; expected a whole number from 0 "
            f"to {len(members) - 1}: a role never dies out"
        )
    grace = state.config.grace_matches
    rated = [m for m in members[::-1] if values[m.name] is not None]
    return [m.name for m in rated if not m.parents or m.matches >= grace][:count]


def _fitness(state: State, role: str) -> dict[str, float | None]:
    measure = FITNESS[state.config.fitness]
    return {member.name: measure(member) for member in state.living(role)}


def _best_first(state: State, role: str, fitness: Mapping[str, float | None]) -> list[Member]:
    """Return the living members of a role; equals in random order, those without fitness last."""

    def order(member: Member) -> tuple[bool, float, int]:
        value, tie = fitness[member.name], tie_break(state.config.seed, "tie", member.name)
        return value is None, -(value or 0.0), tie

    return sorted(state.living(role), key=order)


def _check(state: State, role: str, fitness: Mapping[str, float]) -> None:
    names = set(state.slots[state.check_role(role)])
    for name, value in fitness.items():
        if name not in names:
            raise UnknownMember(f"fitness names {name!r}, which is no living {role}")
        if not is_finite(value):
            raise LeagueError(f"the fitness of {name} is {value!r}; expected a finite number")
    if lacking := sorted(names - fitness.keys()):
        raise LeagueError(f"fitness lacks {', '.join(lacking[:20])}; expected every living {role}")


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
    ranked = sorted(members, key=lambda m: -lower_bound(m.rating))[:top]
    return sorted(ranked, key=lambda m: m.slot)
