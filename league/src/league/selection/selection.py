"""Selection, who has to go, and the hall of fame, whose copies stay."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from league.basics.errors import LeagueError, UnknownMember, is_finite
from league.basics.streams import stream
from league.rating.rating import Rating
from league.selection.leaderboard import ranked
from league.state.records import ADDED, ROLES, Member
from league.state.state import State


def select(
    state: State, role: str, count: int, given: Mapping[str, float] | None = None
) -> list[str]:
    """Return the names of `count` members to be replaced, in the order of selection.

    given: a fitness by name, finite, for all living members of the role and nobody else; the
    config's if None. A child that has played fewer than `config.grace_matches` matches is spared,
    and so is a member without a fitness; when too few are left, fewer are returned. A whole role
    is never selected. The same state gives the same answer.
    """
    if given is not None:
        _check(state, role, given)
    members, values = ranked(state, role, given)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < len(members):
        raise LeagueError(
            f"cannot select {count!r} of {len(members)} {role}s; expected a whole number from 0 "
            f"to {len(members) - 1}: a role never dies out"
        )
    weakest = [m for m in members[::-1] if values[m.name] is not None and not is_newborn(state, m)]
    chosen = SELECTIONS[state.config.selection](state, role, weakest, count)
    return [member.name for member in chosen]


def is_newborn(state: State, member: Member) -> bool:
    """Whether a member is a child that has played fewer than `config.grace_matches` matches."""
    return bool(member.parents) and member.matches < state.config.grace_matches


def _tournament(state: State, role: str, weakest: Sequence[Member], count: int) -> list[Member]:
    """The least fit of `tournament_size` drawn at random, repeated without those selected."""
    key = (len(state.rounds), len(state.replacements))
    rng = stream(state.config.seed, "tournament", role, *key)
    left = list(weakest)
    chosen: list[Member] = []
    while left and len(chosen) < count:
        size = min(state.config.tournament_size, len(left))
        chosen.append(left.pop(int(rng.choice(len(left), size, replace=False).min())))
    return chosen


def _check(state: State, role: str, given: Mapping[str, float]) -> None:
    names = {member.name for member in state.living(role)}
    for name, value in given.items():
        if name not in names:
            state.member(name)
            raise UnknownMember(f"fitness names {name!r}, which is no living {role}")
        if not is_finite(value):
            raise LeagueError(f"the fitness of {name} is {value!r}; expected a finite number")
    lacking = sorted(names - given.keys())
    if lacking:
        raise LeagueError(
            f"fitness lacks {', '.join(lacking[:20])}; expected a number for every living {role}"
        )


SELECTIONS: dict[str, Callable[[State, str, Sequence[Member], int], list[Member]]] = {
    "worst_k": lambda _state, _role, weakest, count: list(weakest[:count]),
    "tournament": _tournament,
}
"""Every selection by the name that `LeagueConfig.selection` gives it."""


def hall_of_round(state: State) -> list[dict[str, Any]]:
    """Return what the pairing of the next round freezes: the best of each role, or nothing."""
    every, rounds = state.config.hall_every, len(state.rounds)
    return _best(state, ROLES) if every and rounds and rounds % every == 0 else []


def hall_of_replacement(state: State, role: str) -> list[dict[str, Any]]:
    """Return what a replacement in a role freezes before it: the role's best, or nothing."""
    return _best(state, (role,)) if state.config.hall_at_replacement else []


def frozen_entry(name: str, role: str, of: str, rating: Rating) -> dict[str, Any]:
    """Return the part of an event that freezes a member under a new name."""
    return {"name": name, "role": role, "of": of, "mu": rating.mu, "sigma": rating.sigma}


def _best(state: State, roles: Sequence[str]) -> list[dict[str, Any]]:
    """The fittest of each role that is no newborn, unless it stands in the hall as it is."""
    entries = []
    for role in roles:
        member = next((m for m in ranked(state, role)[0] if not is_newborn(state, m)), None)
        if member is None:
            continue
        copies = [a.name for a in state.anchors if a.of == member.name and a.cause != ADDED]
        if copies and state.members[copies[-1]].rating == member.rating:
            continue
        name = f"hall-{role}-{len(state.rounds)}"
        while name in state.members:
            name += "+"
        entries.append(frozen_entry(name, role, member.name, member.rating))
    return entries
