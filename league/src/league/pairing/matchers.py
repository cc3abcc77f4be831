"""Matchers: ways to fill the seats of a round, chosen by `LeagueConfig.matcher`.

A matcher takes n members of the larger side, each once, and n seats of the smaller side, where one
member may sit several times, and returns for each of the first the index of its seat: a permutation
of n.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, Ints
from league.basics.errors import LeagueError
from league.pairing.payoff import expected_scores
from league.rating.rating import Skills
from league.state.records import TEACHER, Member
from league.state.state import State


@dataclass(frozen=True)
class Seating:
    """n members of the larger side, and the n seats that the smaller side takes."""

    state: State
    large: Sequence[Member]
    small: Sequence[Member]
    seats: Ints
    """Index into `small` of who sits on each seat, shape [n]."""

    def weights(self, limit: int) -> Floats:
        """PFSP weights of members against seats, shape [n, n]; refused above the limit."""
        config, large, small = self.state.config, self.large, self.small
        if len(large) > limit:
            raise LeagueError(
                f"the {config.matcher} matcher looks at every possible pair and takes at most "
                f"{limit} matches a round, found {len(large)}; use matcher='thompson', or fewer "
                "matches"
            )
        if large[0].role == TEACHER:
            weights = match_weights(expected_scores(self.state, large, small), config.pfsp)
        else:
            weights = match_weights(expected_scores(self.state, small, large), config.pfsp).T
        return weights[:, self.seats]


Matcher = Callable[[Seating, np.random.Generator], Ints]

SAMPLED_LIMIT = 512
ASSIGNMENT_LIMIT = 256


def _sampled(seating: Seating, rng: np.random.Generator) -> Ints:
    """Rows in random order draw a free seat by its PFSP weight."""
    weights = seating.weights(SAMPLED_LIMIT)
    free = np.ones(len(seating.large), dtype=bool)
    chosen = np.zeros(len(seating.large), dtype=np.int64)
    for row in rng.permutation(len(seating.large)):
        open_seats = np.flatnonzero(free)
        chance = choice_probabilities(weights[row, open_seats], seating.state.config.explore)
        at = int(np.searchsorted(np.cumsum(chance), rng.random() * float(chance.sum()), "right"))
        seat = open_seats[min(at, len(open_seats) - 1)]
        chosen[row] = seat
        free[seat] = False
    return chosen


def _assignment(seating: Seating, rng: np.random.Generator) -> Ints:
    """The likeliest matching under log weights with Gumbel noise, so pairs keep changing."""
    weights = seating.weights(ASSIGNMENT_LIMIT)
    chances = np.stack([choice_probabilities(row, seating.state.config.explore) for row in weights])
    noise = rng.gumbel(size=chances.shape)
    return assign(-(np.log(np.maximum(chances, 1e-12)) + noise))


def _thompson(seating: Seating, rng: np.random.Generator) -> Ints:
    """Draw a skill for every seat from its belief, sort both sides, and pair equal ranks.

    With equal doubts, equal ranks are the best assignment for f_var, for -log p(1-p) is convex in
    the gap; the draws keep pairs changing as long as members are in doubt. Takes n log n time.
    """
    order = []
    for members in (seating.large, [seating.small[i] for i in seating.seats]):
        skills = Skills.of([member.rating for member in members])
        order.append(np.argsort(skills.mu + skills.sigma * rng.standard_normal(len(members))))
    chosen = np.empty(len(seating.large), dtype=np.int64)
    chosen[order[0]] = order[1]
    return chosen


MATCHERS: dict[str, Matcher] = {
    "sampled": _sampled,
    "assignment": _assignment,
    "thompson": _thompson,
    "uniform": lambda seating, rng: rng.permutation(len(seating.large)),
}
"""Every matcher by the name that `LeagueConfig.matcher` gives it."""


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


def assign(cost: Floats) -> Ints:
    """Return for each row its column so that the sum of costs is least; shape [n], n rows.

    cost: finite, shape [n, m] with n <= m. Takes O(n² m) time.
    """
    rows, columns = cost.shape
    row_price = np.zeros(rows + 1)
    column_price = np.zeros(columns + 1)
    owner = np.zeros(columns + 1, dtype=np.int64)  # the 1-based row of each 1-based column
    for row in range(1, rows + 1):
        owner[0] = row
        column = 0
        least = np.full(columns + 1, np.inf)
        came_from = np.zeros(columns + 1, dtype=np.int64)
        used = np.zeros(columns + 1, dtype=bool)
        while owner[column]:
            used[column] = True
            current = owner[column]
            reduced = np.full(columns + 1, np.inf)
            reduced[1:] = cost[current - 1] - row_price[current] - column_price[1:]
            better = (reduced < least) & ~used
            least[better] = reduced[better]
            came_from[better] = column
            column_next = int(np.argmin(np.where(used, np.inf, least)))
            delta = least[column_next]
            row_price[owner[used]] += delta
            column_price[used] -= delta
            least[~used] -= delta
            column = column_next
        while column:
            previous = int(came_from[column])
            owner[column] = owner[previous]
            column = previous
    result = np.zeros(rows, dtype=np.int64)
    result[owner[1:][owner[1:] > 0] - 1] = np.flatnonzero(owner[1:] > 0)
    return result
