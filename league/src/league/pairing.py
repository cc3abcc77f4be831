"""Pairs of a round: who plays whom; and random numbers that depend on a key alone.

Whole round: every member of the larger side plays exactly once, and every member of the smaller
side equally often, give or take one; the extra matches go to those who have been paired least, at
random among equals. Partial round of m matches: those who have waited longest play, of these the
least paired, at random among equals; with at least m matches in every round, no member of a side
of N waits longer than ceil(N/m) rounds from one match to the next. No pair meets twice in a round,
and no place in a list is favoured. In one population both sides are the same members: each plays
once as teacher and once as student in a whole round, and never itself.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from league.errors import LeagueError
from league.ratings import Floats, Ints, expected_shares, skills
from league.state import STUDENT, Member, Pair, State


def propose(state: State, round_number: int, matches: int | None = None) -> list[Pair]:
    """Return the pairs of a round, by teacher's slot.

    A function of seed, round and state. matches: how many in all, at least 1 and at most the
    larger side's size; None for a whole round.
    """
    teachers, students = state.sides()
    whole = max(len(teachers), len(students))
    if matches is not None and (type(matches) is not int or not 1 <= matches <= whole):
        raise LeagueError(
            f"matches is {matches!r}; expected a whole number from 1 to {whole}, one for each "
            "member of the larger side"
        )
    if matches is not None:
        rng = stream(state.config.seed, "turns", round_number)
        if state.one_population:
            players = _next_in_line(teachers, max(matches, 2), rng)
            order = rng.permutation(2).tolist()
            pair = [[players[i]] for i in order]
            teachers, students = pair if matches == 1 else (players, players)
        else:
            teachers = _next_in_line(teachers, matches, rng)
            students = _next_in_line(students, matches, rng)
    matchups = _matchups(state, teachers, students, round_number)
    matchups.sort(key=lambda matchup: (matchup[0].slot, matchup[1].slot))
    expected = expected_of_pairs(state, matchups)
    return [
        Pair(f"{round_number}/{t.name}/{s.name}", round_number, t.name, s.name, chance)
        for (t, s), chance in zip(matchups, expected.tolist(), strict=True)
    ]


def _matchups(
    state: State, teachers: Sequence[Member], students: Sequence[Member], round_number: int
) -> list[tuple[Member, Member]]:
    by_teacher = len(teachers) >= len(students)
    large, small = (teachers, students) if by_teacher else (students, teachers)
    rng = stream(state.config.seed, "pair", round_number)
    seats = _seats(small, len(large), rng)
    seated = [small[i] for i in seats]
    partner = seats[MATCHERS[state.config.matcher](state, large, seated, rng)]
    for i, member in enumerate(large if state.one_population else ()):
        if small[partner[i]].name == member.name:  # exchange partners with a random other
            other = (i + int(rng.integers(1, len(large)))) % len(large)
            partner[[i, other]] = partner[[other, i]]
    matchups = zip(large, (small[j] for j in partner.tolist()), strict=True)
    return [(a, b) if by_teacher else (b, a) for a, b in matchups]


def _next_in_line(members: list[Member], count: int, rng: np.random.Generator) -> list[Member]:
    """Return who plays next, by slot; all members if there are enough matches."""
    ties = rng.random(len(members))
    order = sorted(range(len(members)), key=lambda i: (members[i].turn, members[i].paired, ties[i]))
    return [members[i] for i in sorted(order[:count])]


def _seats(small: Sequence[Member], count: int, rng: np.random.Generator) -> Ints:
    """Return indices of the smaller side, shape [count], each floor or ceil of its fair share."""
    share, extra = divmod(count, len(small))
    ties = rng.random(len(small))
    order = sorted(range(len(small)), key=lambda i: (small[i].paired, ties[i]))
    return np.array(list(range(len(small))) * share + order[:extra], dtype=np.int64)


SAMPLED_LIMIT = 512

Matcher = Callable[[State, Sequence[Member], Sequence[Member], np.random.Generator], Ints]
"""From n members of the larger side, and who of the smaller side sits on each of n seats, to the
index of the seat of each of the first: a permutation of n."""


def _sampled(
    state: State, large: Sequence[Member], seats: Sequence[Member], rng: np.random.Generator
) -> Ints:
    """Let rows in random order draw a free seat by its PFSP weight."""
    weights = _weights(state, large, seats)
    free = np.ones(len(large), dtype=bool)
    chosen = np.zeros(len(large), dtype=np.int64)
    for row in rng.permutation(len(large)):
        open_seats = np.flatnonzero(free)
        chance = choice_probabilities(weights[row, open_seats], state.config.explore)
        at = int(np.searchsorted(np.cumsum(chance), rng.random() * float(chance.sum()), "right"))
        seat = open_seats[min(at, len(open_seats) - 1)]
        chosen[row] = seat
        free[seat] = False
    return chosen


def _thompson(
    state: State, large: Sequence[Member], seats: Sequence[Member], rng: np.random.Generator
) -> Ints:
    """Draw a skill for every seat from its belief, sort both sides, and pair equal ranks.

    With equal doubts, equal ranks are the best assignment for f_var, for -log p(1-p) is convex in
    the gap; the draws keep pairs changing as long as members are in doubt. Takes n log n time.
    """
    order = []
    for members in (large, seats):
        mu, sigma = skills([member.rating for member in members])
        order.append(np.argsort(mu + sigma * rng.standard_normal(len(members))))
    chosen = np.empty(len(large), dtype=np.int64)
    chosen[order[0]] = order[1]
    return chosen


MATCHERS: dict[str, Matcher] = {
    "sampled": _sampled,
    "thompson": _thompson,
    "uniform": lambda _state, large, _seats, rng: rng.permutation(len(large)),
}
"""Every matcher by the name that `LeagueConfig.matcher` gives it."""


def _weights(state: State, large: Sequence[Member], seats: Sequence[Member]) -> Floats:
    """Return PFSP weights of members against seats, shape [n, n]; refused above the limit."""
    if len(large) > SAMPLED_LIMIT:
        raise LeagueError(
            f"the sampled matcher weighs every pair and takes at most {SAMPLED_LIMIT} matches a "
            f"round, found {len(large)}; use matcher='thompson', or fewer matches"
        )
    small = list({member.name: member for member in seats}.values())
    if large[0].role == STUDENT:
        weights = match_weights(expected_scores(state, small, large), state.config.pfsp).T
    else:
        weights = match_weights(expected_scores(state, large, small), state.config.pfsp)
    if state.one_population:
        weights = np.where([[a.name == b.name for b in small] for a in large], 0.0, weights)
    column = {member.name: j for j, member in enumerate(small)}
    return weights[:, [column[member.name] for member in seats]]


def match_weights(expected: Floats, powers: tuple[float, float]) -> Floats:
    """Return p^a (1-p)^b, of expected's shape; finite and >= 0 for every p in [0, 1]."""
    a, b = powers
    p = np.clip(expected, 0.0, 1.0)
    return np.asarray(p**a * (1.0 - p) ** b, dtype=np.float64)


