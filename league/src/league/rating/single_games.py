"""TrueSkill's closed form for single games with draws, on many pairs at once.

Herbrich, Minka and Graepel (2006): with c² = 2 beta² + sigma_s² + sigma_t², t the winner's lead
over c and e the draw margin over c, a win has v = φ(t - e) / Φ(t - e) and w = v (v + t - e).
"""

from statistics import NormalDist

import numpy as np

from league.rating.normal import Floats, log_cdf_pair, log_pdf
from league.rating.rating import RatingModel
from league.rating.skills import Skills

_FAR = 50.0  # standard deviations from where the series of a sure upset is exact


def draw_margin(probability: float, model: RatingModel) -> float:
    """Return the margin eps = Φ⁻¹((p + 1) / 2) sqrt(2) beta for a draw probability p in [0, 1)."""
    return NormalDist().inv_cdf((probability + 1.0) / 2.0) * model.performance_scale


def single_games(
    teachers: Skills, students: Skills, result: Floats, margin: float, model: RatingModel
) -> tuple[Skills, Skills]:
    """Return n teachers and n students after one game of each pair, without any wandering.

    result: shape [n]; 1 where the student won, 0 where the teacher did, 0.5 for a draw (which
    needs a margin above 0, in rating units).
    """
    c2 = 2.0 * model.beta**2 + teachers.sigma**2 + students.sigma**2
    c = np.sqrt(c2)
    sign = np.where(result >= 0.5, 1.0, -1.0)
    lead = sign * (students.mu - teachers.mu) / c
    v, w = _win(lead - margin / c)
    drawn = result == 0.5
    if drawn.any():
        v_draw, w_draw = _draw(lead, margin / c)
        v, w = np.where(drawn, v_draw, v), np.where(drawn, w_draw, w)
    step = sign * v / c
    return (
        Skills(
            teachers.mu - teachers.sigma**2 * step,
            teachers.sigma * np.sqrt(1.0 - teachers.sigma**2 / c2 * w),
        ),
        Skills(
            students.mu + students.sigma**2 * step,
            students.sigma * np.sqrt(1.0 - students.sigma**2 / c2 * w),
        ),
    )


def _win(x: Floats) -> tuple[Floats, Floats]:
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


def _draw(t: Floats, e: Floats) -> tuple[Floats, Floats]:
    t = np.clip(t, -8.0, 8.0)  # further out a draw teaches no more than that
    inside = np.exp(log_cdf_pair(e - t)[0]) - np.exp(log_cdf_pair(-e - t)[0])
    low, high = np.exp(log_pdf(-e - t)), np.exp(log_pdf(e - t))
    v = (low - high) / inside
    return v, v * v + ((e - t) * high + (e + t) * low) / inside
