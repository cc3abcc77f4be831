"""Scores, errors and intervals of one member, and comparisons of two."""

import itertools
import json
import math

import numpy as np
import pytest

from evals.errors import EvalsError
from evals.metrics.bootstrap import resample
from evals.metrics.counts import Verdicts, count
from evals.metrics.estimate import estimate
from evals.metrics.paired import compare, sign_test
from evals.metrics.pass_at_k import problem_scores


def verdicts(*samples: str) -> Verdicts:
    """Problems p0, p1 ... from words such as "+-?": right, wrong, ungraded."""
    meaning = {"+": True, "-": False, "?": None}
    return {f"p{i}": [meaning[mark] for mark in word] for i, word in enumerate(samples)}


def drawn(seed: int, problems: int, samples: int, rate: float = 0.5) -> Verdicts:
    generator = np.random.default_rng(seed)
    hardness = generator.uniform(0, 2 * rate, problems)
    return {
        f"p{i}": [bool(x) for x in generator.random(samples) < hardness[i]] for i in range(problems)
    }


def test_ungraded_samples_never_count_and_are_told() -> None:
    found = count(verdicts("+?-", "??", "+"))
    assert found.problems == ("p0", "p2")
    assert found.graded.tolist() == [2, 1]
    assert found.right.tolist() == [1, 1]
    assert (found.ungraded, found.unjudged, found.least) == (3, ("p1",), 1)
    score = estimate(verdicts("+?-", "??", "+"))
    assert (score.value, score.problems, score.ungraded, score.unjudged) == (0.75, 2, 3, 1)


@pytest.mark.parametrize(("n", "c"), [(1, 0), (1, 1), (5, 2), (8, 3), (8, 8), (8, 0), (9, 7)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(n: int, c: int) -> None:
    found = count({"p": [True] * c + [False] * (n - c)})
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(range(n), k))
        share = sum(any(i < c for i in subset) for subset in subsets) / len(subsets)
        assert problem_scores(found, k)[0] == pytest.approx(share, abs=1e-12)
    assert problem_scores(found)[0] == pytest.approx(problem_scores(found, 1)[0])


def test_pass_at_k_of_many_samples_neither_overflows_nor_cancels() -> None:
    found = count({"p": [True] * 3 + [False] * 9997})
    exact = 1 - math.comb(9997, 100) / math.comb(10000, 100)
    assert problem_scores(found, 100)[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("k", "told"), [(0, "expected 1 or more"), (3, "p1 has 2"), (9, "p1")])
def test_pass_at_k_asks_for_enough_samples(k: int, told: str) -> None:
    with pytest.raises(EvalsError, match=told):
        estimate(verdicts("++-", "+-?"), k)


def test_nothing_graded_is_told() -> None:
    for nothing in ({}, verdicts("?", "??")):
        with pytest.raises(EvalsError, match="grade some first"):
            estimate(nothing)


def test_standard_error_is_that_of_problem_means() -> None:
    score = estimate(verdicts("++", "+-", "--", "+-"))
    assert score.value == 0.5
    assert score.standard_error == pytest.approx(np.std([1, 0.5, 0, 0.5], ddof=1) / 2)
    assert score.low <= 0.5 <= score.high


def test_repeated_samples_of_a_problem_do_not_narrow_the_error() -> None:
    once, often = verdicts("+", "-", "+", "-"), verdicts("+" * 64, "-" * 64, "+" * 64, "-" * 64)
    assert estimate(once).standard_error == pytest.approx(estimate(often).standard_error)
    assert estimate(once).to_dict() == estimate(often).to_dict()


def test_the_bootstrap_is_seeded_and_agrees_with_the_formula() -> None:
    results = drawn(1, 400, 4)
    one, same, other = (estimate(results, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert one != other
    assert one.high - one.low == pytest.approx(2 * 1.96 * one.standard_error, rel=0.08)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covered = 0
    for seed in range(200):
        score = estimate(drawn(seed, 100, 2))  # the expected share right is 0.5
        covered += score.low <= 0.5 <= score.high
    assert 180 <= covered <= 199


def test_all_right_does_not_mean_certain() -> None:
    score = estimate(verdicts(*"+" * 30))
    assert score.high == pytest.approx(1.0)
    assert score.low == pytest.approx(0.8865, abs=1e-3)
    assert "Wilson" in score.interval
    assert "bootstrap" in estimate(verdicts(*"+-" * 15)).interval


def test_one_problem_has_no_standard_error_and_goes_into_json() -> None:
    score = estimate(verdicts("+-"))
    assert math.isnan(score.standard_error)
    assert json.loads(json.dumps(score.to_dict(), allow_nan=False))["standard_error"] is None


def test_resampling_shares_problems_among_members_and_leaves_missing_ones_out() -> None:
    scores = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0]])
    means = resample(scores, "b", seed=3, draws=700)
    assert means.shape == (700, 3)
    assert np.array_equal(means[:, 0], means[:, 1])
    assert set(means[:, 2][~np.isnan(means[:, 2])]) == {1.0}
    assert np.array_equal(means[:10], resample(scores, "b", seed=3, draws=10))
    assert not np.array_equal(means, resample(scores, "c", seed=3, draws=700), equal_nan=True)


def test_a_comparison_of_single_samples_is_mcnemars() -> None:
    found = compare(verdicts(*"+++++++-+-"), verdicts(*"---+++++--"))
    assert (found.wins, found.losses, found.ties) == (4, 1, 5)
    assert found.difference == pytest.approx(0.3)
    assert (found.test, found.p_value) == ("mcnemar", pytest.approx(2 * 6 / 32))
    assert found.low < 0.3 < found.high


def test_pairing_takes_the_difficulty_out_of_the_error() -> None:
    easy = drawn(5, 200, 1)
    better = {p: [True] if i % 10 == 0 else v for i, (p, v) in enumerate(easy.items())}
    found, alone = compare(better, easy), estimate(easy)
    assert found.standard_error < alone.standard_error / 1.5
    assert found.losses == 0


def test_several_samples_give_a_sign_test_over_problems() -> None:
    found = compare(verdicts("++", "+-", "--"), verdicts("+-", "--", "--"), seed=2)
    assert (found.test, found.wins, found.losses, found.ties) == ("sign", 2, 0, 1)
    assert found.p_value == 0.5
    assert compare(verdicts("++-", "---"), verdicts("+--", "---"), k=2).difference > 0


def test_problems_of_one_side_are_left_out_and_told() -> None:
    found = compare(verdicts("+", "+", "?"), verdicts("-", "?", "+"))
    assert (found.problems, found.alone, found.difference) == (1, 2, 1.0)
    assert found.to_dict()["standard_error"] is None
    with pytest.raises(EvalsError, match="no problem was graded for both"):
        compare(verdicts("+", "?"), verdicts("?", "-"))


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 1, 1.0), (5, 0, 0.0625), (0, 6, 0.03125), (700, 600, 0.006)],
)
def test_the_sign_test_is_exact(wins: int, losses: int, p: float) -> None:
    assert sign_test(wins, losses) == pytest.approx(p, rel=0.02)
