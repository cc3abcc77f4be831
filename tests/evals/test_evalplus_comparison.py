"""evalplus' rules, on values as data."""

import collections
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from evalplus_problems import DOUBLE, ROOT, SEEK, SHARED, problem, row

from code_verifier import Value
from evals.code.evalplus_problems import first_wrong


def value(found, draw=False):
    return found if isinstance(found, Value) else Value.of(found, draw)


def right(expected, found, source=DOUBLE, **changes):
    task = problem(source | changes)
    inputs = task.base_input[:1] or ((0,),)
    pair = [value(expected)], [value(found, draw=source is SHARED)]
    return first_wrong(task, inputs, *pair) is None


NAN = float("nan")


def test_long_values_are_compared_piece_by_piece():
    numbers = [number % 7 for number in range(700_000)]
    floats = [float(number) for number in numbers]
    integral, real = value(numbers), value(floats)
    assert integral.text is None
    assert integral.chars > 3 << 20
    assert right(integral, real)
    assert right([numbers], [floats])
    assert not right(integral, tuple(numbers))
    assert not right(integral, [*numbers[:-1], 8])
    assert not right(real, [*floats[:-1], NAN])
    assert value([*numbers, object()]).chars == -1


class Liar(list):
    """A list that says to equal everything."""

    def __eq__(self, other):
        return True


HALF, BIG, INF = Fraction(1, 2), 10**30 + 1, float("inf")
Pair = collections.namedtuple("Pair", "x y")
DEEP = []
DEEP.append(DEEP)
RIGHT = [
    (2, 2.0), (2.0, 2), (1, True), ([1, 2.0], [True, 2]), ({1, 2}, frozenset({2, 1.0})),
    ({"a": 1, "b": [2]}, {"b": [2.0], "a": True}), (1.0, 1.0 + 1e-9), ([0.1], [0.1 + 1e-8]),
    ((0.5, 0.25), (0.5, 0.2500001)), (b"x", bytearray(b"x")), (1 + 0j, 1), (INF, INF), ([], []),
    (-0.0, 0), (None, None), (10**5000, 10**5000), ("\ud800", "\ud800"),
    # A subclass counts as its data; numpy by rule; numbers and views of the standard library.
    ({"a": 2}, collections.Counter("aa")), ((1, 2), Pair(1, 2)), ([1], Liar([1])),
    (2, np.int64(2)), (2.5, np.float64(2.5)), (True, np.bool_(True)),
    ([1, 2], [np.int64(1), np.float32(2)]), ([1, 2], np.array([1, 2])),
    ([[1], 2], [np.array([1]), 2]), (INF, np.float32("inf")), ("a", np.array("a", dtype=object)),
    (10**30, np.array(10**30)), (0.5, HALF), (0.5, Decimal("0.5")), ((HALF,), (0.5,)),
    ([0.5, 1], [HALF, Decimal(1)]), (BIG, Decimal(BIG)), (INF, Decimal("inf")),
    ({1, 2}, {1: 0, 2: 0}.keys()), ({(1, 2)}, {1: 2}.items()),
]  # fmt: skip
WRONG = [
    ([1], (1,)), (1.0, 1.1), (1.5, "1.5"), ([0.1], (0.1,)), ([0.1], [0.1, 0.2]), (NAN, NAN),
    ([1.5, NAN], [1.5, NAN]), ("a", "b"), (1, None), ([1, 2.5], [1, 2.5 + 1e-9]), ({}, set()),
    (5, 5.0000001), (2.5, object()), ([], ()), (0, ""), ("1", 1),
    ({1: 2}, {1: 3}), (1.5, [1.5]), ([1.5], [[]]), ([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
    (1.5, type("float", (list,), {})()), ([1.5], type("list", (list,), {})([[]])),
    (10**5000, 10**5000 + 1), ([], DEEP), ([1], Liar([2])), ([1], collections.deque([1])),
    (3, np.array([3])), ((1, 2), np.array([1, 2])), ([], np.array([1])), ([5], np.array([3])),
    (0.1, np.float32(0.1)),  # other numbers, without rounding
    (1e300, np.float32("inf")), (1, np.datetime64("2020-01-01")),
    (2.5, np.float64(2.5 + 1e-9)),  # close, but of another type
    (0.25, HALF), (1 / 3, Fraction(1, 3)), (0.1, Decimal("0.1")), (1, Decimal("nan")),
    (1, Decimal("sNaN")), (1, Decimal("1e999999")), ([1], {1: 0}.keys()), ({1}, {1: 0}.values()),
    ({1}, {1: []}.items()),
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "equal"), [(RIGHT, True), (WRONG, False)])
def test_what_is_equal_enough(pairs, equal):
    for expected, found in pairs:
        assert right(expected, found) == equal, (expected, found)


def test_the_tolerance_stays_on_after_the_first_float():
    task = problem(DOUBLE | {"base_input": [[1], [2]]})
    inputs = task.base_input
    late = [value(1.5), value([1, 0.25])], [value(1.5), value([1, 0.25 + 1e-9])]
    early = [value([1, 0.25]), value(1.5)], [value([1, 0.25 + 1e-9]), value(1.5)]
    assert first_wrong(task, inputs, *late) is None
    assert first_wrong(task, inputs, *early) == 0


PYRAMID = row("Mbpp/581", "surface_Area", "(a, b):\n    return 33\n", base_input=[[3, 4]])
DIGITS = row("Mbpp/558", "digit_distance_nums", "(a, b):\n    return 1\n", base_input=[[1, 23]])
DIVISORS = row("Mbpp/295", "sum_div", "(a):\n    return 1\n", base_input=[[8]])
ANYTHING = row("Mbpp/164", "are_equivalent", "(a):\n    return 1\n")
MATCH = re.search("a", "a")


@pytest.mark.parametrize(
    ("task", "expected", "good", "bad"),
    [
        (SHARED, (2, 3), [[3, 2, 2], iter([3, 2]), {2: 0, 3: 0}], [[2], [[2], 3], 2]),
        # Present or not; False of numpy is no bool, and so not None.
        (SEEK, MATCH, [MATCH, True, 0], [None, False]), (SEEK, True, [np.False_], [None]),
        (SEEK, None, [None, False], [MATCH, True, 0]),
        (ROOT, -0.5, [-0.50000001], [0.5, "x"]), (PYRAMID, 33, [35], [34]),
        (DIGITS, 0, [4], []), (DIVISORS, 7, [0], [1]), (ANYTHING, 1, ["anything"], []),
    ],
)  # fmt: skip
def test_what_some_tasks_accept_as_well(task, expected, good, bad):
    assert [found for found in good if not right(expected, found, task)] == []
    assert [found for found in bad if right(expected, found, task)] == []


def test_a_forged_text_of_any_length_is_not_read():
    task = problem(DOUBLE)
    forged = Value("float", "", "[" * 3_000_000, 1, True, 0.0)
    pair = [value(0.5)], [forged]
    assert first_wrong(task, task.base_input[:1], *pair) == 0
