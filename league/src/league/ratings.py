"""Skills as normal beliefs in TrueSkill's units, and one Bayesian update per match.

The gap d between student and teacher has the prior N(m, V). A match in which the student won
`won` tasks and lost `lost` (both may be fractions) has the likelihood
Φ(d/c)^won Φ(-d/c)^lost with c = sqrt(2) beta. With one task it is TrueSkill without draws; many
tasks enter at once, so their order has no effect. Constants and conversions are the `trueskill`
package's. Beliefs are per member: the correlation of two skills is not stored.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import trueskill
from numpy.typing import NDArray

from league.errors import LeagueError, check_number

Floats = NDArray[np.float64]

Z95 = 1.959963984540054
"""The 97.5 % quantile: half the width of a 95 % interval, in standard deviations."""

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Beyond this the asymptotic series is exact to double precision, and erfc nears underflow.
_FAR_TAIL = 20.0


@dataclass(frozen=True, slots=True)
class Rating:
    """Belief about one member's skill: N(mu, sigma²), in rating units."""

    mu: float
    sigma: float


def skills(teachers: Sequence[Rating], students: Sequence[Rating]) -> tuple[Floats, Floats]:
    """Return the means and the standard deviations of n pairs' ratings, each of shape [2, n]."""
    sides = [[(r.mu, r.sigma) for r in side] for side in (teachers, students)]
    mu, sigma = np.moveaxis(np.array(sides, dtype=np.float64).reshape(2, -1, 2), 2, 0).copy()
    return mu, sigma


@dataclass(frozen=True)
class RatingModel:
    """The constants of the TrueSkill model (Herbrich, Minka and Graepel, 2006).

    The defaults are the `trueskill` package's.

    - mu: a newcomer's mean.
    - sigma: a newcomer's standard deviation.
    - beta: noise of one performance.
    - tau: how much a skill may wander between two matches of a member.
    """

    mu: float = float(trueskill.MU)
    sigma: float = float(trueskill.SIGMA)
    beta: float = float(trueskill.BETA)
    tau: float = float(trueskill.TAU)

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


def log_cdf_pair(z: Floats) -> tuple[Floats, Floats]:
    """Return (log Φ(z), log Φ(-z)), of z's shape, without overflow or cancellation.

    Near the centre it is erfc; past 20 standard deviations the asymptotic series
    Φ(-a) = φ(a)/a (1 - 1/a² + 3/a⁴ - 15/a⁶ ...), Abramowitz and Stegun 26.2.12.
    """
    magnitude = np.abs(z)
    near = np.minimum(magnitude, _FAR_TAIL)
    points = (near / math.sqrt(2.0)).ravel().tolist()
    erfc = np.fromiter(map(math.erfc, points), np.float64, near.size)
    lower = np.log(0.5 * erfc.reshape(near.shape))
    if (magnitude > _FAR_TAIL).any():
        lower = np.where(magnitude > _FAR_TAIL, _log_far_tail(magnitude), lower)
    upper = np.log1p(-np.exp(lower))
    positive = z >= 0.0
    return np.where(positive, upper, lower), np.where(positive, lower, upper)


def log_pdf(z: Floats) -> Floats:
    """Return log φ(z), of z's shape."""
    return np.asarray(-0.5 * z * z - _LOG_SQRT_2PI, dtype=np.float64)


def _log_far_tail(magnitude: Floats) -> Floats:
    a = np.maximum(magnitude, _FAR_TAIL)
    inverse_square = 1.0 / (a * a)
    series = np.zeros_like(a)
    for odd in (15, 13, 11, 9, 7, 5, 3, 1):
        series = -odd * inverse_square * (1.0 + series)
    return np.asarray(log_pdf(a) - np.log(a) + np.log1p(series), dtype=np.float64)


def lower_bound(rating: Rating) -> float:
    """Return mu - 3 sigma, which is TrueSkill's `expose` where a newcomer's mu is 3 sigma."""
    return rating.mu - 3.0 * rating.sigma


