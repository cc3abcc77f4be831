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
from typing import Any

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import LeagueError, whole_number
from league.games.game import Game

LIMIT = 32
"""At most so many members a side: the chain has teachers x students states."""


@dataclass(frozen=True)
class AlphaRank(PlainData):
    """Long-run shares of time, each list summing to 1."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    teacher_mass: tuple[float, ...]
    """The time that each teacher is the resident of its role."""
    student_mass: tuple[float, ...]
    """The same for students."""
    states: tuple[tuple[str, str, float], ...]
    """The most visited (teacher, student, share of time), at most ten."""
    alpha: float | None
    """Selection strength, None for the infinite limit."""
    population: int
    """m of the formulas, for finite alpha."""
    epsilon: float
    """epsilon of the formulas, for infinite alpha."""
    filled: float
    notes: tuple[str, ...]
    """What was left out or filled."""


def alpha_rank(
    game: Game, *, alpha: float | None = None, population: int = 50, epsilon: float = 1e-3
) -> AlphaRank:
    """Return how often each member is the resident of its role.

    alpha: selection strength > 0; None means infinite. Raises LeagueError above 32 members a
    side: 64 x 64 would need a matrix of 134 MB.
    """
    if max(len(game.teachers), len(game.students)) > LIMIT:
        raise LeagueError(
            f"{len(game.teachers)} teachers and {len(game.students)} students; alpha-rank takes "
            f"at most {LIMIT} a side: use game(..., top={LIMIT}) (--top {LIMIT})"
        )
    share = game.matrix()
    settings: Any = {"alpha": alpha, "population": population, "epsilon": epsilon}
    mass = stationary(1.0 - share, share, **settings)
    order = np.argsort(-mass, axis=None, kind="stable")[:10]
    rows, columns = np.unravel_index(order, mass.shape)
    return AlphaRank(
        teachers=game.teachers,
        students=game.students,
        teacher_mass=tuple(mass.sum(axis=1).tolist()),
        student_mass=tuple(mass.sum(axis=0).tolist()),
        states=tuple(
            (game.teachers[i], game.students[j], float(mass[i, j]))
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        ),
        **settings,
        filled=game.filled,
        notes=game.notes,
    )


def stationary(
    first: Floats,
    second: Floats,
    *,
    alpha: float | None = None,
    population: int = 50,
    epsilon: float = 1e-3,
) -> Floats:
    """Return the stationary distribution over the states, shape [n, m], summing to 1.

    first, second: what the row player and the column player gain in each state, shape [n, m].
    """
    if alpha is not None and not 0.0 < alpha < math.inf:
        raise LeagueError(f"alpha is {alpha!r}; expected a number > 0, or None for infinite")
    whole_number("population", population, 2)
    if not 0.0 < epsilon < 0.5:
        raise LeagueError(f"epsilon is {epsilon!r}; expected a number between 0 and 0.5")
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
