"""Who plays whom in one round.

Guarantee: every member of the larger side plays exactly once, and every member of the smaller
side the same number of times give or take one; the extra matches go to those who have been paired
least, by lot among equals. No pair meets twice in a round, and no place in a list is favoured.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from league.assignment import assign
from league.errors import LeagueError
from league.expectation import expected_scores
from league.member import STUDENT, TEACHER, Member
from league.normal import Floats
from league.pfsp import choice_probabilities, match_weights
from league.state import Pair, State
from league.streams import stream

_ASSIGNMENT_LIMIT = 256


def propose(state: State, round_number: int) -> list[Pair]:
    """Return the pairs of a round, by teacher's slot; a function of seed, round and state."""
    teachers, students = state.living(TEACHER), state.living(STUDENT)
    expected = expected_scores(state, teachers, students)
    rng = stream(state.config.seed, "pair", round_number)
    weights = match_weights(expected, state.config.pfsp)
    by_teacher = len(teachers) >= len(students)
    if not by_teacher:
        weights = weights.T
    large, small = (teachers, students) if by_teacher else (students, teachers)
    seats = _seats(small, len(large), rng)
    matcher = _MATCHERS[state.config.matcher]
    partner = seats[matcher(weights[:, seats], state.config.explore, rng)]
    cells = [(i, int(j)) if by_teacher else (int(j), i) for i, j in enumerate(partner)]
    return [
        Pair(
            f"{round_number}/{teachers[t].name}/{students[s].name}",
            round_number,
            teachers[t].name,
            students[s].name,
            float(expected[t, s]),
        )
        for t, s in sorted(cells)
    ]


def _seats(small: Sequence[Member], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of the smaller side, shape [count], each floor or ceil of its fair share."""
    share, extra = divmod(count, len(small))
    lots = rng.random(len(small))
    order = sorted(range(len(small)), key=lambda i: (small[i].paired, lots[i]))
    return np.array(list(range(len(small))) * share + order[:extra], dtype=np.int64)


def _sampled(weights: Floats, explore: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows in random order draw a free column by its weight: shape [n] from [n, n]."""
    size = len(weights)
    free = np.ones(size, dtype=bool)
    chosen = np.zeros(size, dtype=np.int64)
    for row in rng.permutation(size):
        open_columns = np.flatnonzero(free)
        chance = choice_probabilities(weights[row, open_columns], explore)
        at = int(np.searchsorted(np.cumsum(chance), rng.random() * float(chance.sum()), "right"))
        column = open_columns[min(at, len(open_columns) - 1)]
        chosen[row] = column
        free[column] = False
    return chosen


def _assignment(weights: Floats, explore: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The likeliest matching under log weights with Gumbel noise, so pairs keep changing."""
    if len(weights) > _ASSIGNMENT_LIMIT:
        raise LeagueError(
            f"the assignment matcher takes at most {_ASSIGNMENT_LIMIT} matches a round, "
            f"found {len(weights)}; use matcher='sampled'"
        )
    chances = np.stack([choice_probabilities(row, explore) for row in weights])
    noise = rng.gumbel(size=chances.shape)
    return assign(-(np.log(np.maximum(chances, 1e-12)) + noise))


def _uniform(weights: Floats, explore: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """A fair permutation."""
    return rng.permutation(len(weights))


_MATCHERS: dict[str, Callable[[Floats, float, np.random.Generator], NDArray[np.int64]]] = {
    "sampled": _sampled,
    "assignment": _assignment,
    "uniform": _uniform,
}
