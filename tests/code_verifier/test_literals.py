"""Literals survive the round trip exactly, and nothing else is read as one."""

import ast
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from code_verifier import Comparison, LiteralError, canonical, parse_arguments, parse_literal
from code_verifier.literals import read_arguments

_floats = st.floats(allow_nan=False, allow_infinity=False)
_complexes = st.builds(complex, _floats, _floats)
_integers = st.one_of(
    st.integers(),
    st.builds(
        lambda sign, bits, low: sign * (2**bits + low),
        *[st.integers(-1, 1)],
        *[st.integers(0, 14_279), st.integers(0, 9)],
    ),
)
_texts = st.text(st.characters())  # every plane, surrogates and nulls too
_atoms = st.one_of(
    *(st.none(), st.booleans(), _integers, _floats, _complexes, _texts, st.binary()),
    *(st.just(...), st.sampled_from([0.0, -0.0, 1e308, 5e-324, 2**53 + 1, "\ud800\x00\U0010ffff"])),
)
_keys = st.recursive(_atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=3)
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


def _exact(value):
    """A stand-in that is equal exactly when types, values and signs of zeros are."""
    kind = type(value)
    if isinstance(value, list | tuple):
        return kind, [_exact(item) for item in value]
    if isinstance(value, set):
        return kind, frozenset(repr(_exact(item)) for item in value)
    if isinstance(value, dict):
        return kind, {repr(_exact(key)): _exact(item) for key, item in value.items()}
    return kind, repr(value)


@settings(max_examples=100)
@given(_values)
def test_any_nested_literal_survives_the_round_trip(value):
    text = canonical(value)
    again = parse_literal(text)
    assert _exact(again) == _exact(value)
    assert canonical(again) == text
    assert ast.literal_eval(text) == value
    assert _exact(parse_literal(repr(value))) == _exact(value)
    assert Comparison().same(again, value)


@settings(max_examples=150)
@given(
    st.one_of(_values, st.integers(-2, 2)), st.one_of(_values, st.sampled_from([1.0, True, 0.0]))
)
def test_equal_texts_are_equal_values(left, right):
    alike = canonical(left) == canonical(right)
    assert alike == (_exact(left) == _exact(right))
    assert Comparison().same(left, right) is alike
    for comparison in (Comparison(types=False), Comparison(tolerance=0.1), Comparison(False, 0.1)):
        assert comparison.same(left, right) is comparison.same(right, left)
        assert comparison.same(left, left)
        assert comparison.same(left, right) or not alike


@settings(max_examples=50)
@given(st.lists(st.tuples(_keys, _values), max_size=6), st.randoms())
def test_the_text_does_not_depend_on_the_order_of_insertion(pairs, shuffler):
    unique = list(dict(pairs).items())
    again = shuffler.sample(unique, len(unique))
    assert canonical(dict(unique)) == canonical(dict(again))
    assert canonical({key for key, _ in unique}) == canonical({key for key, _ in again})


@settings(max_examples=30)
@given(st.lists(_values, max_size=5))
def test_literals_pass_through_the_sandbox_unchanged(sandbox, values):
    text = canonical(values)
    assume(len(text) < 4_000)  # well within the limit of outputs, quoted too
    assume(canonical(ast.literal_eval(text)) == text)  # Python has no text for complex(0.0, -0.0)
    verdict = sandbox.run("def f(x):\n    return x", text)
    assert (verdict.status, verdict.output) == ("ok", text)
    # The other way: the program reads the text of its input itself.
    program = "import ast\ndef f(x):\n    return ast.literal_eval(x)"
    verdict = sandbox.run(program, canonical(text))
    assert verdict.output is not None, verdict
    assert Comparison(types=False).same(parse_literal(verdict.output), values)


def canonical_arguments(args, named):
    return ", ".join([*map(canonical, args), *(f"{k}={canonical(x)}" for k, x in named.items())])


@settings(max_examples=50)
@given(st.lists(_values, max_size=3), st.dictionaries(st.sampled_from("abc"), _values, max_size=2))
def test_arguments_survive_the_round_trip(args, kwargs):
    text = canonical_arguments(args, kwargs)
    assert parse_arguments(text) == (tuple(args), kwargs)
    assert parse_arguments(read_arguments(text, 10**5)[2]) == (tuple(args), kwargs)


