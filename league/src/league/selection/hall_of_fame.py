"""The hall of fame: frozen copies of the best members, made by the league itself.

The league keeps names; whoever plays the matches keeps the weights of what was frozen.
"""

from collections.abc import Sequence
from typing import Any

from league.rating.rating import Rating
from league.selection.leaderboard import ranked
from league.selection.selection import is_newborn
from league.state.member import ROLES
from league.state.records import ADDED
from league.state.state import State


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
