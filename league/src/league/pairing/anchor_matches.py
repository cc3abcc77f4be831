"""Matches against anchors: frozen members, the fixed points of the ratings.

Teachers' and students' ratings are only pinned against each other, so both sides may improve with
no curve moving. A frozen member is rated against and never rated: its rating is a fixed height.
"""

import math

from league.basics.streams import stream
from league.state.member import ROLES, TEACHER, Member, other_role
from league.state.records import ADDED
from league.state.state import State


def anchor_pairs(state: State, round_number: int, matches: int) -> list[tuple[Member, Member]]:
    """Return the (teacher, student) matchups of a round in which one is an anchor.

    Their number is anchor_share of `matches`, rounded at random, and less than `matches`. A
    member has at most one such match a round, drawn at random, and with that anchor of the other
    side that has been paired least, a random one of equals. Of the hall of fame only the latest
    `hall_size` play.
    """
    share = state.config.anchor_share
    opponents = {role: _opponents(state, role) for role in ROLES}
    if not share or not any(opponents.values()):
        return []
    rng = stream(state.config.seed, "anchors", round_number)
    count = min(math.floor(share * matches + rng.random()), matches - 1)
    living = [m for role in ROLES if opponents[other_role(role)] for m in state.living(role)]
    chosen = [living[i] for i in rng.permutation(len(living))[:count].tolist()]
    matchups = []
    given: dict[str, int] = {}
    for member in chosen:
        others = opponents[other_role(member.role)]
        ties = rng.random(len(others))
        load = [other.paired + given.get(other.name, 0) for other in others]
        anchor = others[min(range(len(others)), key=lambda i: (load[i], ties[i]))]
        given[anchor.name] = given.get(anchor.name, 0) + 1
        matchups.append((member, anchor) if member.role == TEACHER else (anchor, member))
    return matchups


def _opponents(state: State, role: str) -> list[Member]:
    hall = [a.name for a in state.anchors if a.role == role and a.cause != ADDED]
    added = [a.name for a in state.anchors if a.role == role and a.cause == ADDED]
    return [state.members[name] for name in (*added, *hall[-state.config.hall_size :])]
