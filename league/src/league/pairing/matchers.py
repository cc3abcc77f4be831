"""Matchers: ways to marry the seats of a round, chosen by `LeagueConfig.matcher`.

A matcher takes n members of the larger side, each once, and n of the smaller side, where one may
sit several times, and returns for each of the first the index of its seat: a permutation of n.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from league.errors import LeagueError
from league.pairing.assignment import assign
from league.pairing.expectation import expected_scores
from league.pairing.pfsp import choice_probabilities, match_weights
from league.rating.normal import Floats
from league.state.member import TEACHER, Member
from league.state.state import State

Indices = NDArray[np.int64]
Matcher = Callable[
    [State, Sequence[Member], Sequence[Member], Indices, np.random.Generator], Indices
]

SAMPLED_LIMIT = 512
ASSIGNMENT_LIMIT = 256


def _sampled(
    state: State,
    rows: Sequence[Member],
    side: Sequence[Member],
    seats: Indices,
    rng: np.random.Generator,
) -> Indices:
    """Rows in random order draw a free seat by its PFSP weight."""
    weights = _weights(state, rows, side, seats, SAMPLED_LIMIT)
    free = np.ones(len(rows), dtype=bool)
    chosen = np.zeros(len(rows), dtype=np.int64)
    for row in rng.permutation(len(rows)):
        open_seats = np.flatnonzero(free)
        chance = choice_probabilities(weights[row, open_seats], state.config.explore)
        at = int(np.searchsorted(np.cumsum(chance), rng.random() * float(chance.sum()), "right"))
        seat = open_seats[min(at, len(open_seats) - 1)]
        chosen[row] = seat
        free[seat] = False
    return chosen


def _assignment(
    state: State,
    rows: Sequence[Member],
    side: Sequence[Member],
    seats: Indices,
    rng: np.random.Generator,
) -> Indices:
    """The likeliest matching under log weights with Gumbel noise, so pairs keep changing."""
    weights = _weights(state, rows, side, seats, ASSIGNMENT_LIMIT)
    chances = np.stack([choice_probabilities(row, state.config.explore) for row in weights])
    noise = rng.gumbel(size=chances.shape)
    return assign(-(np.log(np.maximum(chances, 1e-12)) + noise))


def _thompson(
    state: State,
    rows: Sequence[Member],
    side: Sequence[Member],
    seats: Indices,
    rng: np.random.Generator,
) -> Indices:
    """Draw a skill for every seat from its belief, sort both sides, and marry equal ranks.

    With equal doubts, equal ranks are the best assignment for f_var, for -log p(1-p) is convex in
    the gap; the draws keep pairs changing as long as members are in doubt. Takes n log n time.
    """
    order = [
        np.argsort(_draw([m.rating.mu for m in members], [m.rating.sigma for m in members], rng))
        for members in (rows, [side[i] for i in seats])
    ]
    chosen = np.empty(len(rows), dtype=np.int64)
    chosen[order[0]] = order[1]
    return chosen


def _uniform(
    state: State,
    rows: Sequence[Member],
    side: Sequence[Member],
    seats: Indices,
    rng: np.random.Generator,
) -> Indices:
    """A fair permutation."""
    return rng.permutation(len(rows))


def _draw(mu: Sequence[float], sigma: Sequence[float], rng: np.random.Generator) -> Floats:
    return np.asarray(np.array(mu) + np.array(sigma) * rng.standard_normal(len(mu)))


def _weights(
    state: State, rows: Sequence[Member], side: Sequence[Member], seats: Indices, limit: int
) -> Floats:
    """PFSP weights of rows against seats, shape [n, n]; refused above the limit."""
    if len(rows) > limit:
        raise LeagueError(
            f"the {state.config.matcher} matcher looks at every possible pair and takes at most "
            f"{limit} matches a round, found {len(rows)}; use matcher='thompson', or fewer matches"
        )
    if rows[0].role == TEACHER:
        return match_weights(expected_scores(state, rows, side), state.config.pfsp)[:, seats]
    return match_weights(expected_scores(state, side, rows), state.config.pfsp).T[:, seats]


MATCHERS: dict[str, Matcher] = {
    "sampled": _sampled,
    "assignment": _assignment,
    "thompson": _thompson,
    "uniform": _uniform,
}
"""Every matcher by the name that `LeagueConfig.matcher` gives it."""
