"""Members together: columns, averages over benchmarks, and populations."""

import numpy as np
import pytest

from evals.errors import EvalsError
from evals.metrics.aggregate import CODE, MATH, aggregates, average, missing
from evals.metrics.counts import Verdicts
from evals.metrics.estimate import estimate
from evals.metrics.population import gain, population
from evals.metrics.scoreboard import Column, score_members


def member(seed: int, rate: float, problems: int = 60) -> Verdicts:
    """Results that are alike for all members on the hard and the easy problems."""
    generator = np.random.default_rng(seed)
    hardness = np.random.default_rng(99).random(problems)
    right = hardness < np.clip(rate + generator.normal(0, 0.1, problems), 0, 1)
    return {f"p{i}": [bool(value)] for i, value in enumerate(right)}


def column(name: str = "gsm8k", **rates: float) -> Column:
    named = {key: member(i, rate) for i, (key, rate) in enumerate(rates.items())}
    return score_members(named, name)


def test_a_column_scores_each_member_as_alone() -> None:
    results = {"a": member(1, 0.3), "b": {**member(2, 0.6), "more": [True], "gone": [None]}}
    found = score_members(results, "gsm8k")
    for name, own in results.items():
        alone, here = estimate(own), found.estimate(name)
        assert here is not None
        assert here.value == pytest.approx(alone.value)
        assert here.standard_error == pytest.approx(alone.standard_error)
        assert (here.problems, here.unjudged) == (alone.problems, alone.unjudged)
    assert found.uneven
    assert found.estimate("nobody") is None
    assert not column(a=0.2, b=0.3).uneven


def test_members_without_verdicts_are_left_out_and_nobody_is_an_error() -> None:
    found = score_members({"a": {"p": [True]}, "b": {"p": [None]}}, "aime24")
    assert found.members == ("a",)
    with pytest.raises(EvalsError, match="aime24: no member has a graded sample"):
        score_members({"b": {"p": [None]}}, "aime24")
    with pytest.raises(EvalsError, match=r"a on aime24: pass@2 needs 2 graded samples"):
        score_members({"a": {"p": [True]}}, "aime24", k=2)


def test_a_population_has_a_mean_a_weakest_and_a_best() -> None:
    board = column(base=0.2, s0=0.4, s1=0.6, s2=0.5)
    found = population(board, ["s0", "s1", "s2", "lost"])
    assert found is not None
    assert (found.weakest_member, found.best_member, found.size) == ("s0", "s1", 3)
    assert found.mean.value == pytest.approx(np.mean(board.values[1:]))
    assert found.weakest.value <= found.mean.value <= found.best.value
    for part in (found.mean, found.weakest, found.best):
        assert part.low <= part.value <= part.high
        assert "over problems" in part.interval
    assert population(board, ["lost"]) is None


def test_intervals_of_extremes_contain_them_even_among_many_equals() -> None:
    board = score_members({f"s{i}": member(i, 0.5, 30) for i in range(24)}, "aime24")
    found = population(board, board.members)
    assert found is not None
    assert found.weakest.low <= found.weakest.value <= found.weakest.high
    assert found.best.low <= found.best.value <= found.best.high


def test_gain_is_paired_with_the_baseline() -> None:
    board = column(base=0.45, s0=0.5, s1=0.55)
    found = gain(board, ["s0", "s1"], "base")
    assert found is not None
    alone = population(board, ["s0", "s1"])
    assert alone is not None
    assert found.mean.value == pytest.approx(alone.mean.value - board.values[0])
    assert found.mean.standard_error < alone.mean.standard_error
    assert gain(board, ["s0"], "lost") is None
    none = gain(board, ["base"], "base")
    assert none is not None
    assert (none.mean.value, none.mean.low, none.mean.high) == (0.0, 0.0, 0.0)


def test_the_total_is_the_mean_of_the_code_and_the_math_average() -> None:
    rates = dict.fromkeys(CODE, 0.6) | dict.fromkeys(MATH, 0.2)
    columns = {name: column(name, a=rate, b=rate) for name, rate in rates.items()}
    found = aggregates(columns)
    code, math, total = found["code"], found["math"], found["total"]
    assert code is not None
    assert math is not None
    assert total is not None
    assert code.values[0] == pytest.approx(np.mean([columns[n].values[0] for n in CODE]))
    assert math.values[0] == pytest.approx(np.mean([columns[n].values[0] for n in MATH]))
    assert total.values[0] == pytest.approx((code.values[0] + math.values[0]) / 2)
    assert total.errors[0] == pytest.approx(np.hypot(code.errors[0], math.errors[0]) / 2)
    assert total.replicates[:, 0].std() == pytest.approx(total.errors[0], rel=0.1)
    assert missing(columns) == {"code": (), "math": ()}


def test_averages_need_members_that_are_everywhere() -> None:
    one, two = column("aime24", a=0.5, b=0.5), column("aime25", b=0.5, c=0.5)
    found = average([one, two])
    assert found is not None
    assert found.members == ("b",)
    assert average([one, column("amc23", z=0.1)]) is None
    assert average([]) is None
    part = aggregates({"aime24": one})
    assert part["code"] is None
    assert part["total"] is None
    assert missing({"aime24": one})["code"] == CODE
    few = score_members({"a": member(0, 0.5)}, "aime25", draws=10)
    with pytest.raises(EvalsError, match="bootstrap draws"):
        average([one, few])


def test_an_average_of_nothing_solved_is_worth_its_smallest_benchmark() -> None:
    nothing = {f"p{i}": [False] for i in range(30)}
    small = score_members({"a": nothing}, "aime24")
    large = score_members({"a": {f"q{i}": [False] for i in range(1319)}}, "gsm8k")
    found = average([small, large])
    assert found is not None
    score = found.estimate("a")
    assert score is not None
    assert score.problems == 1349
    assert found.trials == (117,)  # 4 / (1/30 + 1/1319)
    assert score.high == pytest.approx(0.0318, abs=1e-3)
