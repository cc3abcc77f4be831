"""Skills as normal beliefs in TrueSkill's units, and one Bayesian update per match.

The gap d between student and teacher has the prior N(m, V). A match in which the student won
`won` tasks and lost `lost` (both may be fractions) has the likelihood
Φ(d/c)^won Φ(-d/c)^lost with c = sqrt(2) beta. With one task it is TrueSkill without draws, whose
closed form is then used; many tasks enter at once, so their order has no effect. Constants and
conversions are the `trueskill` package's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import trueskill

from league.errors import LeagueError, check_number
from league.probability import Floats, Mask, log_cdf_pair, log_pdf


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

    def rows(self, chosen: Mask) -> "Skills":
        """Return the chosen rows of columns of shape [n]."""
        return Skills(self.mu[chosen], self.sigma[chosen])

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


_NODES = np.linspace(0.0, 1.0, 64)
_MODE_STEPS = 40
_SETTLED = 1e-9  # a last step of that many prior deviations leaves the mode exact enough
_EDGE_STEPS = 5
_DROP = 34.0  # the integral ends where the density is exp(-34) of its peak


@dataclass(frozen=True)
class GapProblem:
    """Prior and result of n matches, each field a float array of shape [n]."""

    mean: Floats
    variance: Floats
    won: Floats
    lost: Floats
    scale: float

    def log_density(self, d: Floats) -> Floats:
        """Log posterior up to a constant, at d of shape [n, nodes]."""
        mean, variance, won, lost = (
            x[:, None] for x in (self.mean, self.variance, self.won, self.lost)
        )
        up, down = log_cdf_pair(d / self.scale)
        return np.asarray(-0.5 * (d - mean) ** 2 / variance + won * up + lost * down)

    def derivatives(self, d: Floats) -> tuple[Floats, Floats, Floats]:
        """Log posterior up to a constant, its slope and its curvature, at d of shape [n]."""
        z = d / self.scale
        up, down = log_cdf_pair(z)
        density = log_pdf(z)
        away = self.mean - d
        v_up, v_down = np.exp(density - up), np.exp(density - down)
        slope = away / self.variance + (self.won * v_up - self.lost * v_down) / self.scale
        pull = self.won * v_up * (v_up + z) + self.lost * v_down * (v_down - z)
        value = -0.5 * away * away / self.variance + self.won * up + self.lost * down
        return value, slope, -1.0 / self.variance - pull / self.scale**2


def gap_moments(problem: GapProblem) -> tuple[Floats, Floats]:
    """Return the posterior mean and variance of n gaps, each of shape [n].

    The density is log-concave and analytic, so the trapezoidal rule between the two points where
    it has died out converges geometrically: the error is below 1e-10 rating units for up to 16
    tasks, and below 1e-7 for 64.
    """
    mode, peak = _mode(problem)
    reach = np.sqrt(2.0 * _DROP * problem.variance)
    left, right = _edges(problem, peak, mode - reach, mode + reach)
    nodes = left[:, None] + (right - left)[:, None] * _NODES[None, :]
    log_weight = problem.log_density(nodes)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    offset = nodes - mode[:, None]
    shift = (weight * offset).sum(axis=1)
    variance = (weight * (offset - shift[:, None]) ** 2).sum(axis=1)
    return mode + shift, np.minimum(variance, problem.variance)


def rate_columns(
    teachers: Skills, students: Skills, score: Floats, weight: Floats, model: RatingModel
) -> tuple[Skills, Skills]:
    """Return n teachers and n students after one match of each pair; all columns of shape [n].

    score: the students' share of the tasks in [0, 1]. weight: how many tasks each match counts
    as, >= 0; a weight of 0 only lets the skills wander by tau. No member may occur twice. The
    gap's posterior is projected back on both sides in proportion to their variances, so
    mu_t/V_t + mu_s/V_s (V: variance after tau) is the same before and after.
    """
    t, s = (
        Skills(skills.mu, np.sqrt(skills.sigma * skills.sigma + model.tau**2))
        for skills in (teachers, students)
    )
    game = (weight == 1.0) & ((score == 0.0) | (score == 1.0))
    if not game.any():
        return _at_once(t, s, score, weight, model)
    if game.all():
        return _single_games(t, s, score, model)
    batch = ~game
    games = _single_games(t.rows(game), s.rows(game), score[game], model)
    rest = _at_once(t.rows(batch), s.rows(batch), score[batch], weight[batch], model)
    return _merged(game, games[0], rest[0]), _merged(game, games[1], rest[1])


def rate_matches(
    teachers: list[Rating],
    students: list[Rating],
    score: Floats,
    weight: Floats,
    model: RatingModel,
) -> tuple[list[Rating], list[Rating]]:
    """Return the new ratings of n teachers and n students; `rate_columns` on lists."""
    columns = Skills.of(teachers), Skills.of(students)
    new = rate_columns(*columns, score, weight, model)
    return new[0].ratings(), new[1].ratings()


def in_layers(matches: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the indices of matches in layers that can be rated at once, one after the other.

    matches: the names that each match changes. No name occurs twice in a layer, and the matches of
    each name stay in order.
    """
    layers: list[list[int]] = []
    depth: dict[str, int] = {}
    for i, names in enumerate(matches):
        layer = max((depth.get(name, 0) for name in names), default=0)
        depth |= dict.fromkeys(names, layer + 1)
        if layer == len(layers):
            layers.append([])
        layers[layer].append(i)
    return layers


