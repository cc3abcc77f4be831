"""Rows as columns: nothing is lost, every column is whole and of one type."""

from evals.frames.columns import columns


def test_nested_values_become_columns_of_their_own():
    rows = [{"a": 1, "b": {"x": 1, "y": {"z": (1, 2)}}}, {"a": 2.5, "b": None, "c": "text"}]
    assert columns(rows) == {
        "a": [1.0, 2.5],
        "b/x": [1, None],
        "b/y/z": [[1, 2], None],
        "c": [None, "text"],
    }


def test_named_columns_exist_without_a_row():
    assert columns([], ("a", "b")) == {"a": [], "b": []}
    assert list(columns([{"b": 1, "c": 2}], ("a", "b"))) == ["a", "b", "c"]


def test_truths_are_no_numbers():
    (column,) = columns([{"a": True}, {"a": None}, {"a": False}]).values()
    assert column == [True, None, False]
    assert all(value is None or isinstance(value, bool) for value in column)