@settings(max_examples=300)
@given(st.text("0123456789[]-, (){}'\"\\\n#:jeTrue.x*=", max_size=30))
def test_any_text_is_a_literal_or_an_error(text):
    for read in (parse_literal, parse_arguments):
        try:
            value = read(text)
        except LiteralError:
            continue
        if read is parse_literal:
            assert ast.literal_eval(text.strip()) == value
            assert parse_literal(canonical(value)) == value
        else:
            assert parse_arguments(canonical_arguments(*value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({3, 1, 20}, "{1, 3, 20}"),
        ({"b": 1, "a": {2: 3}}, "{'a': {2: 3}, 'b': 1}"),
        (set(), "set()"),
        ((1,), "(1,)"),
        (-0.0, "-0.0"),
        ("\ud800", "'\\ud800'"),
        ([True, 1, 1.0, 0.0], "[True, 1, 1.0, 0.0]"),
        ({(1, 2), None, ..., b"a", "a", 0.5}, "{0.5, 'a', (1, 2), ..., None, b'a'}"),
    ],
)
def test_canonical_text(value, text):
    assert canonical(value) == text


def test_what_has_no_literal_or_too_long_a_one_is_refused_at_once():
    class Text(str):
        def __repr__(self):
            raise AssertionError("called")

    cycle = []
    cycle.append(cycle)
    tower = [0]  # small, and with a huge text
    for _ in range(60):
        tower = [tower, tower]
    none = (math.nan, math.inf, Text("x"), range(3), frozenset({1}), object(), cycle)
    long = (10**5000, "x" * 200, [[0] * 60, [0] * 60], b"x" * 200, tower)
    for status, values, chars in (("not_literal", none, 10**5), ("too_long", long, 100)):
        for value in values:
            with pytest.raises(LiteralError) as caught:
                canonical(value, max_chars=chars)
            assert caught.value.status == status


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1 + 1", "sum(range(10))", "[i for i in ()]", "f'{1}'", "nan", "1e999", "1\x00"),
        *("not True", "-True", "--1", "(", "[" * 500, "-" * 5000 + "1", "9" * 5000, "{**{}}"),
        *("{[]: 1}", "set([1])", "lambda: 0", "__import__('os')", "*1", "1 if 1 else 2", "\ud800"),
        *("1], [2", "[1] [2]", "[1 2]", "01", "[-]", "1\n2", "[" * 65 + "]" * 65),
    ],
)
def test_expressions_are_not_literals(text):
    with pytest.raises(LiteralError):
        parse_literal(text)


def test_injected_arguments_are_refused():
    for text in ("1) or (True", "1)(2", "*[1]", "**{'a': 1}", "x for x in y", "a=1, a=2", "1)#"):
        with pytest.raises(LiteralError):
            parse_arguments(text)


def test_tidy_arguments_keep_the_order_and_drop_comments():
    assert read_arguments("{'b':1,'a':2},\n {8,0} # seven", 100)[2] == "{'b': 1, 'a': 2}, {8, 0}"


def test_no_method_of_a_class_or_metaclass_is_called():
    class Liar(type):
        __name__ = property(lambda cls: 1 / 0)

        def __eq__(cls, other):
            raise AssertionError("called")

        def __hash__(cls):
            raise AssertionError("called")

    class Number(metaclass=Liar):
        def __repr__(self):
            return "42"

    with pytest.raises(LiteralError, match="'Number' is not a literal"):
        canonical([Number()])


EXACT, NEAR = Comparison(), Comparison(tolerance=1e-6)
PYTHON, LOOSE = Comparison(types=False), Comparison(types=False, tolerance=1e-6)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, True, [PYTHON, LOOSE]),
        ([1], [1.0], [PYTHON, LOOSE]),
        ((1.0,), [1.0], []),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}, [EXACT, NEAR, PYTHON, LOOSE]),
        ({"a": [0.1 + 0.2]}, {"a": [0.3]}, [NEAR, LOOSE]),
        ({1: "a"}, {True: "a"}, [PYTHON, LOOSE]),
        ({1: 0.5}, {1.0: 0.5 + 1e-9}, [LOOSE]),
        ({0.1 + 0.2, "a"}, {"a", 0.3}, [NEAR, LOOSE]),
        (0.0, -0.0, [NEAR, PYTHON, LOOSE]),
        ({0.0}, {-0.0}, [NEAR, PYTHON, LOOSE]),
        (1 + 1e-9j, 1 + 0j, [NEAR, LOOSE]),
        (1, 2, []),
        ("1", 1, []),
        (10**400, 1e308, []),
    ],
)
def test_comparison_by_type_by_python_and_within_tolerance(left, right, same):
    found = [how for how in (EXACT, NEAR, PYTHON, LOOSE) if how.same(left, right)]
    assert found == same


def test_a_tolerance_is_for_floats_alone():
    assert not Comparison(tolerance=2.0).same(1, 2)
    assert not Comparison(tolerance=2.0).same(True, False)