def _at_once(
    teachers: Skills, students: Skills, score: Floats, weight: Floats, model: RatingModel
) -> tuple[Skills, Skills]:
    """The update by integration, for skills that have wandered."""
    gap, total = students.mu - teachers.mu, teachers.sigma**2 + students.sigma**2
    won, lost = weight * score, weight * (1.0 - score)
    mean, variance = gap_moments(GapProblem(gap, total, won, lost, model.performance_scale))
    pull, shrink = (mean - gap) / total, (variance - total) / (total * total)

    def projected(skills: Skills, step: Floats) -> Skills:
        own = skills.sigma**2
        return Skills(skills.mu + own * step, np.sqrt(own + own * own * shrink))

    return projected(teachers, -pull), projected(students, pull)


def _merged(chosen: Mask, these: Skills, others: Skills) -> Skills:
    mu, sigma = np.empty(chosen.shape), np.empty(chosen.shape)
    mu[chosen], mu[~chosen] = these.mu, others.mu
    sigma[chosen], sigma[~chosen] = these.sigma, others.sigma
    return Skills(mu, sigma)


def _mode(problem: GapProblem) -> tuple[Floats, Floats]:
    """The mode and the log density there, by Newton's method kept inside a bracket.

    A row stops as soon as it has settled, whatever the others do, so rows never interact.
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
        inside = (step >= low) & (step <= high)
        target = np.where(inside, step, 0.5 * (low + high))
        near = np.abs(target - d) <= enough
        d = np.where(settled, d, target)
        settled = settled | near
        value, slope, curve = problem.derivatives(d)
        if settled.all():
            break
        low = np.where(slope > 0.0, d, low)
        high = np.where(slope > 0.0, high, d)
    return d, value


def _edges(problem: GapProblem, peak: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Walk in from outside to where the density is exp(-drop) of its peak, on both sides.

    The fall is convex, so Newton from outside never crosses the edge.
    """
    fields = (problem.mean, problem.variance, problem.won, problem.lost, peak)
    mean, variance, won, lost, top = (np.concatenate((x, x)) for x in fields)
    both = GapProblem(mean, variance, won, lost, problem.scale)
    d = np.concatenate((left, right))
    for _ in range(_EDGE_STEPS):
        value, slope, _curve = both.derivatives(d)
        excess = top - value - _DROP
        safe = np.where(slope == 0.0, 1.0, slope)
        d = np.where((excess > 0.0) & (slope != 0.0), d + excess / safe, d)
    return d[: len(left)], d[len(left) :]


_FAR = 50.0  # standard deviations from where the series of a sure upset is exact


def _single_games(
    teachers: Skills, students: Skills, result: Floats, model: RatingModel
) -> tuple[Skills, Skills]:
    """TrueSkill's closed form for one game of each pair, for skills that have wandered.

    result: shape [n]; 1 where the student won, 0 where the teacher did. Each mean moves by its
    variance times `step`, and each variance falls by its own share of c² times w.
    """
    c2 = 2.0 * model.beta**2 + teachers.sigma**2 + students.sigma**2
    c = np.sqrt(c2)
    sign = np.where(result >= 0.5, 1.0, -1.0)
    v, w = _win_moments(sign * (students.mu - teachers.mu) / c)
    step = sign * v / c

    def after(skills: Skills, step: Floats) -> Skills:
        own = skills.sigma**2
        return Skills(skills.mu + own * step, skills.sigma * np.sqrt(1.0 - own / c2 * w))

    return after(teachers, -step), after(students, step)


def _win_moments(x: Floats) -> tuple[Floats, Floats]:
    """Return TrueSkill's v and w of a win, of x's shape: x is the winner's lead over c."""
    near = np.maximum(x, -_FAR)
    v = np.exp(log_pdf(near) - log_cdf_pair(near)[0])
    w = v * (v + near)
    if bool(np.any(x < -_FAR)):
        # φ/Φ = a + 1/a - 2/a³ + 10/a⁵ ... at -a, without the cancellation in v + x.
        a = np.maximum(-x, _FAR)
        rest = 1.0 / a - 2.0 / a**3 + 10.0 / a**5
        v = np.where(x < -_FAR, a + rest, v)
        w = np.where(x < -_FAR, (a + rest) * rest, w)
    return v, w
