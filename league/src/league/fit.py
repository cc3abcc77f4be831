"""One fit of all results together: the joint posterior of skills that do not change.

The skills have the prior of newcomers, independent of each other, and the results the likelihood of
`league.ratings`. The log posterior is strictly concave; Newton's method finds its maximum, and the
inverse of its curvature there is the covariance of the skills (Laplace's approximation).
"""

from collections import defaultdict
from collections.abc import Iterable
from math import fsum

import numpy as np

from league.ratings import Floats, GapProblem, RatingModel

Result = tuple[str, str, float, float]
"""Two names, and how many tasks the first and the second won."""

_STEPS = 200
_SETTLED = 1e-10  # of a newcomer's sigma


def fit(results: Iterable[Result], model: RatingModel) -> tuple[list[str], Floats, Floats]:
    """Return the names in order, their skills, shape [n], and the covariance, shape [n, n].

    Equal results in another order give the same bits: they are summed by pair, each sum rounded
    once. Takes n³ time and n² memory.
    """
    won: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, two, first, second in results:
        won[one, two].append(first)
        won[two, one].append(second)
    names = sorted({name for pair in won for name in pair})
    at = {name: i for i, name in enumerate(names)}
    pairs = sorted(pair for pair in won if pair[0] < pair[1])
    low, high = (np.array([at[pair[i]] for pair in pairs], dtype=np.int64) for i in (0, 1))
    gaps = GapProblem(
        mean=np.zeros(len(pairs)),
        variance=np.full(len(pairs), np.inf),  # the prior is on skills
        won=np.array([fsum(won[pair[::-1]]) for pair in pairs]),
        lost=np.array([fsum(won[pair]) for pair in pairs]),
        scale=model.performance_scale,
    )

    def at_skills(skills: Floats) -> tuple[float, Floats, Floats]:
        """The log posterior up to a constant, its slope and its negative curvature."""
        value, slope, curve = gaps.derivatives(skills[high] - skills[low])
        away = skills - model.mu
        gradient = -away / model.sigma**2
        np.add.at(gradient, high, slope)
        np.add.at(gradient, low, -slope)
        precision = np.eye(len(names)) / model.sigma**2
        for one, other in ((low, high), (high, low)):
            np.add.at(precision, (one, one), -curve)
            precision[one, other] = curve
        return fsum(value) - 0.5 * fsum(away**2) / model.sigma**2, gradient, precision

    skills: Floats = np.full(len(names), model.mu)
    value, gradient, precision = at_skills(skills)
    for _ in range(_STEPS):
        step = np.linalg.solve(precision, gradient)
        if np.abs(step).max() <= _SETTLED * model.sigma:
            break
        there = at_skills(skills + step)
        while there[0] < value - _SETTLED * (1.0 + abs(value)):
            step = step / 2.0
            there = at_skills(skills + step)
        skills = skills + step
        value, gradient, precision = there
    return names, skills, np.asarray(np.linalg.inv(precision), dtype=np.float64)
