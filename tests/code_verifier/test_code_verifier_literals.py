"""Literals survive the round trip exactly, and nothing else is read as one."""

import ast
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_verifier import (
    Comparison,
    LiteralError,
    canonical,
    canonical_arguments,
    parse_arguments,
    parse_literal,
    tidy_arguments,
)

_floats = st.floats(allow_nan=False, allow_infinity=False)
_atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), _floats, st.text(), st.binary(), st.just(...)
)
_keys = st.one_of(st.none(), st.integers(), _floats, st.text(), st.binary(), st.booleans())
_values = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(_keys, inner, max_size=4),
        st.sets(_keys, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(_values)
def test_any_nested_literal_survives_the_round_trip(value: object) -> None:
    text = canonical(value)
    again = parse_literal(text)
    assert again == value
    assert canonical(again) == text
    assert ast.literal_eval(text) == value


@settings(max_examples=50, deadline=None)
@given(st.lists(_values, max_size=3), st.dictionaries(st.sampled_from("abc"), _values, max_size=2))
def test_arguments_survive_the_round_trip(args: list[object], kwargs: dict[str, object]) -> None:
    text = canonical_arguments(args, kwargs)
    assert parse_arguments(text) == (tuple(args), kwargs)
    assert parse_arguments(tidy_arguments(text)) == (tuple(args), kwargs)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({3, 1, 20}, "{1, 3, 20}"),
        ({"b": 1, "a": {2: 3}}, "{'a': {2: 3}, 'b': 1}"),
        (set(), "set()"),
        ((1,), "(1,)"),
        ((), "()"),
        (-0.0, "-0.0"),
        (1 - 2j, "(1.0-2.0j)"),
        ("\ud800", "'\\ud800'"),
    ],
)
def test_canonical_text(value: object, text: str) -> None:
    assert canonical(value) == text


def test_what_has_no_literal_is_refused() -> None:
    class Text(str):
        def __repr__(self) -> str:
            raise AssertionError("called")

    cycle: list[object] = []
    cycle.append(cycle)
    for value in (math.nan, math.inf, Text("x"), range(3), frozenset({1}), object(), cycle):
        with pytest.raises(LiteralError) as caught:
            canonical(value)
        assert caught.value.status == "not_literal"


@pytest.mark.parametrize(
    "value", [10**5000, "x" * 200, [[0] * 60, [0] * 60], b"x" * 200], ids="ntlb"
)
def test_long_values_are_too_long_not_cut(value: object) -> None:
    with pytest.raises(LiteralError) as caught:
        canonical(value, max_chars=100)
    assert caught.value.status == "too_long"


def test_a_small_structure_with_a_huge_text_is_refused_at_once() -> None:
    value: object = [0]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(LiteralError):
        canonical(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1 + 1", "sum(range(10))", "[i for i in ()]", "f'{1}'", "nan", "1e999", "1\x00"),
        *("not True", "-True", "--1", "(", "[" * 500, "-" * 5000 + "1", "9" * 5000, "{**{}}"),
        *("{[]: 1}", "set([1])", "lambda: 0", "__import__('os')", "*1", "1 if 1 else 2", "\ud800"),
    ],
)
def test_expressions_are_not_literals(text: str) -> None:
    with pytest.raises(LiteralError):
        parse_literal(text)


@pytest.mark.parametrize(
    "text", ["1) or (True", "1)(2", "*[1]", "**{'a': 1}", "x for x in y", "a=1, a=2", "y", "1)#"]
)
def test_injected_arguments_are_refused(text: str) -> None:
    with pytest.raises(LiteralError):
        parse_arguments(text)


def test_odd_escapes_make_no_warning() -> None:
    assert parse_literal(r"'\d'") == r"\d"
    assert parse_arguments(r"'\d', x=1  # why") == ((r"\d",), {"x": 1})


def test_tidy_arguments_keep_the_order_and_drop_comments() -> None:
    assert tidy_arguments("{'b':1,'a':2},\n {8,0} # seven") == "{'b': 1, 'a': 2}, {8, 0}"


def test_comparison_by_type_by_python_and_within_tolerance() -> None:
    assert not Comparison().same(1, True)
    assert not Comparison().same([1], [1.0])
    assert Comparison(types=False).same([1], [1.0])
    assert Comparison().same({1: "a", 2: "b"}, {2: "b", 1: "a"})
    near = Comparison(tolerance=1e-9)
    assert near.same({"a": [0.1 + 0.2]}, {"a": [0.3]})
    assert not near.same([1], [1.0])
    assert not near.same((1.0,), [1.0])
    assert Comparison(types=False, tolerance=1e-9).same(1, 1.0)
