"""Rank intervals: between which places of the leaderboard a member could honestly be."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from league.basics.data import PlainData
from league.basics.errors import whole_number
from league.basics.streams import stream
from league.rating.rating import Rating


@dataclass(frozen=True)
class RankInterval(PlainData):
    """Places of one member among the members of its role, 1 is best."""

    member: str
    rank: int
    """Its place by mu."""
    low: int
    """The best place that it may truly have, with 95 % probability."""
    high: int
    """The worst such place."""
    best: float
    """The probability that it is the best of all."""


def rank_intervals(
    ratings: Mapping[str, Rating], *, seed: int = 0, draws: int = 2000
) -> dict[str, RankInterval]:
    """Return the rank interval of each member of one role, in the given order.

    Skills are drawn `draws` times from their normal beliefs, which are taken as independent, and
    ranked each time; the interval runs from the 2.5 % to the 97.5 % quantile of the ranks. It is
    about the skills, and not about the lower bound mu - 3 sigma that a board may be sorted by.
    """
    whole_number("draws", draws, 1)
    if not ratings:
        return {}
    names = sorted(ratings)  # so that the order of the members has no part in it
    mu = np.array([ratings[name].mu for name in names])
    sigma = np.array([ratings[name].sigma for name in names])
    rng = stream(seed, "ranks")
    ranks = np.empty((draws, len(names)), dtype=np.int32)
    places = np.arange(1, len(names) + 1, dtype=np.int32)
    for row in range(draws):
        ranks[row, np.argsort(-(mu + sigma * rng.standard_normal(mu.size)))] = places
    ends = np.quantile(ranks, (0.025, 0.975), axis=0, method="inverted_cdf")
    own = np.empty(mu.size, dtype=np.int64)
    own[np.argsort(-mu, kind="stable")] = places
    first = (ranks == 1).mean(axis=0).tolist()
    rows = zip(names, own.tolist(), *ends.tolist(), first, strict=True)
    found = {row[0]: RankInterval(*row) for row in rows}
    return {name: found[name] for name in ratings}