def expected_shares(
    teachers: Sequence[Rating], students: Sequence[Rating], model: RatingModel
) -> Floats:
    """Return the probability that the student of each of n pairs wins one task, shape [n], with
    both beliefs integrated out: see `predict`."""
    return np.exp(log_cdf_pair(_leads(*skills(teachers, students), model)[0])[0])


def _leads(mu: Floats, sigma: Floats, model: RatingModel) -> tuple[Floats, Floats]:
    """Return the students' expected lead in one performance, in its standard deviations, and its
    variance, each of shape [n], for skills of shape [2, n]."""
    variance = 2.0 * model.beta**2 + sigma[0] ** 2 + sigma[1] ** 2
    return (mu[1] - mu[0]) / np.sqrt(variance), variance


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected of one game between two members.

    - probability: that the first one wins.
    - quality: how even the game is, from 0 to 1 (sure of equal skills).
    """

    probability: float
    quality: float


def predict(a: Rating, b: Rating, model: RatingModel | None = None) -> Prediction:
    """Return the probability that `a` wins one game, or one task, against `b`, and its quality.

    The probability counts the games in which a performs better: Φ((mu_a - mu_b) / c) with
    c² = 2 beta² + sigma_a² + sigma_b². The model has no draws, so that of a and of b sum to 1;
    where games are drawn it is the expected score with a draw as one half. The quality is
    TrueSkill's, sqrt(2) beta / c exp(-(mu_a - mu_b)² / (2 c²)), the chance of a draw relative to
    that of equals (Herbrich, Minka and Graepel 2006, on matchmaking); `trueskill.quality_1vs1`
    gives the same. Both beliefs count as independent.

    model: of a league, `league.config.model`; by default `RatingModel()`.

        >>> forecast = predict(Rating(30.0, 2.0), Rating(25.0, 4.0))
        >>> round(forecast.probability, 3), round(forecast.quality, 3)
        (0.75, 0.634)
    """
    model = model or RatingModel()
    lead, variance = _leads(*skills([b], [a]), model)
    quality = model.performance_scale / np.sqrt(variance) * np.exp(-0.5 * lead**2)
    return Prediction(float(np.exp(log_cdf_pair(lead)[0])[0]), float(quality[0]))


def child_rating(
    parents: Sequence[Rating], weights: Sequence[float], jump: float, model: RatingModel
) -> Rating:
    """Return the moment-matched mixture of the parents with inflated sigma.

    mu = sum w_i mu_i; sigma² = sum w_i (sigma_i² + (mu_i - mu)²) + jump², at most a newcomer's.
    weights: one per parent, summing to 1. jump: in rating units.
    """
    mixture = list(zip(weights, parents, strict=True))
    mu = math.fsum(w * p.mu for w, p in mixture)
    variance = math.fsum(w * (p.sigma**2 + (p.mu - mu) ** 2) for w, p in mixture)
    return Rating(mu, min(math.sqrt(variance + jump * jump), model.sigma))


_NODES = 32.0  # of the integral, for each beta in a newcomer's sigma
_MODE_STEPS = 40
_SETTLED = 1e-9  # a last step of that many prior deviations leaves the mode exact enough
_EDGE_STEPS = 5
_DROP = 34.0  # the integral ends where the density is exp(-34) of its peak
_SIDES = np.array([[-1.0], [1.0]])
"""The way the teacher's and the student's skill move with the gap."""


@dataclass(frozen=True)
class GapProblem:
    """Prior and result of n matches, each field a float array of shape [n]."""

    mean: Floats
    variance: Floats
    won: Floats
    lost: Floats
    scale: float

    def derivatives(self, d: Floats) -> tuple[Floats, Floats, Floats]:
        """Log posterior up to a constant, its slope and its curvature, at d of shape [..., n]."""
        z = d / self.scale
        up, down = log_cdf_pair(z)
        density = log_pdf(z)
        away = self.mean - d
        v_up, v_down = np.exp(density - up), np.exp(density - down)
        slope = away / self.variance + (self.won * v_up - self.lost * v_down) / self.scale
        pull = self.won * v_up * (v_up + z) + self.lost * v_down * (v_down - z)
        value = -0.5 * away * away / self.variance + self.won * up + self.lost * down
        return value, slope, -1.0 / self.variance - pull / self.scale**2


def rate_matches(
    teachers: Sequence[Rating],
    students: Sequence[Rating],
    score: Floats,
    weight: Floats,
    model: RatingModel,
) -> tuple[list[Rating], list[Rating]]:
    """Return the new ratings of n teachers and n students after one match of each pair.

    score: the students' share of the tasks in [0, 1], shape [n]. weight: how many tasks each match
    counts as, >= 0, shape [n]; a weight of 0 only lets the skills wander by tau. No member may
    occur twice. The gap's posterior is projected back on both sides in proportion to their
    variances, so mu_t/V_t + mu_s/V_s (V: variance after tau) is the same before and after.

    A gap's density is log-concave and analytic, so the trapezoidal rule between the two points
    where it has died out converges geometrically in the number of nodes. With 32 for each beta in
    the larger sigma of the two, the error is below 1e-9 rating units for up to 256 tasks.
    """
    mu, sigma = skills(teachers, students)
    variances = np.sqrt(sigma * sigma + model.tau**2) ** 2
    gap, total = mu[1] - mu[0], variances[0] + variances[1]
    won, lost = weight * score, weight * (1.0 - score)
    problem = GapProblem(gap, total, won, lost, model.performance_scale)
    mode, peak = _mode(problem)
    left, right = _edges(problem, peak, mode + _SIDES * np.sqrt(2.0 * _DROP * total))
    nodes = min(max(64, round(_NODES * model.sigma / model.beta)), 4096)
    at = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, nodes)
    log_density = np.ascontiguousarray(problem.derivatives(at.T)[0].T)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    density /= density.sum(axis=1, keepdims=True)
    offset = at - mode[:, None]
    shift = (density * offset).sum(axis=1)
    variance = np.minimum((density * (offset - shift[:, None]) ** 2).sum(axis=1), total)
    pull, shrink = (mode + shift - gap) / total, (variance - total) / (total * total)
    mu = mu + variances * (_SIDES * pull)
    sigma = np.sqrt(variances + variances * variances * shrink)
    first, second = zip(mu.tolist(), sigma.tolist(), strict=True)
    return list(map(Rating, *first)), list(map(Rating, *second))


def _mode(problem: GapProblem) -> tuple[Floats, Floats]:
    """The mode and the log density there, by Newton's method kept inside a bracket.

    Each row stops as soon as it has settled, so that rows never interact.
    """
    d = problem.mean
    value, slope, curve = problem.derivatives(d)
    # The curvature is at least that of the prior, which bounds how far the mode can be.
    bound = d + problem.variance * slope
    low, high = np.minimum(d, bound), np.maximum(d, bound)
    settled = np.zeros(d.shape, dtype=bool)
    enough = _SETTLED * np.sqrt(problem.variance)
    for _ in range(_MODE_STEPS):
        step = d - slope / curve
        target = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        d, settled = np.where(settled, d, target), settled | (np.abs(target - d) <= enough)
        value, slope, curve = problem.derivatives(d)
        if settled.all():
            break
        low = np.where(slope > 0.0, d, low)
        high = np.where(slope > 0.0, high, d)
    return d, value


def _edges(problem: GapProblem, peak: Floats, outside: Floats) -> Floats:
    """Walk in from two points outside to where the density is exp(-drop) of its peak.

    outside: left and right of the mode, shape [2, n], as the result. The fall is convex, so
    Newton from outside never crosses the edge.
    """
    d = outside
    for _ in range(_EDGE_STEPS):
        value, slope, _curve = problem.derivatives(d)
        excess = peak - value - _DROP
        moves = (excess > 0.0) & (slope != 0.0)
        d = np.where(moves, d + excess / np.where(moves, slope, 1.0), d)
    return d
