"""Intervals of shares: their values, and how often they hold a known truth.

`pytest -m slow -s tests/studies/test_shares.py` prints the lines of the table in
docs/experiments.md.
"""

import numpy as np
import pytest
from studies.shares import clopper_pearson, share_interval


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 30, 0.0, 0.11570),
        (3, 10, 0.06674, 0.65245),
        (10, 10, 0.69150, 1.0),
        (300, 1000, 0.27173, 0.32946),
    ],
)
def test_the_interval_of_a_count_is_clopper_and_pearsons(count, of, low, high):
    assert clopper_pearson(count, of) == pytest.approx((low, high), abs=1e-5)


def test_members_of_runs_that_differ_count_less_than_independent_ones():
    alike = share_interval([(1, 4), (2, 4), (1, 4), (2, 4), (1, 4)])
    apart = share_interval([(4, 4), (0, 4), (3, 4), (0, 4), (0, 4)])
    assert alike[1] - alike[0] < apart[1] - apart[0]
    assert apart == pytest.approx(clopper_pearson(7 / 4, 5), abs=1e-6)
    assert share_interval([(0, 4)] * 5) == clopper_pearson(0, 5)


def held(name, hits, least=0.92):
    print(f"| {name} | {100 * np.mean(hits):.1f} |")
    assert np.mean(hits) >= least


def all_or_nothing(rng, share):
    return float(rng.random() < share)


def mostly(rng, share):
    return rng.beta(share / 3, (1 - share) / 3)


def alike(rng, share):
    return rng.beta(100 * share, 100 * (1 - share))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("kind", [all_or_nothing, mostly, alike])
def test_a_share_is_in_its_interval(seeds, kind):
    rng = np.random.default_rng([seeds, len(kind.__name__)])
    for share in (0.05, 0.3, 0.5):
        hits = []
        for _ in range(1000):
            low, high = share_interval([(kind(rng, share), 1) for _ in range(seeds)])
            assert 0.0 <= low < high <= 1.0
            hits.append(low <= share <= high)
        name = kind.__name__.replace("_", " ")
        held(f"share, {seeds} seeds that are {name}, truth {100 * share:g} %", hits)


@pytest.mark.slow
def test_a_count_of_members_is_in_its_interval():
    for kind in (alike, mostly):
        for share in (0.1, 0.5):
            rng, hits = np.random.default_rng([int(10 * share), len(kind.__name__)]), []
            for _ in range(1000):
                counts = [(rng.binomial(4, kind(rng, share)), 4) for _ in range(5)]
                low, high = share_interval(counts)
                hits.append(low <= share <= high)
            name = f"count, five runs of four members, runs {kind.__name__}"
            held(f"{name}, truth {100 * share:g} %", hits)
