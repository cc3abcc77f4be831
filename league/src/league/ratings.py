"""A skill as a normal belief, in TrueSkill's units; conversions by the `trueskill` package."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import trueskill

from league.errors import LeagueError, check_number
from league.probability import Floats, log_cdf_pair


@dataclass(frozen=True, slots=True)
class Rating:
    """Belief about one member's skill: N(mu, sigma²), in rating units."""

    mu: float
    sigma: float


@dataclass(frozen=True)
class Skills:
    """Beliefs about n members in columns of one shape, in rating units."""

    mu: Floats
    """Means."""
    sigma: Floats
    """Standard deviations."""

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


@dataclass(frozen=True)
class RatingModel:
    """The constants of the TrueSkill model (Herbrich, Minka and Graepel, 2006).

    The defaults are the `trueskill` package's.
    """

    mu: float = float(trueskill.MU)
    """A newcomer's mean."""
    sigma: float = float(trueskill.SIGMA)
    """A newcomer's standard deviation."""
    beta: float = float(trueskill.BETA)
    """Noise of one performance."""
    tau: float = float(trueskill.TAU)
    """How much a skill may wander between two matches of a member."""

    def __post_init__(self) -> None:
        for name in ("mu", "sigma", "beta", "tau"):
            check_number(name, getattr(self, name))
        if self.sigma <= 0 or self.beta <= 0 or self.tau < 0:
            raise LeagueError(
                f"sigma {self.sigma:g}, beta {self.beta:g}, tau {self.tau:g}; "
                "expected sigma > 0, beta > 0 and tau >= 0"
            )

    @property
    def performance_scale(self) -> float:
        """Standard deviation of the difference of two performances: sqrt(2) beta."""
        return math.sqrt(2.0) * self.beta


def conservative(rating: Rating, model: RatingModel) -> float:
    """Return TrueSkill's `expose`: mu - (mu0/sigma0) sigma, which is mu - 3 sigma by default.

    The package's global environment is neither read nor changed.
    """
    env = trueskill.TrueSkill(model.mu, model.sigma, model.beta, model.tau, draw_probability=0.0)
    return float(env.expose(env.create_rating(rating.mu, rating.sigma)))


def expected_shares(teachers: Skills, students: Skills, model: RatingModel) -> Floats:
    """Return the probability that the student wins one task, both beliefs integrated out.

    Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)). Shapes follow NumPy's broadcasting:
    columns of [n, 1] and [m] give the [n, m] matrix.
    """
    spread = np.sqrt(2.0 * model.beta**2 + teachers.sigma**2 + students.sigma**2)
    return np.exp(log_cdf_pair((students.mu - teachers.mu) / spread)[0])


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
