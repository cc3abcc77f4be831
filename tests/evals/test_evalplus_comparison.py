"""evalplus' rules, on values as data."""

from typing import Any

import pytest
from evalplus_problems import DOUBLE, ROOT, SEEK, SHARED, problem, row

from code_verifier import Value
from evals.code.cases import first_wrong


def value(found: Any, draw: bool = False) -> Value:
    return found if isinstance(found, Value) else Value.of(found, draw)


def right(expected: Any, found: Any, source: dict[str, Any] = DOUBLE, **changes: Any) -> bool:
    task = problem(source | changes)
    inputs = task.base_input[:1] or ((0,),)
    pair = [value(expected)], [value(found, draw=source is SHARED)]
    return first_wrong(task, inputs, *pair) is None


NAN = float("nan")


def test_long_values_are_compared_piece_by_piece() -> None:
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


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (2, 2.0), (2.0, 2), (1, True), ([1, 2.0], [True, 2]), ({1, 2}, frozenset({2, 1.0})),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": True}), (1.0, 1.0 + 1e-9), ([0.1], [0.1 + 1e-8]),
        ((0.5, 0.25), (0.5, 0.2500001)), (b"x", bytearray(b"x")), (1 + 0j, 1),
        (float("inf"), float("inf")), ([], []), (-0.0, 0), (None, None),
    ],
)  # fmt: skip
def test_equal_enough(expected: Any, found: Any) -> None:
    assert right(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([1], (1,)), (1.0, 1.1), (1.5, "1.5"), ([0.1], (0.1,)), ([0.1], [0.1, 0.2]), (NAN, NAN),
        ([1.5, NAN], [1.5, NAN]), ("a", "b"), (1, None), ([1, 2.5], [1, 2.5 + 1e-9]), ({}, set()),
        (5, 5.0000001), (2.5, object()), ([], ()), (0, ""), ("1", 1),
        ({1: 2}, {1: 3}), (1.5, [1.5]), ([1.5], [[]]), ([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
        (1.5, type("float", (list,), {})()), ([1.5], type("list", (list,), {})([[]])),
    ],
)  # fmt: skip
def test_not_equal_enough(expected: Any, found: Any) -> None:
    assert not right(expected, found)


def test_values_that_are_hard_to_write() -> None:
    assert right(10**5000, 10**5000)
    assert not right(10**5000, 10**5000 + 1)
    assert right("\ud800", "\ud800")
    deep: list[Any] = []
    deep.append(deep)
    assert not right([], deep)


def test_a_subclass_counts_as_its_data() -> None:
    import collections

    assert right({"a": 2}, collections.Counter("aa"))
    assert right((1, 2), collections.namedtuple("P", "x y")(1, 2))
    assert right([1], type("L", (list,), {"__eq__": lambda self, other: False})([1]))
    assert not right([1], type("L", (list,), {"__eq__": lambda self, other: True})([2]))
    assert not right([1], collections.deque([1]))


def test_numpy_by_rule() -> None:
    import numpy as np

    assert right(2, np.int64(2))
    assert right(2.5, np.float64(2.5))
    assert right(True, np.bool_(True))
    assert right([1, 2], [np.int64(1), np.float32(2)])
    assert right([1, 2], np.array([1, 2]))
    assert right([[1], 2], [np.array([1]), 2])
    assert right(float("inf"), np.float32("inf"))
    assert right("a", np.array("a", dtype=object))
    assert right(10**30, np.array(10**30))
    assert not any(right(*pair) for pair in ((3, np.array([3])), ((1, 2), np.array([1, 2]))))
    assert not right(0.1, np.float32(0.1))  # other numbers, without rounding
    assert not right(1e300, np.float32("inf"))
    assert not any(right(*pair) for pair in (([], np.array([1])), ([5], np.array([3]))))
    assert right(True, np.False_, SEEK)  # no bool, and so not None
    assert not right(2.5, np.float64(2.5 + 1e-9))  # close, but of another type
    assert not right(1, np.datetime64("2020-01-01"))


def test_numbers_and_views_of_the_standard_library() -> None:
    from decimal import Decimal
    from fractions import Fraction

    half, big = Fraction(1, 2), 10**30 + 1
    same = [
        (0.5, half), (0.5, Decimal("0.5")), ([0.5, 1], [half, Decimal(1)]), ((half,), (0.5,)),
        (big, Decimal(big)), (float("inf"), Decimal("inf")), ({1, 2}, {1: 0, 2: 0}.keys()),
        ({(1, 2)}, {1: 2}.items()),
    ]  # fmt: skip
    other = [
        (0.25, half), (1 / 3, Fraction(1, 3)), (0.1, Decimal("0.1")), (1, Decimal("nan")),
        (1, Decimal("sNaN")), (1, Decimal("1e999999")), ([1], {1: 0}.keys()),
        ({1}, {1: 0}.values()), ({1}, {1: []}.items()),
    ]  # fmt: skip
    assert [pair for pair in same if not right(*pair)] == []
    assert [pair for pair in other if right(*pair)] == []


def test_the_tolerance_stays_on_after_the_first_float() -> None:
    task = problem(DOUBLE | {"base_input": [[1], [2]]})
    inputs = task.base_input
    late = [value(1.5), value([1, 0.25])], [value(1.5), value([1, 0.25 + 1e-9])]
    early = [value([1, 0.25]), value(1.5)], [value([1, 0.25 + 1e-9]), value(1.5)]
    assert first_wrong(task, inputs, *late) is None
    assert first_wrong(task, inputs, *early) == 0


def test_sets_where_the_task_says_so() -> None:
    assert right((2, 3), [3, 2, 2], SHARED)
    assert right((2, 3), iter([3, 2]), SHARED)
    assert right((2, 3), {2: 0, 3: 0}, SHARED)
    assert not right((2, 3), [2], SHARED)
    assert not right((2, 3), [[2], 3], SHARED)
    assert not right((2, 3), 2, SHARED)


def test_presence_where_the_output_is_no_data() -> None:
    import re

    match = re.search("a", "a")
    for found, wanted in ((match, True), (True, True), (None, False), (False, False), (0, True)):
        assert right(match if wanted else None, found, SEEK)
        assert not right(None if wanted else match, found, SEEK)


def test_any_root_will_do() -> None:
    assert right(-0.5, -0.50000001, ROOT)
    assert not right(-0.5, 0.5, ROOT)
    assert not right(-0.5, "x", ROOT)


def test_what_some_tasks_accept_as_well() -> None:
    pyramid = row("Mbpp/581", "surface_Area", "(a, b):\n    return 33\n", base_input=[[3, 4]])
    assert right(33, 35, pyramid)
    assert not right(33, 34, pyramid)
    digits = row("Mbpp/558", "digit_distance_nums", "(a, b):\n    return 1\n", base_input=[[1, 23]])
    assert right(0, 4, digits)
    divisors = row("Mbpp/295", "sum_div", "(a):\n    return 1\n", base_input=[[8]])
    assert right(7, 0, divisors)
    assert not right(7, 1, divisors)
    assert right(1, "anything", row("Mbpp/164", "are_equivalent", "(a):\n    return 1\n"))


def test_a_forged_text_of_any_length_is_not_read() -> None:
    task = problem(DOUBLE)
    forged = Value("float", "", "[" * 3_000_000, 1, True, 0.0)
    pair = [value(0.5)], [forged]
    assert first_wrong(task, task.base_input[:1], *pair) == 0
