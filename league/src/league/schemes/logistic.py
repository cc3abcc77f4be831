"""The logistic curve, and matches cut into single games: for schemes that know no batches."""

from collections.abc import Iterator

import numpy as np

from league.arrays import Floats


def logistic(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)), of z's shape, without overflow for any finite z."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, small) / (1.0 + small)


def in_single_games(weight: Floats) -> Iterator[Floats]:
    """Yield, game by game, how much of a game each match still has: 1, at last a rest, then 0.

    weight: shape [n], >= 0. For the weights (2.5, 1): (1, 1), (1, 0), (0.5, 0).
    """
    for game in range(int(np.ceil(weight.max(initial=0.0)))):
        yield np.clip(weight - game, 0.0, 1.0)
