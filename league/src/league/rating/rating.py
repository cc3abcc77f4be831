"""A skill as a normal belief, in TrueSkill's units; conversions by the `trueskill` package."""

import math
from dataclasses import dataclass
from typing import Any

import trueskill

from league.errors import LeagueError
from league.rating.normal import cdf


@dataclass(frozen=True, slots=True)
class Rating:
    """Belief about one member's skill: N(mu, sigma²), in rating units."""

    mu: float
    sigma: float


@dataclass(frozen=True)
class RatingModel:
    """The constants of the TrueSkill model (Herbrich, Minka and Graepel, 2006).

    mu, sigma: a newcomer's belief. beta: noise of one performance. tau: how much a skill may
    wander between two matches of a member. The defaults are the `trueskill` package's.
    """

    mu: float = float(trueskill.MU)
    sigma: float = float(trueskill.SIGMA)
    beta: float = float(trueskill.BETA)
    tau: float = float(trueskill.TAU)

    def __post_init__(self) -> None:
        for name in ("mu", "sigma", "beta", "tau"):
            if not math.isfinite(getattr(self, name)):
                raise LeagueError(f"{name} is {getattr(self, name)!r}; expected a finite number")
        if self.sigma <= 0 or self.beta <= 0 or self.tau < 0:
            raise LeagueError(
                f"sigma {self.sigma:g}, beta {self.beta:g}, tau {self.tau:g}; "
                "expected sigma > 0, beta > 0 and tau >= 0"
            )

    @property
    def performance_scale(self) -> float:
        """Standard deviation of the difference of two performances: sqrt(2) beta."""
        return math.sqrt(2.0) * self.beta


def environment(model: RatingModel) -> Any:
    """Return a `trueskill.TrueSkill` of exactly these constants, without draws.

    Nothing here ever reads the package's global environment.
    """
    return trueskill.TrueSkill(
        mu=model.mu, sigma=model.sigma, beta=model.beta, tau=model.tau, draw_probability=0.0
    )


def conservative(rating: Rating, model: RatingModel) -> float:
    """Return TrueSkill's `expose`: mu - (mu0/sigma0) sigma, that is mu - 3 sigma by default."""
    env = environment(model)
    return float(env.expose(env.create_rating(rating.mu, rating.sigma)))


def quality(first: Rating, second: Rating, model: RatingModel) -> float:
    """Return TrueSkill's match quality in [0, 1]: the density of a draw relative to its maximum.

    It is no win probability, and it falls with uncertainty; for that see `predict`.
    """
    env = environment(model)
    groups = [(env.create_rating(r.mu, r.sigma),) for r in (first, second)]
    return float(env.quality(groups))


def predict(teacher: Rating, student: Rating, model: RatingModel) -> float:
    """Return the probability that the student wins one task, both beliefs integrated out.

    Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)).
    """
    spread = math.sqrt(2.0 * model.beta**2 + student.sigma**2 + teacher.sigma**2)
    return cdf((student.mu - teacher.mu) / spread)