def choice_probabilities(weights: Floats, explore: float) -> Floats:
    """Return probabilities over candidates, shape [n]: (1 - explore) PFSP + explore uniform.

    Uniform altogether when every weight is 0, as for opponents that are all hopeless.
    """
    uniform = np.full(weights.shape, 1.0 / weights.size)
    total = float(weights.sum())
    if total <= 0.0:
        return uniform
    return np.asarray((1.0 - explore) * (weights / total) + explore * uniform)


def expected_scores(state: State, teachers: Sequence[Member], students: Sequence[Member]) -> Floats:
    """Return the students' expected share of the tasks, shape [teachers, students], in [0, 1].

    By ratings it is p = Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)); with n faded
    tasks of history at mean r it becomes (n r + n0 p) / (n + n0), n0 = config.history_tasks, which
    picks up what one number per member cannot say. The share is the solve rate when all tasks are
    valid; an invalid task counts as won by the student.
    """
    pairs = [(teacher, student) for teacher in teachers for student in students]
    return expected_of_pairs(state, pairs).reshape(len(teachers), len(students))


def expected_of_pairs(state: State, pairs: Sequence[tuple[Member, Member]]) -> Floats:
    """Return the expected share of n (teacher, student) pairs, shape [n]; see `expected_scores`."""
    teachers, students = ([pair[i].rating for pair in pairs] for i in (0, 1))
    scores = expected_shares(teachers, students, state.config.model)
    prior = state.config.history_tasks
    for i, (teacher, student) in enumerate(pairs):
        meeting = state.meetings.get((teacher.name, student.name))
        if meeting is not None and meeting.past_tasks > 0.0:
            past = meeting.past_won + prior * float(scores[i])
            scores[i] = past / (meeting.past_tasks + prior)
    return scores


def stream(*key: int | str) -> np.random.Generator:
    """Return a generator (Philox, counter based) for this key; the same key, the same numbers."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(key), "little")))


def tie_break(*key: int | str) -> int:
    """Return a 64-bit number for this key: it breaks ties without favour."""
    return int.from_bytes(_digest(key)[:8], "little")


def _digest(key: tuple[int | str, ...]) -> bytes:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
