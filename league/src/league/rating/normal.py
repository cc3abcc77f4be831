"""The normal distribution in log space, from `math.erfc` and NumPy alone."""

import math

import numpy as np

from league.basics.data import Floats

Z95 = 1.959963984540054
"""The 97.5 % quantile: half the width of a 95 % interval, in standard deviations."""

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Beyond this the asymptotic series is exact to double precision, and erfc nears underflow.
_FAR_TAIL = 20.0


def log_cdf_pair(z: Floats) -> tuple[Floats, Floats]:
    """Return (log Φ(z), log Φ(-z)), of z's shape, without overflow or cancellation.

    Near the centre it is erfc; past 20 standard deviations the asymptotic series
    Φ(-a) = φ(a)/a (1 - 1/a² + 3/a⁴ - 15/a⁶ ...), Abramowitz and Stegun 26.2.12.
    """
    magnitude = np.abs(z)
    near = np.minimum(magnitude, _FAR_TAIL)
    erfc = np.fromiter(map(math.erfc, (near / _SQRT2).ravel().tolist()), np.float64, near.size)
    lower = np.log(0.5 * erfc.reshape(near.shape))
    if bool(np.any(magnitude > _FAR_TAIL)):
        lower = np.where(magnitude > _FAR_TAIL, _log_far_tail(magnitude), lower)
    upper = np.log1p(-np.exp(lower))
    positive = z >= 0.0
    return np.where(positive, upper, lower), np.where(positive, lower, upper)


def log_pdf(z: Floats) -> Floats:
    """Return log φ(z), of z's shape."""
    return np.asarray(-0.5 * z * z - _LOG_SQRT_2PI, dtype=np.float64)


def cdf(z: float) -> float:
    """Return Φ(z) for one number."""
    return 0.5 * math.erfc(-z / _SQRT2)


def _log_far_tail(magnitude: Floats) -> Floats:
    a = np.maximum(magnitude, _FAR_TAIL)
    inverse_square = 1.0 / (a * a)
    series = np.zeros_like(a)
    for odd in (15, 13, 11, 9, 7, 5, 3, 1):
        series = -odd * inverse_square * (1.0 + series)
    return np.asarray(log_pdf(a) - np.log(a) + np.log1p(series), dtype=np.float64)
