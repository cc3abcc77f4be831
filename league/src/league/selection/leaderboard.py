"""Fitness, the number that members of a role are ranked by, and the board of who stands where."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from league.basics.data import PlainData
from league.basics.streams import tie_break
from league.rating.rating import conservative
from league.state.records import Member
from league.state.state import State

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
    all are alike: a rating sees whether tasks are solved, a reward whether they were worth it.
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
class Standing(PlainData):
    """One row of a leaderboard; rates are None where nothing was played."""

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
    """Per task for a teacher, the solve rate for a student."""
    age: int
    """Rounds since it came."""
    parents: tuple[str, ...]
    operator: str
    fitness: float | None
    """What the row is ranked by."""
    void: int = 0
    """Tasks lost by our own fault, in none of the rates."""


_AS_IN_MEMBER = ("role", "slot", "matches", "mean_reward", "parents", "operator", "void")


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
