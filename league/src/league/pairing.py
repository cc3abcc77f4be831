"""The pairs of a round; and random numbers that depend only on a key.

Every member of the larger side plays exactly once, and every member of the smaller side equally
often, give or take one; the extra matches go to members with the fewest matches, ties at random. No
pair meets twice in a round, and the order of members has no effect. In one population both sides
are the same members: each plays once as teacher and once as student, never against itself.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from league.errors import LeagueError
from league.ratings import Floats, expected_shares
from league.state import STUDENT, Member, Pair, State

MOST_MATCHES = 512
"""Most matches of a round, because every pair is weighed."""


def propose(state: State, round_number: int) -> list[Pair]:
    """Return the pairs of a round, by teacher's slot: a function of seed, round and state."""
    teachers, students = state.sides()
    by_teacher = len(teachers) >= len(students)
    large, small = (teachers, students) if by_teacher else (students, teachers)
    if len(large) > MOST_MATCHES:
        raise LeagueError(
            f"a side has {len(large)} members; expected at most {MOST_MATCHES}, the matches of a "
            "round: every pair is weighed"
        )
    rng = stream(state.config.seed, "pair", round_number)
    (share, extra), ties = divmod(len(large), len(small)), rng.random(len(small))
    first = sorted(range(len(small)), key=lambda i: (small[i].paired, ties[i]))
    seats = small * share + [small[i] for i in first[:extra]]
    chosen = _draw(_weights(state, large, seats), state.config.explore, rng)
    partners = [seats[seat] for seat in chosen]
    for i, member in enumerate(large if state.one_population else ()):
        if partners[i].name == member.name:  # exchange partners with a random other
            other = (i + int(rng.integers(1, len(large)))) % len(large)
            partners[i], partners[other] = partners[other], partners[i]
    sides = (large, partners) if by_teacher else (partners, large)
    matchups = sorted(zip(*sides, strict=True), key=lambda pair: (pair[0].slot, pair[1].slot))
    expected = expected_of_pairs(state, matchups)
    return [
        Pair(f"{round_number}/{t.name}/{s.name}", round_number, t.name, s.name, chance)
        for (t, s), chance in zip(matchups, expected.tolist(), strict=True)
    ]


def _draw(weights: Floats, explore: float, rng: np.random.Generator) -> list[int]:
    """Let rows in random order draw a free column by its PFSP weight; return the columns."""
    free = np.ones(len(weights), dtype=bool)
    chosen = [0] * len(weights)
    for row in rng.permutation(len(weights)):
        columns = np.flatnonzero(free)
        chance = choice_probabilities(weights[row, columns], explore)
        at = int(np.searchsorted(np.cumsum(chance), rng.random() * float(chance.sum()), "right"))
        chosen[row] = int(columns[min(at, len(columns) - 1)])
        free[chosen[row]] = False
    return chosen


def _weights(state: State, large: Sequence[Member], seats: Sequence[Member]) -> Floats:
    """Return PFSP weights of n members against n seats, shape [n, n]."""
    small = list({member.name: member for member in seats}.values())
    by_student = large[0].role == STUDENT
    expected = expected_scores(state, *((small, large) if by_student else (large, small)))
    weights = match_weights(expected.T if by_student else expected, state.config.pfsp)
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

    By ratings it is p, as in `predict`; with n faded tasks of history at mean r it becomes
    (n r + n0 p) / (n + n0), n0 = config.history_tasks, which adds what one rating per member cannot
    express. The share is the solve rate when all tasks are valid; the student wins an invalid task.
    """
    pairs = [(teacher, student) for teacher in teachers for student in students]
    return expected_of_pairs(state, pairs).reshape(len(teachers), len(students))


def expected_of_pairs(state: State, pairs: Sequence[tuple[Member, Member]]) -> Floats:
    """Return the expected share of n (teacher, student) pairs, shape [n]; see `expected_scores`."""
    teachers, students = ([pair[i].rating for pair in pairs] for i in (0, 1))
    scores = expected_shares(teachers, students, state.config.model)
    prior = state.config.history_tasks
    for i, (teacher, student) in enumerate(pairs):
        meeting = state.meeting(teacher.name, student.name)
        if meeting.past_tasks > 0.0:
            past = meeting.past_won + prior * float(scores[i])
            scores[i] = past / (meeting.past_tasks + prior)
    return scores


def stream(*key: int | str) -> np.random.Generator:
    """Return a generator (Philox, counter based) whose numbers depend only on the key."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(key), "little")))


def tie_break(*key: int | str) -> int:
    """Return a 64-bit number that depends only on the key, to break ties."""
    return int.from_bytes(_digest(key)[:8], "little")


def _digest(key: tuple[int | str, ...]) -> bytes:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
