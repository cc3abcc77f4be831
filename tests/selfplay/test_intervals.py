"""Intervals of `compare` and the studies: their values, and how often they hold a known truth.

`pytest -m slow -s tests/selfplay/test_intervals.py` prints the lines of the table in
docs/experiments.md.
"""

import numpy as np
import pytest

from selfplay.experiments.measures import Estimate, estimate, student_t


def test_the_mean_is_over_seeds_and_missing_tasks_are_left_out():
    found = estimate([np.array([0.0, 1.0, np.nan]), np.array([0.1]), np.array([np.nan])])
    assert (found.value, found.seeds) == (pytest.approx(0.3), 2)
    assert estimate([np.array([np.nan])]) is None
    assert estimate([]) is None
    assert estimate([np.array([2.0])]) == Estimate(2.0, None, None, 1)
    assert estimate([np.array([3.0])] * 4) == Estimate(3.0, None, None, 4)


def test_the_interval_is_students_over_seeds_or_over_the_tasks_of_one():
    found = estimate([np.array([seed]) for seed in (1.0, 2.0, 3.0, 4.0, 6.0)])
    half = 2.776 * np.std([1, 2, 3, 4, 6], ddof=1) / np.sqrt(5)
    assert (found.low, found.high) == pytest.approx((3.2 - half, 3.2 + half))
    alone = estimate([np.array([1.0, 2.0, 3.0, 4.0, 6.0])])
    assert (alone.value, alone.low, alone.seeds) == (3.2, pytest.approx(3.2 - half), 1)
    assert student_t(4) == 2.776
    assert student_t(30) == pytest.approx(2.042, abs=4e-3)


def held(name, hits, least=0.92):
    print(f"| {name} | {100 * np.mean(hits):.1f} |")
    assert np.mean(hits) >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "between", "tasks"), [(3, 1, 1), (5, 1, 1), (8, 1, 1), (5, 0.3, 20)]
)
def test_a_mean_is_in_its_interval(seeds, between, tasks):
    rng, hits = np.random.default_rng([seeds, tasks]), []
    for _ in range(1000):
        made = [rng.normal(rng.normal(0, between), 0.5 * (tasks > 1), tasks) for _ in range(seeds)]
        found = estimate(made)
        hits.append(found.low <= 0.0 <= found.high)
    held(f"mean, {seeds} seeds, {tasks} numbers each", hits)
