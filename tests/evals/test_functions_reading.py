"""Reading HumanEval+ and MBPP+, and samples for them."""

import gzip
import json
from pathlib import Path

import pytest
from function_tasks import DOUBLE, HALF, SHARED, problem, row

from evals import EvalsError
from evals.functions.mbpp_inputs import python_arguments
from evals.functions.reading import read_functions


def test_plain_and_gzipped_files_read_alike(tmp_path: Path) -> None:
    text = "".join(json.dumps(item) + "\n" for item in (DOUBLE, HALF))
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    plain = read_functions(tmp_path / "a.jsonl", "humaneval_plus")
    assert plain == read_functions(tmp_path / "b.jsonl.gz", "humaneval_plus")
    assert [item.entry_point for item in plain] == ["double", "half"]
    assert plain[0].plus_input == (("a",), (None,), ([1.5],))


def test_arguments_of_mbpp_get_their_python_types() -> None:
    assert problem(SHARED).base_input == (((1, 2, 3), (2, 3, 4)),)
    assert python_arguments("Mbpp/75", [[[1, 2], [3]], 4]) == ([(1, 2), (3,)], 4)
    assert python_arguments("Mbpp/106", [[1], [2]]) == ([1], (2,))
    assert python_arguments("Mbpp/115", [[[1, 1], []]]) == ([{1}, {}],)
    assert python_arguments("Mbpp/124", ["1", "2+1j"]) == (1.0, 2 + 1j)
    assert python_arguments("Mbpp/278", [[1, [2, 3]]]) == ((1, (2, 3)),)
    assert python_arguments("Mbpp/580", [[1, [2, [3]]]]) == ((1, (2, (3,))),)
    assert python_arguments("Mbpp/722", [{"a": [1, 2]}, 3]) == ({"a": (1, 2)}, 3)
    assert python_arguments("Mbpp/9", [[1, [2]]]) == ([1, [2]],)


def test_an_empty_object_is_no_inputs() -> None:
    assert problem(row("Mbpp/793", "last", "(a):\n    return a\n", plus_input={})).plus_input == ()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no problems"),
        ([DOUBLE, DOUBLE], "repeats the task 'HumanEval/1001'"),
        ([{"task_id": "x", "prompt": "", "test": ""}], "OriginFmt"),
        ([DOUBLE | {"prompt": 3}], "prompt is 3"),
        ([DOUBLE | {"plus_input": [1]}], "list of lists"),
        ([DOUBLE | {"atol": "x"}], "atol"),
        ([SHARED | {"base_input": [[1, 2]]}], "do not fit Mbpp/2"),
    ],
)
def test_rows_that_are_no_problems(rows: list[dict[str, object]], message: str) -> None:
    name = "mbpp_plus" if rows and rows[0].get("task_id") == "Mbpp/2" else "humaneval_plus"
    with pytest.raises(EvalsError, match=message):
        read_functions(rows, name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EvalsError, match="cannot read"):
        read_functions(tmp_path / "missing.jsonl", "mbpp_plus")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b'{"task_id": 1}\n' * 99)[:20])
    with pytest.raises(EvalsError, match="cannot read"):
        read_functions(tmp_path / "cut.gz", "mbpp_plus")
    (tmp_path / "text.jsonl").write_text("hello\n")
    with pytest.raises(EvalsError, match="line 1: not JSON"):
        read_functions(tmp_path / "text.jsonl", "mbpp_plus")
    with pytest.raises(EvalsError, match="unknown benchmark"):
        read_functions(tmp_path / "text.jsonl", "mbpp")
