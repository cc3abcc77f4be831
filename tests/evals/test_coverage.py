"""Simulations with known truth: how often each interval that `evals` prints holds it.

`pytest -m slow -s tests/evals/test_coverage.py` prints the lines of the table in
docs/experiments.md.
"""

import numpy as np
import pytest
from verdicts_of_one import compare, estimate

from evals import build_table
from evals.scores import average, score_members

RUNS = 400
NEVER, ALIKE, HARD = "one in ten can be solved", "all alike", "mostly all or none"


def chances(rng, kind, problems, share):
    """Draw the chance of each problem, whose mean over all problems there are is the share."""
    if kind == ALIKE:
        return np.full(problems, share)
    if kind == NEVER:
        return np.where(rng.random(problems) < 0.1, 10 * share, 0.0)
    return rng.beta(share / 2, (1 - share) / 2, problems)


def drawn(rng, right, samples):
    rows = rng.random((len(right), samples)) < right[:, None]
    return {str(i): row.tolist() for i, row in enumerate(rows)}


def held(name, intervals, truth):
    """Print how many of the intervals hold the truth, which 92 of 100 must."""
    low, high = np.array(list(intervals)).T
    assert (low < high).all()
    share = np.mean((low <= truth) & (truth <= high))
    print(f"| {name} | {100 * share:.1f} |")
    assert share >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "problems", "samples", "share"),
    [
        (ALIKE, 30, 1, 0.01), (ALIKE, 30, 1, 0.03), (ALIKE, 30, 1, 0.3), (ALIKE, 164, 1, 0.95),
        (HARD, 30, 4, 0.03), (HARD, 30, 16, 0.3), (ALIKE, 30, 64, 0.5), (NEVER, 30, 16, 0.05),
        (HARD, 164, 4, 0.9),
    ],
)  # fmt: skip
def test_a_score_is_in_its_interval(kind, problems, samples, share):
    rng = np.random.default_rng([problems, samples, int(1000 * share)])
    found = (
        estimate(drawn(rng, chances(rng, kind, problems, share), samples), str(rng.random()))
        for _ in range(RUNS)
    )
    name = f"avg@{samples}, {problems} problems, {kind}, truth {100 * share:g} %"
    held(name, (row.interval for row in found), share)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problems", "samples", "share", "gain"),
    [(30, 1, 0.03, 0.0), (30, 1, 0.3, 0.1), (30, 4, 0.3, 0.05), (164, 1, 0.1, 0.02)],
)
def test_a_difference_is_in_its_interval(problems, samples, share, gain):
    rng = np.random.default_rng([problems, samples, int(1000 * share), 1])
    found = []
    for _ in range(RUNS):
        before = chances(rng, HARD, problems, share)
        # The second solves some of what the first does not; on average it gains what is said.
        after = before + (1 - before) * gain / (1 - share)
        found.append(compare(drawn(rng, after, samples), drawn(rng, before, samples)).interval)
    held(
        f"difference, avg@{samples}, {problems} problems, truth {100 * gain:g} points", found, gain
    )


@pytest.mark.slow
def test_the_mean_of_members_is_in_its_interval():
    rng, found = np.random.default_rng(4), []
    for _ in range(RUNS):
        right = chances(rng, HARD, 30, 0.1)
        members = {f"s{i}": drawn(rng, right, 2) for i in range(4)}
        column = score_members(members, str(rng.random()))
        found.append(column.summary(list(members))["mean"].interval)
    held("mean of four members, avg@2, 30 problems, truth 10 %", found, 0.1)


SIZES = (30, 30, 40, 500, 675, 272, 1319)
"""Of the seven math benchmarks."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ALIKE, NEVER, HARD])
@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize(
    ("sizes", "share"), [((30,) * 7, 0.01), ((30,) * 7, 0.03), ((30,) * 7, 0.1), (SIZES, 0.03)]
)
def test_an_average_is_in_its_interval(sizes, share, samples, kind):
    rng, found = np.random.default_rng([len(sizes), samples, int(1000 * share)]), []
    for _ in range(RUNS if sum(sizes) < 300 else 60):
        parts = []
        for size in sizes:
            right = drawn(rng, chances(rng, kind, size, share), samples)
            parts.append(score_members({"a": right}, str(rng.random())))
        found.append(average("math", parts).row("a").interval)
    held(f"average of {len(sizes)}, avg@{samples}, {kind}, truth {100 * share:g} %", found, share)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("adapters", [1, 4, 16])
def test_equal_adapters_are_shown_to_differ_in_few_cases(adapters, samples):
    rng, shown, runs = np.random.default_rng([adapters, samples]), 0, 500
    for _ in range(runs):
        right = chances(rng, HARD, 60, 0.4)
        results = {f"s{i}": {"gsm8k": drawn(rng, right, samples)} for i in range(adapters)} | {
            "base": {"gsm8k": drawn(rng, right, samples)}
        }
        shown += any(row.p <= 0.05 for row in build_table(results, against="base").differences)
    print(f"| {adapters} equal adapters, avg@{samples} | {100 * shown / runs:.1f} |")
    assert shown / runs <= 0.06
