"""One Bayesian update per match, from a fractional result.

The gap d between student and teacher has the prior N(m, V). A match in which the student won
`won` tasks and lost `lost` (both may be fractions) has the likelihood
Φ(d/c)^won Φ(-d/c)^lost with c = sqrt(2) beta. With one task it is TrueSkill without draws, whose
closed form is then used; many tasks enter at once, so their order has no effect.
"""

from dataclasses import dataclass

import numpy as np

from league.probability import Floats, Mask, log_cdf_pair, log_pdf
from league.ratings import Rating, RatingModel, Skills

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
        return single_games(t, s, score, model)
    batch = ~game
    games = single_games(_rows(t, game), _rows(s, game), score[game], model)
    rest = _at_once(_rows(t, batch), _rows(s, batch), score[batch], weight[batch], model)
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


def _rows(skills: Skills, chosen: Mask) -> Skills:
    return Skills(skills.mu[chosen], skills.sigma[chosen])


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


def single_games(
    teachers: Skills, students: Skills, result: Floats, model: RatingModel
) -> tuple[Skills, Skills]:
    """Return n teachers and n students after one game of each pair, without any wandering.

    result: shape [n]; 1 where the student won, 0 where the teacher did.
    """
    c2 = 2.0 * model.beta**2 + teachers.sigma**2 + students.sigma**2
    c = np.sqrt(c2)
    sign = np.where(result >= 0.5, 1.0, -1.0)
    v, w = win_moments(sign * (students.mu - teachers.mu) / c)
    return moved(teachers, students, sign * v / c, w, c2)


def moved(
    teachers: Skills, students: Skills, step: Floats, w: Floats, c2: Floats
) -> tuple[Skills, Skills]:
    """Return both sides after a game, for columns of shape [n].

    Each mean moves by its variance times `step`, and each variance falls by its own share of
    c² times w.
    """

    def after(skills: Skills, step: Floats) -> Skills:
        own = skills.sigma**2
        return Skills(skills.mu + own * step, skills.sigma * np.sqrt(1.0 - own / c2 * w))

    return after(teachers, -step), after(students, step)


def win_moments(x: Floats) -> tuple[Floats, Floats]:
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
