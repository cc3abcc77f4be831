"""Who meets whom under each matcher: worth of the matches, coverage, least use and fairness."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from league.basics.data import Floats, Ints
from league.basics.errors import LeagueError
from league.basics.streams import stream
from league.events.fold import apply
from league.pairing.matchers import ASSIGNMENT_LIMIT, assign, choice_probabilities, match_weights
from league.pairing.matching import propose
from league.pairing.payoff import expected_scores
from league.rating.rating import Rating
from league.state.config import LeagueConfig
from league.state.records import STUDENT, TEACHER
from league.state.state import State

OURS = ("uniform", "sampled", "assignment", "thompson")

Choice = Callable[[Floats, np.random.Generator], Ints]
"""(PFSP weights [n, n], random numbers) to the student of each teacher, shape [n]."""


@dataclass(frozen=True)
class MatcherRow:
    """One matcher at one size, n against n.

    worth: mean 4 p (1 - p) of the matches played, 1 for perfectly balanced ones. met: share of all
    pairs that ever met. least_used: rounds played by the student who played least, as a share of
    all rounds, least over the leagues. first_less_last: worth of the matches of the first teacher
    in the list less that of the last; every league is played in both orders, so that skill
    cancels and only the place in the list is left.
    """

    size: int
    matcher: str
    worth: float
    met: float
    least_used: float
    first_less_last: float


def matcher_table(
    sizes: Sequence[int] = (4, 8, 32),
    rounds: int = 60,
    leagues: int = 8,
    spread: float = 4.0,
    sigma: float = 1.5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[MatcherRow]:
    """Pair the same leagues by every matcher, without playing the matches.

    spread: standard deviation of the ratings; sigma: how much they are in doubt.
    """
    if max(sizes) > ASSIGNMENT_LIMIT:
        raise LeagueError(
            f"size {max(sizes)} is beyond the assignment matchers; expected at most "
            f"{ASSIGNMENT_LIMIT}"
        )
    if min((*sizes, rounds, leagues)) < 2 or seed < 0 or not (spread >= 0.0 and sigma > 0.0):
        raise LeagueError(
            "expected sizes, rounds and leagues of at least 2, seed and spread >= 0, sigma > 0"
        )
    runs: list[tuple[str, Callable[[State, int], Ints]]] = [
        (f"{name} (ours)", _league_round) for name in OURS
    ]
    runs += [(name, partial(_foreign_round, choice)) for name, choice in _FOREIGN.items()]
    rows = []
    for size in sizes:
        for name, pair in runs:
            found = [
                _run(size, rounds, spread, sigma, (seed, league), name.split()[0], pair)
                for league in range(leagues)
            ]
            worth, met, used, unfair = np.array(found).T
            rows.append(
                MatcherRow(
                    size,
                    name,
                    float(worth.mean()),
                    float(met.mean()),
                    float(used.min()),
                    float(unfair.mean()),
                )
            )
            if progress:
                progress(len(rows), len(sizes) * len(runs))
    return rows


def _run(
    size: int,
    rounds: int,
    spread: float,
    sigma: float,
    key: tuple[int, int],
    name: str,
    pair: Callable[[State, int], Ints],
) -> tuple[float, float, float, float]:
    mu = 25.0 + spread * stream(*key, "matchers").standard_normal((2, size))
    played = []
    for teachers in (mu[0], mu[0][::-1]):
        state = _league(teachers, mu[1], sigma, name, key)
        chance = expected_scores(state, state.living(TEACHER), state.living(STUDENT))
        partner = np.array([pair(state, number) for number in range(rounds)])
        worth = 4.0 * (chance * (1.0 - chance))[np.arange(size), partner]
        met = np.zeros((size, size), dtype=bool)
        met[np.arange(size), partner] = True
        used = np.bincount(partner.ravel(), minlength=size).min() / rounds
        edge = worth[:, 0].mean() - worth[:, -1].mean()
        played.append((worth.mean(), met.mean(), min(used, 1.0), edge))
    first, second = played
    return (
        float(first[0] + second[0]) / 2,
        float(first[1] + second[1]) / 2,
        float(min(first[2], second[2])),
        float(first[3] + second[3]) / 2,
    )


def _league(
    teachers: Floats, students: Floats, sigma: float, name: str, key: tuple[int, int]
) -> State:
    known = name if name in OURS else "uniform"
    state = State(LeagueConfig(matcher=known, seed=1000 * key[0] + key[1]))
    names = [[f"{letter}{i}" for i in range(len(teachers))] for letter in "ts"]
    apply(state, {"event": "league_founded", "teachers": names[0], "students": names[1]})
    for side, mu in zip(names, (teachers, students), strict=True):
        for member, value in zip(side, mu.tolist(), strict=True):
            rating = Rating(value, sigma)
            state.members[member] = replace(state.members[member], rating=rating)
    return state


def _league_round(state: State, number: int) -> Ints:
    pairs = propose(state, number)
    entries = [asdict(pair) for pair in pairs]
    apply(state, {"event": "round_paired", "round": number, "pairs": entries})
    slots = {pair.teacher: state.members[pair.student].slot for pair in pairs}
    return np.array([slots[member.name] for member in state.living(TEACHER)], dtype=np.int64)


def _foreign_round(choice: Choice, state: State, number: int) -> Ints:
    expected = expected_scores(state, state.living(TEACHER), state.living(STUDENT))
    weights = match_weights(expected, state.config.pfsp)
    return choice(weights, stream(state.config.seed, "foreign", number))


def _in_turn(weights: Floats, rng: np.random.Generator) -> Ints:
    """Teachers draw one after the other, by weight, among the students still free."""
    free = np.ones(len(weights), dtype=bool)
    chosen = np.zeros(len(weights), dtype=np.int64)
    for row in range(len(weights)):
        seats = np.flatnonzero(free)
        chosen[row] = rng.choice(seats, p=choice_probabilities(weights[row, seats], 0.0))
        free[chosen[row]] = False
    return chosen


def _independent(weights: Floats, rng: np.random.Generator) -> Ints:
    rows = [choice_probabilities(row, 0.0) for row in weights]
    return np.array([rng.choice(len(row), p=row) for row in rows], dtype=np.int64)


def _optimal(weights: Floats, rng: np.random.Generator) -> Ints:
    return assign(-np.log(np.maximum(weights, 1e-12)))


_FOREIGN: dict[str, Choice] = {
    "in turn, fixed order": _in_turn,
    "independent draws": _independent,
    "optimal assignment": _optimal,
}
"""What others do, or what comes to mind first; none of it is a matcher of a league."""
