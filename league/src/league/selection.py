"""Fitness and leaderboard, and selection of who is replaced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError, UnknownMember, check_whole, is_finite
from league.probability import tie_break
from league.ratings import conservative
from league.state import Member, State

Values = list[float | None]


def ranked(
    state: State, role: str, given: Mapping[str, float] | None = None
) -> tuple[list[Member], dict[str, float | None]]:
    """Return the living members of a role, best first, and their fitness by name.

    given: fitness by name to use instead of the config's. Equals are in random order,
    those without a fitness last.
    """
    members = state.living(role)
    own = FITNESS[state.config.fitness]
    values = own(state, members) if given is None else [given[m.name] for m in members]
    by_name = {m.name: value for m, value in zip(members, values, strict=True)}

    def order(member: Member) -> tuple[bool, float, int]:
        value = by_name[member.name]
        tie = tie_break(state.config.seed, "tie", member.name)
        return (value is None, -value if value is not None else 0.0, tie)

    return sorted(members, key=order), by_name


def _blend(state: State, members: Sequence[Member]) -> Values:
    """(1 - w) times the rating plus w times the reward, w = config.blend_reward.

    Both in standard deviations from the mean of those members that have a reward, and 0 where
    all are alike.
    """
    rated = [m for m in members if m.mean_reward is not None]
    share = state.config.blend_reward
    ratings = _standardised([m.rating.mu for m in rated])
    rewards = _standardised([m.mean_reward or 0.0 for m in rated])
    rows = zip(rated, ratings, rewards, strict=True)
    blend = {m.name: (1.0 - share) * a + share * b for m, a, b in rows}
    return [blend.get(member.name) for member in members]


def _standardised(values: Sequence[float]) -> list[float]:
    column = np.array(values)
    spread = float(column.std()) if values else 0.0
    # The deviation of equal numbers is 0 up to rounding.
    if spread <= 1e-12 * float(np.abs(column).max(initial=1.0)):
        return [0.0] * len(values)
    return [float(v) for v in (column - column.mean()) / spread]


FITNESS: dict[str, Callable[[State, Sequence[Member]], Values]] = {
    "rating": lambda state, them: [m.rating.mu for m in them],
    "lower_bound": lambda state, them: [conservative(m.rating, state.config.model) for m in them],
    "reward": lambda state, them: [m.mean_reward for m in them],
    "blend": _blend,
}
"""Every fitness by the name that `LeagueConfig.fitness` gives it."""


@dataclass(frozen=True)
class Standing:
    """One row of a leaderboard; rates are None where there was no match."""

    member: str
    role: str
    slot: int
    mu: float
    sigma: float
    conservative: float
    """mu - 3 sigma (TrueSkill's `expose`)."""
    matches: int
    mean_solve_rate: float | None
    """Right rollouts on valid tasks."""
    valid_rate: float | None
    """Valid of all tasks."""
    unsolved_rate: float | None
    """Unsolved of the attempted valid tasks."""
    mean_reward: float | None
    """Per task for a teacher, the solve rate for a student, the mean of both in one population."""
    age: int
    """Rounds since it came."""
    parents: tuple[str, ...]
    operator: str
    fitness: float | None
    """What the row is ranked by."""
    infra_errors: int = 0
    """Tasks lost to infrastructure, in none of the rates."""


_AS_IN_MEMBER = ("role", "slot", "matches", "mean_reward", "parents", "operator", "infra_errors")


def leaderboard(state: State, role: str) -> list[Standing]:
    """Return the living members of a role, best first; equals in random order."""
    members, fitness = ranked(state, role)
    return [
        Standing(
            **{name: getattr(m, name) for name in _AS_IN_MEMBER},
            member=m.name,
            mu=m.rating.mu,
            sigma=m.rating.sigma,
            conservative=conservative(m.rating, state.config.model),
            mean_solve_rate=m.solved / m.attempts if m.attempts else None,
            valid_rate=m.valid / m.tasks if m.tasks else None,
            unsolved_rate=m.unsolved / m.tried if m.tried else None,
            age=len(state.rounds) - m.born,
            fitness=fitness[m.name],
        )
        for m in members
    ]


def select(
    state: State, role: str, count: int, given: Mapping[str, float] | None = None
) -> list[str]:
    """Return the names of the `count` least fit members, the weakest first.

    given: a finite fitness by name for exactly the living members of the role; the config's if
    None. A child that has played fewer than `config.grace_matches` matches is spared,
    and so is a member without a fitness; when too few are left, fewer are returned. A whole role
    is never selected. The same state gives the same answer.
    """
    if given is not None:
        _check(state, role, given)
    members, values = ranked(state, role, given)
    check_whole("n", count)
    if count >= len(members):
        raise LeagueError(
            f"cannot select {count} of {len(members)} {role}s; expected a whole number from 0 "
            f"to {len(members) - 1}: a role never dies out"
        )
    weakest = [m for m in members[::-1] if values[m.name] is not None and not is_newborn(state, m)]
    return [member.name for member in weakest[:count]]


def is_newborn(state: State, member: Member) -> bool:
    """Return whether a member is a child of fewer than `config.grace_matches` matches."""
    return bool(member.parents) and member.matches < state.config.grace_matches


def _check(state: State, role: str, given: Mapping[str, float]) -> None:
    names = set(state.slots[state.check_role(role)])
    for name, value in given.items():
        if name not in names:
            raise UnknownMember(f"fitness names {name!r}, which is no living {role}")
        if not is_finite(value):
            raise LeagueError(f"the fitness of {name} is {value!r}; expected a finite number")
    if lacking := sorted(names - given.keys()):
        raise LeagueError(f"fitness lacks {', '.join(lacking[:20])}; expected every living {role}")
