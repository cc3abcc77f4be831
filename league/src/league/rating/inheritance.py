"""The rating of a child: like one of its parents, plus an unknown jump."""

import math
from collections.abc import Sequence

from league.rating.rating import Rating, RatingModel


def child_rating(
    parents: Sequence[Rating], weights: Sequence[float], jump: float, model: RatingModel
) -> Rating:
    """Return the moment-matched mixture of the parents with inflated sigma.

    mu = sum w_i mu_i; sigma² = sum w_i (sigma_i² + (mu_i - mu)²) + jump², at most a newcomer's.
    weights: one per parent, summing to 1. jump: in rating units.
    """
    mu = math.fsum(w * p.mu for w, p in zip(weights, parents, strict=True))
    variance = math.fsum(
        w * (p.sigma**2 + (p.mu - mu) ** 2) for w, p in zip(weights, parents, strict=True)
    )
    return Rating(mu, min(math.sqrt(variance + jump * jump), model.sigma))
