"""Samples of other harnesses, in fixtures of their schemas."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from evals.errors import EvalsError
from evals.foreign.read import read_foreign
from evals.foreign.sample import ForeignSample

TWICE = "def twice(x):\n    return 2 * x\n"


def write(folder: Path, rows: list[Any], name: str = "any.name") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(folder: Path, rows: list[Any]) -> tuple[ForeignSample, ...]:
    return read_foreign(write(folder, rows)).samples


def test_evalplus_json_lines(tmp_path: Path) -> None:
    rows = [
        {"task_id": "HumanEval/900", "solution": TWICE, "base_status": "pass", "note": None},
        {"task_id": "HumanEval/901", "completion": "    return 1", "finish_reason": "length"},
        {"task_id": "HumanEval/900", "solution": "", "finish_reason": "stop"},
    ]
    found = read_foreign(write(tmp_path, rows))
    assert found.harness == "evalplus"
    first, second, third = found.samples
    assert first == ForeignSample(
        "HumanEval/900", 0, solution=TWICE, claims={"base_status": "pass", "note": None}
    )
    assert (second.solution, second.completion, second.truncated) == (None, "    return 1", True)
    assert (third.sample, third.solution, third.truncated) == (1, "", False)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(write(tmp_path, rows).read_bytes()))
    assert read_foreign(packed).samples == found.samples


def test_evalplus_folder(tmp_path: Path) -> None:
    for name, text in (("0.py", TWICE), ("1.py", "é = 1"), ("10.py", ""), ("notes.txt", "x")):
        (tmp_path / "Mbpp_900").mkdir(exist_ok=True)
        (tmp_path / "Mbpp_900" / name).write_text(text, encoding="utf-8")
    (tmp_path / "Mbpp_901").mkdir()
    (tmp_path / "log").write_text("x")
    found = read_foreign(tmp_path)
    assert [(s.id, s.sample, s.solution) for s in found.samples] == [
        ("Mbpp/900", 0, TWICE),
        ("Mbpp/900", 1, "é = 1"),
        ("Mbpp/900", 10, ""),
    ]
    assert found.notes == ("passed over: Mbpp_900/notes.txt, log",)
    (tmp_path / "Mbpp_901" / "0.py").write_bytes(b"\xff")
    with pytest.raises(EvalsError, match=r"0\.py is not UTF-8"):
        read_foreign(tmp_path)


@pytest.mark.parametrize("indent", [None, 2])
def test_evalplus_results(tmp_path: Path, indent: int | None) -> None:
    row = {"task_id": "HumanEval/900", "solution": TWICE, "base_status": "pass"}
    more = {**row, "plus_status": "fail", "plus_fail_tests": [[1]]}
    path = tmp_path / "x.json"
    found = {"date": "2024-01-01", "hash": "0", "eval": {"HumanEval/900": [row, more]}}
    path.write_text(json.dumps(found, indent=indent))
    samples = read_foreign(path).samples
    assert [sample.sample for sample in samples] == [0, 1]
    assert samples[1].claims == {"base_status": "pass", "plus_status": "fail"}
    assert samples[0].solution == TWICE


@pytest.mark.parametrize("as_array", [True, False])
def test_livecodebench_outputs(tmp_path: Path, as_array: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "question_id": "abc900_a",
            "question_content": "Add.",
            "difficulty": "easy",
            "output_list": ["```python\nprint(1)\n```", "no code"],
            "code_list": ["print(1)", ""],
            "graded_list": [True, False],
            "pass@1": 0.5,
            "metadata": ["{}", '{"error_code": -2}'],
        },
        {"question_id": 901, "code_list": ["pass"]},
    ]
    path = write(tmp_path, [rows]) if as_array else write(tmp_path, rows)
    found = read_foreign(path)
    assert found.harness == "livecodebench"
    assert [(s.id, s.sample, s.solution) for s in found.samples] == [
        ("abc900_a", 0, "print(1)"),
        ("abc900_a", 1, ""),
        ("901", 0, "pass"),
    ]
    assert found.samples[0].response == rows[0]["output_list"][0]
    assert found.samples[1].claims == {
        "difficulty": "easy",
        "graded": False,
        "metadata": '{"error_code": -2}',
    }
    assert found.samples[2].response is None


def logged(index: int, *responses: str, **more: Any) -> dict[str, Any]:
    own = {"doc_id": index, "doc": {"question": "1 + 1?"}, "target": "2", "arguments": [["p", {}]]}
    return {**own, "resps": [list(responses)], "filtered_resps": [responses[0]], **more}


def test_lm_eval_logs_with_two_filters_are_one_sample(tmp_path: Path) -> None:
    rows = [
        logged(7, "so 2", filter="strict-match", filtered_resps=["[invalid]"], exact_match=0.0),
        logged(8, "#### 3", filter="strict-match", filtered_resps=["3"], exact_match=1.0),
        logged(7, "so 2", filter="flexible-extract", filtered_resps=["2"], exact_match=1.0),
    ]
    found = read_foreign(write(tmp_path, rows))
    assert found.harness == "lm-eval"
    first, second = found.samples
    assert (first.id, first.index, first.response) == ("7", 7, "so 2")
    assert first.filtered == {"strict-match": "[invalid]", "flexible-extract": "2"}
    assert first.claims["strict-match:exact_match"] == 0.0
    assert first.claims["flexible-extract:exact_match"] == 1.0
    assert second.filtered == {"strict-match": "3"}


def test_lm_eval_names_documents_and_repeats(tmp_path: Path) -> None:
    rows = [
        logged(0, "a", "b", doc={"task_id": "HumanEval/900"}, filtered_resps=[["A", "B"]]),
        logged(1, "c", "d", doc={"id": 60}),
        logged(2, "e", doc="text"),
    ]
    found = read(tmp_path, rows)
    assert [(s.id, s.sample, s.response) for s in found] == [
        ("HumanEval/900", 0, "a"),
        ("HumanEval/900", 1, "b"),
        ("60", 0, "c"),
        ("60", 1, "d"),
        ("2", 0, "e"),
    ]
    assert found[1].filtered == {"none": "B"}
    assert found[2].filtered == {}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"task_id": "x", "solution": 3}], "row 1: solution is a number; expected a text"),
        ([{"task_id": None, "solution": ""}], "row 1: task_id is null"),
        ([{"task_id": True, "solution": ""}], "row 1: task_id is a truth value"),
        ([{"question_id": "a", "output_list": "x"}], "output_list is a text; expected an array"),
        ([{"question_id": "a", "code_list": [1]}], r"code_list\[0\] is a number"),
        (
            [{"question_id": "a", "code_list": [""], "output_list": []}],
            "found output_list 0, code_list 1",
        ),
        ([{"question_id": "a", "code_list": [""]}] * 2, "row 2: question_id 'a' came before"),
        ([logged(1, "a"), logged(1, "a")], "row 2: doc_id 1 with filter 'none' came before"),
        ([logged(1, "a"), logged(1, "b", filter="f")], "doc_id 1 has other responses than before"),
        ([logged(1, "a", doc_id="1")], "doc_id is a text"),
        ([logged(1, "a", resps=[[[-1.5, False]], [[-2.0, True]]])], "not a generation"),
        ([logged(1, "a", resps=[[[-1.5, False]]])], "holds an array, expected texts"),
        ([{"eval": {"Mbpp/900": {"base": [["pass", []]]}}}], "Mbpp/900: an object without solut"),
        ([{"eval": {"Mbpp/900": [{"base_status": "pass"}]}}], "sample 0 has no solution"),
        ([{"id": "x", "response": "y"}], "give them to `evals grade` as they are"),
        ([{"results": {}, "configs": {}}], "give the samples file of --log_samples"),
        ([{"question": "q", "answer": "a"}], "row 1: found fields question, answer; expected"),
        ([{}], "row 1: found fields nothing"),
        ([{"task_id": "a", "solution": ""}, {"b": 1}], "row 2: found fields b, unlike the rows"),
        ([[]], "holds no samples"),
    ],
)
def test_what_is_no_sample_is_told_in_one_line(tmp_path: Path, rows: list[Any], told: str) -> None:
    with pytest.raises(EvalsError, match=told) as caught:
        read(tmp_path, rows)
    assert "\n" not in str(caught.value)


def test_torn_files_and_empty_folders_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, [{"task_id": "HumanEval/900", "solution": TWICE}] * 2)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(EvalsError, match="line 2: the file ends inside this row"):
        read_foreign(path)
    with pytest.raises(EvalsError, match=r"holds no TASK_ID/N\.py"):
        read_foreign(tmp_path)
    with pytest.raises(EvalsError, match="there is no file"):
        read_foreign(tmp_path / "none")
