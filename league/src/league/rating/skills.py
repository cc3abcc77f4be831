"""Beliefs about many members at once, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from league.rating.normal import Floats
from league.rating.rating import Rating


@dataclass(frozen=True)
class Skills:
    """Beliefs about n members: mu and sigma, float arrays of one shape, in rating units."""

    mu: Floats
    sigma: Floats

    @classmethod
    def of(cls, ratings: Sequence[Rating]) -> "Skills":
        """Return the columns of n ratings, each of shape [n]."""
        mu = np.array([r.mu for r in ratings], dtype=np.float64)
        sigma = np.array([r.sigma for r in ratings], dtype=np.float64)
        return cls(mu, sigma)

    def ratings(self) -> list[Rating]:
        """Return the n ratings of columns of shape [n]."""
        pairs = zip(self.mu.tolist(), self.sigma.tolist(), strict=True)
        return [Rating(mu, sigma) for mu, sigma in pairs]
