"""Who plays whom in one round.

Guarantees. Whole round: every member of the larger side plays exactly once, and every member of
the smaller side the same number of times give or take one; the extra matches go to those who have
been paired least, at random among equals. Partial round of m matches: those who have waited longest
play, of these the least paired, at random among equals; with at least m matches in every round, no
member of a side of N waits longer than ceil(N/m) rounds from one match to the next. No pair meets
twice in a round, and no place in a list is favoured.

Matches with anchors (see `anchors`) come on top of a whole round; in a partial one they are among
its m matches, and the guarantee is for the rest. Coverage rounds (`coverage_every`) are whole
rounds laid out as the rows of a Latin square: as many of them as the smaller side has members hold
every pair of slots.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from league.basics.data import Ints
from league.basics.errors import LeagueError
from league.basics.streams import stream
from league.pairing.matchers import MATCHERS, Seating
from league.pairing.payoff import expected_of_pairs
from league.state.records import ADDED, ROLES, STUDENT, TEACHER, Member, Pair, other_role
from league.state.state import State


def propose(state: State, round_number: int, matches: int | None = None) -> list[Pair]:
    """Return the pairs of a round, by teacher's slot, matches with anchors last.

    A function of seed, round and state. matches: how many in all, at least 1 and at most the
    larger side's size; None for a whole round, to which matches with anchors are added.
    """
    teachers, students = state.living(TEACHER), state.living(STUDENT)
    whole = max(len(teachers), len(students))
    if matches is not None and (
        isinstance(matches, bool) or not isinstance(matches, int) or not 1 <= matches <= whole
    ):
        raise LeagueError(
            f"matches is {matches!r}; expected a whole number from 1 to {whole}, one for each "
            "member of the larger side"
        )
    against_anchors = anchor_pairs(state, round_number, whole if matches is None else matches)
    if matches is not None:
        count = matches - len(against_anchors)
        rng = stream(state.config.seed, "turns", round_number)
        teachers = _next_in_line(teachers, count, rng)
        students = _next_in_line(students, count, rng)
    matchups = _matchups(state, teachers, students, round_number, partial=matches is not None)
    matchups = sorted(matchups, key=lambda c: (c[0].slot, c[1].slot)) + against_anchors
    expected = expected_of_pairs(state, matchups)
    return [
        Pair(f"{round_number}/{t.name}/{s.name}", round_number, t.name, s.name, chance)
        for (t, s), chance in zip(matchups, expected.tolist(), strict=True)
    ]


def _matchups(
    state: State,
    teachers: Sequence[Member],
    students: Sequence[Member],
    round_number: int,
    partial: bool,
) -> list[tuple[Member, Member]]:
    by_teacher = len(teachers) >= len(students)
    large, small = (teachers, students) if by_teacher else (students, teachers)
    every = state.config.coverage_every
    if every and not partial and (state.whole_rounds + 1) % every == 0:
        partner = _covering(state, len(large), len(small))
    else:
        rng = stream(state.config.seed, "pair", round_number)
        seats = _seats(small, len(large), rng)
        partner = seats[MATCHERS[state.config.matcher](Seating(state, large, small, seats), rng)]
    found = zip(large, (small[j] for j in partner.tolist()), strict=True)
    return [(a, b) if by_teacher else (b, a) for a, b in found]


def _covering(state: State, large: int, small: int) -> Ints:
    """The next row of a Latin square: as many such rounds as the smaller side has members hold
    every pair of slots; after that comes another random square."""
    turn = state.whole_rounds // state.config.coverage_every
    rng = stream(state.config.seed, "coverage", turn // small)
    rows, columns = rng.permutation(large), rng.permutation(small)
    return np.asarray(columns[(rows + turn) % small], dtype=np.int64)


def _next_in_line(members: list[Member], count: int, rng: np.random.Generator) -> list[Member]:
    """Those who play next, in order of slots; everybody if there are enough matches."""
    ties = rng.random(len(members))
    order = sorted(range(len(members)), key=lambda i: (members[i].turn, members[i].paired, ties[i]))
    return [members[i] for i in sorted(order[:count])]


def _seats(small: Sequence[Member], count: int, rng: np.random.Generator) -> Ints:
    """Indices of the smaller side, shape [count], each floor or ceil of its fair share."""
    share, extra = divmod(count, len(small))
    ties = rng.random(len(small))
    order = sorted(range(len(small)), key=lambda i: (small[i].paired, ties[i]))
    return np.array(list(range(len(small))) * share + order[:extra], dtype=np.int64)


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
    matchups = []
    given: Counter[str] = Counter()
    for k in rng.permutation(len(living))[:count].tolist():
        member, others = living[k], opponents[other_role(living[k].role)]
        ties = rng.random(len(others))
        load = [other.paired + given[other.name] for other in others]
        anchor = others[min(range(len(others)), key=lambda i: (load[i], ties[i]))]
        given[anchor.name] += 1
        matchups.append((member, anchor) if member.role == TEACHER else (anchor, member))
    return matchups


def _opponents(state: State, role: str) -> list[Member]:
    hall = [a.name for a in state.anchors if a.role == role and a.cause != ADDED]
    added = [a.name for a in state.anchors if a.role == role and a.cause == ADDED]
    return [state.members[name] for name in (*added, *hall[-state.config.hall_size :])]
