"""TrueSkill's single games with draws, which no scheme of a league plays.

With t the winner's lead over c and e the draw margin over c, a win has v and w of t - e.
"""

from statistics import NormalDist

import numpy as np

from league.basics.data import Floats
from league.rating.normal import log_cdf_pair, log_pdf
from league.rating.posterior import moved, win_moments
from league.rating.rating import RatingModel, Skills


def draw_margin(probability: float, model: RatingModel) -> float:
    """Return the margin eps = Φ⁻¹((p + 1) / 2) sqrt(2) beta for a draw probability p in [0, 1)."""
    return NormalDist().inv_cdf((probability + 1.0) / 2.0) * model.performance_scale


def games_with_draws(
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
    v, w = win_moments(lead - margin / c)
    drawn = result == 0.5
    if drawn.any():
        v_draw, w_draw = _draw(lead, margin / c)
        v, w = np.where(drawn, v_draw, v), np.where(drawn, w_draw, w)
    return moved(teachers, students, sign * v / c, w, c2)


def _draw(t: Floats, e: Floats) -> tuple[Floats, Floats]:
    t = np.clip(t, -8.0, 8.0)  # further out a draw teaches no more than that
    inside = np.exp(log_cdf_pair(e - t)[0]) - np.exp(log_cdf_pair(-e - t)[0])
    low, high = np.exp(log_pdf(-e - t)), np.exp(log_pdf(e - t))
    v = (low - high) / inside
    return v, v * v + ((e - t) * high + (e + t) * low) / inside
