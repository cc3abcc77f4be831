"""alpha-rank: how often evolution visits each member when mutants take over one role at a time.

Omidshafiei et al., "alpha-Rank: multi-agent evaluation by evolution", Scientific Reports 9
(2019), equations for the multi-population model: a state is one (teacher, student); a mutant of
one role that does better than the resident takes over with the fixation probability
(1 - e^(-alpha d)) / (1 - e^(-alpha m d)), d being its gain and m the population size. For
infinite alpha the transitions are 1 - epsilon, 1/2 and epsilon for a gain, a tie and a loss
(Rowland et al., "Multiagent evaluation under incomplete information", 2019).
"""

import math
from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError, check_whole
from league.game_theory.payoff import Payoff
from league.probability import Floats

LIMIT = 32
"""At most so many members a side: the chain has teachers x students states."""


@dataclass(frozen=True)
class AlphaRank:
    """The long-run share of time that each member is the resident of its role."""

    teachers: dict[str, float]
    students: dict[str, float]


def alpha_rank(
    payoff: Payoff,
    *,
    fill: bool = False,
    alpha: float | None = None,
    population: int = 50,
    epsilon: float = 1e-3,
) -> AlphaRank:
    """Return how often each member is the resident of its role.

    alpha: selection strength > 0; None means infinite. population, epsilon: of the formulas. fill:
    see `Payoff.matrix`. Raises LeagueError above 32 members a side.
    """
    if max(len(payoff.teachers), len(payoff.students)) > LIMIT:
        raise LeagueError(
            f"{len(payoff.teachers)} teachers and {len(payoff.students)} students; alpha-rank "
            f"takes at most {LIMIT} a side: use payoff(top={LIMIT})"
        )
    share = payoff.matrix(fill)
    mass = stationary(1.0 - share, share, alpha, population, epsilon)
    return AlphaRank(
        teachers=dict(zip(payoff.teachers, mass.sum(axis=1).tolist(), strict=True)),
        students=dict(zip(payoff.students, mass.sum(axis=0).tolist(), strict=True)),
    )


def stationary(
    first: Floats, second: Floats, alpha: float | None, population: int, epsilon: float
) -> Floats:
    """Return the stationary distribution over the states, shape [n, m], summing to 1.

    first, second: what the row player and the column player gain in each state, shape [n, m].
    """
    if alpha is not None and not 0.0 < alpha < math.inf:
        raise LeagueError(f"alpha is {alpha!r}; expected a number > 0, or None for infinite")
    check_whole("population", population, 2)
    rows, columns = first.shape
    if rows * columns == 1:
        return np.ones((1, 1))
    chain = np.zeros((rows, columns, rows, columns))
    for j, payoff in enumerate(first.T):
        gain = payoff[None, :] - payoff[:, None]
        chain[:, j, :, j] = _takeover(gain, alpha, population, epsilon)
    for i, payoff in enumerate(second):
        gain = payoff[None, :] - payoff[:, None]
        chain[i, :, i, :] = _takeover(gain, alpha, population, epsilon)
    flat = chain.reshape(rows * columns, -1) / (rows + columns - 2)
    np.fill_diagonal(flat, 0.0)
    return _stationary(flat).reshape(rows, columns)


def _takeover(gain: Floats, alpha: float | None, population: int, epsilon: float) -> Floats:
    """Probability that one mutant with this gain takes over, elementwise."""
    if alpha is None:
        return np.where(gain > 0.0, 1.0 - epsilon, np.where(gain < 0.0, epsilon, 0.5))
    size = np.abs(alpha * gain)
    tiny = size < 1e-12
    size = np.where(tiny, 1.0, size)
    up = np.expm1(-size) / np.expm1(-population * size)
    down = up * np.exp(-(population - 1) * size)
    return np.where(tiny, 1.0 / population, np.where(gain > 0.0, up, down))


def _stationary(flow: Floats) -> Floats:
    """Grassmann, Taksar and Heyman's elimination (1985): no subtraction, so no cancellation.

    flow: probabilities of moving, shape [n, n], diagonal 0.
    """
    p = flow.copy()
    size = len(p)
    for k in range(size - 1, 0, -1):
        leaving = float(p[k, :k].sum())
        if not leaving > 0.0:
            raise LeagueError(
                "alpha is so large that some states are never left; use a smaller one, or the "
                "infinite limit (alpha=None)"
            )
        p[:k, k] /= leaving
        p[:k, :k] += np.outer(p[:k, k], p[k, :k])
        np.fill_diagonal(p[:k, :k], 0.0)
    mass = np.zeros(size)
    mass[0] = 1.0
    for k in range(1, size):
        mass[k] = float(mass[:k] @ p[:k, k])
        mass[: k + 1] /= mass[: k + 1].sum()
    return mass
