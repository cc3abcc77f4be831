"""Coverage of one set and the contrast of two, against formulas worked out by hand."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_verifier import CodeVerifierError, ProgramError, measure
from code_verifier.metrics.contrast import compare_sets, shift_of
from code_verifier.metrics.diversity import (
    coverage,
    coverage_of,
    entropy_bits,
    rarefied,
    traits,
)
from code_verifier.metrics.measurement import NUMBERS
from code_verifier.metrics.summary import quantile, summarise, windows

PROGRAMS = [
    "def f(x): return x + 1",
    "def f(y): return y + 2",
    "import math\ndef f(x): return math.sin(x)",
    "def f(a): return a + 7",
]


def test_coverage_of_structures() -> None:
    found = coverage(PROGRAMS)
    assert (found.programs, found.distinct, found.share) == (4, 2, 0.5)
    assert found.entropy_bits == pytest.approx(0.75 * math.log2(4 / 3) + 0.25 * 2)
    assert found.effective == pytest.approx(2**found.entropy_bits)
    assert found.new_chance == 0.25
    assert found.growth == ((1, 1), (2, 1), (3, 2), (4, 2))
    (most,) = found.repeated
    assert (most.count, most.example, most.key) == (3, PROGRAMS[0], measure(PROGRAMS[3]).structure)


def test_coverage_by_coarser_traits() -> None:
    assert coverage(PROGRAMS, by="imports").distinct == 2
    assert traits("import os, a.b\nfrom . import c").imports == ". a.b os"
    assert traits("x = 1 < 2").node_types == "Assign Compare Constant Module Name"
    assert coverage(["x = 1", "y = 2; z = 3"], by="node_types").distinct == 1
    assert coverage(["x = 1", "y = 2; z = 3"]).distinct == 2


def test_coverage_says_what_is_wrong() -> None:
    with pytest.raises(CodeVerifierError, match="structure, node_types, imports"):
        coverage(PROGRAMS, by="colour")
    with pytest.raises(ProgramError):
        coverage(["def f("])
    nothing = coverage([])
    assert (nothing.programs, nothing.distinct, nothing.effective) == (0, 0, 0.0)
    assert (nothing.growth, nothing.repeated) == ((), ())


def test_long_growth_is_thinned_and_ends_at_the_end() -> None:
    keys = [str(number % 1500) for number in range(2001)]
    found = coverage_of(keys, top=3)
    assert len(found.growth) <= 203
    assert found.growth[0] == (1, 1)
    assert found.growth[-1] == (2001, 1500)
    assert [item.count for item in found.repeated] == [2, 2, 2]
    assert coverage_of(keys, top=0).repeated == ()


@given(st.lists(st.integers(1, 50), min_size=1))
def test_entropy_lies_between_none_and_even(counts: list[int]) -> None:
    assert -1e-9 <= entropy_bits(counts) <= math.log2(len(counts)) + 1e-9
    assert entropy_bits([7] * len(counts)) == pytest.approx(math.log2(len(counts)))


def test_rarefaction_is_the_mean_over_all_draws() -> None:
    keys = "aaabbcd"
    for size in range(len(keys) + 1):
        draws = [len(set(draw)) for draw in combinations(keys, size)]
        assert rarefied([3, 2, 1, 1], size) == pytest.approx(sum(draws) / len(draws))
    with pytest.raises(CodeVerifierError):
        rarefied([1], 2)


@given(*[st.lists(st.integers(0, 9), min_size=1, max_size=12)] * 2)
def test_shifts_by_brute_force(left: list[int], right: list[int]) -> None:
    found = shift_of([float(x) for x in left], [float(x) for x in right])
    pairs = [(a, b) for a in left for b in right]
    wins = sum((b > a) + 0.5 * (a == b) for a, b in pairs)
    assert found.superiority == pytest.approx(wins / len(pairs))
    assert found.cliffs_delta == pytest.approx(
        sum((b > a) - (b < a) for a, b in pairs) / len(pairs)
    )
    steps = [
        abs(sum(a <= x for a in left) / len(left) - sum(b <= x for b in right) / len(right))
        for x in range(10)
    ]
    assert found.ks == pytest.approx(max(steps))
    assert found.quantile_shift["p50"] == pytest.approx(found.right_median - found.left_median)


def test_contrast_of_two_sets() -> None:
    left = [measure(program) for program in PROGRAMS]
    right = [
        measure(program) for program in (PROGRAMS[0], "def f(x):\n    if x:\n        return 1")
    ]
    found = compare_sets(left, right)
    assert list(found.numbers) == list(NUMBERS)
    assert (found.left_programs, found.right_programs) == (4, 2)
    assert found.numbers["cyclomatic"].right_mean == 1.5
    assert found.numbers["cyclomatic"].superiority == 0.75
    assert found.shared == (left[0].structure,)
    assert found.left_only == (left[2].structure,)
    assert found.right_only == (right[1].structure,)
    assert found.jaccard == pytest.approx(1 / 3)
    assert (found.left_in_right, found.right_in_left) == (0.75, 0.5)
    assert (found.left_at_equal_size, found.right_at_equal_size) == (pytest.approx(1.5), 2.0)
    same = compare_sets(left, left)
    assert (same.jaccard, same.numbers["loc"].ks, same.numbers["loc"].cliffs_delta) == (1, 0, 0)
    with pytest.raises(CodeVerifierError, match="right set"):
        compare_sets(left, [])


def test_quantiles_are_those_of_the_statistics_module() -> None:
    import statistics

    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    inner = statistics.quantiles(values, n=20, method="inclusive")
    assert [quantile(values, i / 20) for i in range(1, 20)] == pytest.approx(inner)
    assert (quantile(values, 0), quantile(values, 1)) == (1.0, 32.0)
    table = summarise([measure(program) for program in PROGRAMS])
    assert table["imports"] == {
        "mean": 0.25,
        "p0": 0,
        "p5": 0,
        "p25": 0,
        "p50": 0,
        "p75": 0.25,
        "p95": pytest.approx(0.85),
        "p100": 1,
    }
    assert summarise([]) == {}


def test_windows_gather_neighbouring_steps() -> None:
    metrics = [measure(PROGRAMS[index % 4]) for index in range(12)]
    steps = [float(index // 2) for index in range(12)]
    found = windows(metrics, steps, most=3)
    assert [(w.first_step, w.last_step, w.programs) for w in found] == [
        (0.0, 1.0, 4),
        (2.0, 3.0, 4),
        (4.0, 5.0, 4),
    ]
    assert all(window.distinct == 2 for window in found)
    assert found[0].bands["imports"][1:] == (0.0, pytest.approx(0.85))
    assert len(windows(metrics, steps)) == 6
    assert windows([], []) == ()
