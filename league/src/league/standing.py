"""The leaderboard, and its lower end: who is selected for replacement."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from league.errors import LeagueError
from league.member import Member
from league.rating import conservative
from league.state import State
from league.streams import lot


@dataclass(frozen=True)
class Standing:
    """One row of a leaderboard; rates are None where nothing was played.

    conservative: mu - 3 sigma (TrueSkill's `expose`). mean_solve_rate: right rollouts on valid
    tasks. valid_rate: valid of all tasks. unsolved_rate: unsolved of the attempted valid tasks.
    mean_reward: per task for a teacher, the solve rate for a student. age: rounds since it came.
    fitness: what the row is ranked by.
    """

    member: str
    role: str
    slot: int
    mu: float
    sigma: float
    conservative: float
    matches: int
    mean_solve_rate: float | None
    valid_rate: float | None
    unsolved_rate: float | None
    mean_reward: float | None
    age: int
    parents: tuple[str, ...]
    operator: str
    fitness: float | None

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self) | {"parents": list(self.parents)}


def fitness(state: State, member: Member) -> float | None:
    """Return the member's fitness under `config.fitness`; None when it has no evidence yet."""
    return _FITNESS[state.config.fitness](state, member)


def leaderboard(state: State, role: str) -> list[Standing]:
    """Return the living members of a role, best first; equals in an order drawn by lot."""
    return [_standing(state, member) for member in _ranked(state, role)]


def weakest(state: State, role: str, count: int) -> list[str]:
    """Return the names of the `count` least fit, weakest first.

    A child that has played fewer than `config.grace_matches` matches is spared, and so is a member
    without a fitness; when too few are left, fewer are returned.
    """
    ranked = _ranked(state, role)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= len(ranked):
        raise LeagueError(f"cannot select {count!r} of {len(ranked)} {role}s")
    eligible = [
        member.name
        for member in reversed(ranked)
        if fitness(state, member) is not None
        and (not member.parents or member.matches >= state.config.grace_matches)
    ]
    return eligible[:count]


def _ranked(state: State, role: str) -> list[Member]:
    def order(member: Member) -> tuple[bool, float, int]:
        value = fitness(state, member)
        tie = lot(state.config.seed, "tie", member.name)
        return (value is None, -value if value is not None else 0.0, tie)

    return sorted(state.living(role), key=order)


def _standing(state: State, member: Member) -> Standing:
    return Standing(
        member=member.name,
        role=member.role,
        slot=member.slot,
        mu=member.rating.mu,
        sigma=member.rating.sigma,
        conservative=conservative(member.rating, state.config.model),
        matches=member.matches,
        mean_solve_rate=member.solved / member.attempts if member.attempts else None,
        valid_rate=member.valid / member.tasks if member.tasks else None,
        unsolved_rate=member.unsolved / member.tried if member.tried else None,
        mean_reward=member.mean_reward,
        age=len(state.rounds) - member.born,
        parents=member.parents,
        operator=member.operator,
        fitness=fitness(state, member),
    )


def _by_rating(state: State, member: Member) -> float | None:
    return member.rating.mu


def _by_lower_bound(state: State, member: Member) -> float | None:
    return conservative(member.rating, state.config.model)


def _by_reward(state: State, member: Member) -> float | None:
    return member.mean_reward


_FITNESS: dict[str, Callable[[State, Member], float | None]] = {
    "rating": _by_rating,
    "lower_bound": _by_lower_bound,
    "reward": _by_reward,
}
