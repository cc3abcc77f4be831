"""The normal distribution in log space, and random numbers that depend on a key alone."""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


def stream(*key: int | str) -> np.random.Generator:
    """Return a generator (Philox, counter based) for this key; the same key, the same numbers."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(key), "little")))


def tie_break(*key: int | str) -> int:
    """Return a 64-bit number for this key: it breaks ties without favour."""
    return int.from_bytes(_digest(key)[:8], "little")


def _digest(key: tuple[int | str, ...]) -> bytes:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
