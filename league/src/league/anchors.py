"""Frozen members: fixed points of the ratings, and the hall of fame that they make up.

Teachers' and students' ratings are only pinned against each other, so both sides may improve with
no curve moving. A frozen member is rated against and never rated: its rating is a fixed height.
The league keeps names; whoever plays the matches keeps the weights of what was frozen.
"""

import math
from collections.abc import Sequence
from typing import Any

from league.fitness import ranked
from league.member import ROLES, STUDENT, TEACHER, Member
from league.rating import Rating
from league.records import ADDED
from league.selection import is_newborn
from league.state import State
from league.streams import stream


def anchor_pairs(state: State, round_number: int, matches: int) -> list[tuple[Member, Member]]:
    """Return the (teacher, student) couples of a round in which one is an anchor.

    Their number is anchor_share of `matches`, rounded by lot, and less than `matches`. A member
    has at most one such match a round, by lot, and with that anchor of the other side that has
    been paired least, by lot among equals. Of the hall of fame only the latest `hall_size` play.
    """
    share = state.config.anchor_share
    opponents = {role: _opponents(state, role) for role in ROLES}
    if not share or not any(opponents.values()):
        return []
    rng = stream(state.config.seed, "anchors", round_number)
    count = min(math.floor(share * matches + rng.random()), matches - 1)
    living = [m for role in ROLES if opponents[_other(role)] for m in state.living(role)]
    chosen = [living[i] for i in rng.permutation(len(living))[:count].tolist()]
    couples = []
    given: dict[str, int] = {}
    for member in chosen:
        others = opponents[_other(member.role)]
        lots = rng.random(len(others))
        load = [other.paired + given.get(other.name, 0) for other in others]
        anchor = others[min(range(len(others)), key=lambda i: (load[i], lots[i]))]
        given[anchor.name] = given.get(anchor.name, 0) + 1
        couples.append((member, anchor) if member.role == TEACHER else (anchor, member))
    return couples


def hall_of_round(state: State) -> list[dict[str, Any]]:
    """Return what the pairing of the next round freezes: the best of each role, or nothing."""
    every, rounds = state.config.hall_every, len(state.rounds)
    return _best(state, ROLES) if every and rounds and rounds % every == 0 else []


def hall_of_replacement(state: State, role: str) -> list[dict[str, Any]]:
    """Return what a replacement in a role freezes before it: the role's best, or nothing."""
    return _best(state, (role,)) if state.config.hall_at_replacement else []


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


def frozen_entry(name: str, role: str, of: str, rating: Rating) -> dict[str, Any]:
    """Return the part of an event that freezes a member under a new name."""
    return {"name": name, "role": role, "of": of, "mu": rating.mu, "sigma": rating.sigma}


def _opponents(state: State, role: str) -> list[Member]:
    hall = [a.name for a in state.anchors if a.role == role and a.cause != ADDED]
    added = [a.name for a in state.anchors if a.role == role and a.cause == ADDED]
    return [state.members[name] for name in (*added, *hall[-state.config.hall_size :])]


def _other(role: str) -> str:
    return STUDENT if role == TEACHER else TEACHER
