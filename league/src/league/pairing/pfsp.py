"""Prioritised fictitious self-play: how much a match is worth playing.

The family p^a (1-p)^b of the predicted solve rate p holds AlphaStar's curves (Vinyals and others,
2019): f_var is a = b = 1, f_hard is a = 0. Its peak is at p = a / (a + b).
"""

import numpy as np

from league.arrays import Floats


def match_weights(expected: Floats, powers: tuple[float, float]) -> Floats:
    """Return p^a (1-p)^b, of expected's shape; finite and >= 0 for every p in [0, 1]."""
    a, b = powers
    p = np.clip(expected, 0.0, 1.0)
    return np.asarray(p**a * (1.0 - p) ** b, dtype=np.float64)


def choice_probabilities(weights: Floats, explore: float) -> Floats:
    """Return probabilities over candidates, shape [n]: (1 - explore) PFSP + explore uniform.

    Uniform altogether when every weight is 0, as for opponents that are all hopeless.
    """
    uniform = np.full(weights.shape, 1.0 / weights.size)
    total = float(weights.sum())
    if total <= 0.0:
        return uniform
    return np.asarray((1.0 - explore) * (weights / total) + explore * uniform)
