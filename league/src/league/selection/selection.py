"""Selection: who has to go, chosen by `LeagueConfig.selection`."""

from collections.abc import Callable, Mapping, Sequence

from league.basics.errors import LeagueError, UnknownMember, is_finite
from league.basics.streams import stream
from league.selection.leaderboard import ranked
from league.state.member import Member
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
    eligible = [
        member
        for member in reversed(members)
        if values[member.name] is not None and not is_newborn(state, member)
    ]
    chosen = SELECTIONS[state.config.selection](state, role, eligible, count)
    return [member.name for member in chosen]


def is_newborn(state: State, member: Member) -> bool:
    """Whether a member is a child that has played fewer than `config.grace_matches` matches."""
    return bool(member.parents) and member.matches < state.config.grace_matches


def _worst_k(state: State, role: str, weakest: Sequence[Member], count: int) -> list[Member]:
    """The least fit, weakest first."""
    return list(weakest[:count])


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
    "worst_k": _worst_k,
    "tournament": _tournament,
}
"""Every selection by the name that `LeagueConfig.selection` gives it."""
