"""TrueSkill's closed form for single games, on many pairs at once.

Herbrich, Minka and Graepel (2006): with c² = 2 beta² + sigma_s² + sigma_t² and t the winner's lead
over c, a win has v = φ(t) / Φ(t) and w = v (v + t).
"""

import numpy as np

from league.basics.data import Floats
from league.rating.normal import log_cdf_pair, log_pdf
from league.rating.rating import RatingModel, Skills

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
