"""Saved samples of evalplus, in fixtures of its schema."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from json_lines import write_rows
from sums import sums

from evals import Benchmark, EvalsError, Question
from evals.records import saved_samples

TWICE = "def twice(x):\n    return 2 * x\n"
NAMES = ("HumanEval/900", "HumanEval/901", "60", "Mbpp/900")
BENCHMARK: Benchmark = replace(
    sums(), questions=tuple(Question(name, {"prompt": f"# {name}\n"}, "") for name in NAMES)
)


def read(path: Path) -> list[tuple[str, int, str | None]]:
    samples, _ = saved_samples(path, BENCHMARK)
    return [(s.id, s.sample, s.solution or s.response) for s in samples]


def test_evalplus_json_lines(tmp_path: Path) -> None:
    rows = [
        {"task_id": "HumanEval/900", "solution": TWICE, "base_status": "pass"},
        {"task_id": "HumanEval/901", "completion": "    return 1"},
        {"task_id": "HumanEval/900", "solution": "x = 1"},
        {"task_id": "HumanEval/5", "solution": "x = 1"},
    ]
    path = write_rows(tmp_path / "any.name", rows)
    found = read(path)
    assert found == [
        ("HumanEval/900", 0, TWICE),
        ("HumanEval/901", 0, "# HumanEval/901\n    return 1"),
        ("HumanEval/900", 1, "x = 1"),
    ]
    assert saved_samples(path, BENCHMARK)[1] == [
        "samples of evalplus",
        "1 samples passed over: not in this data, 'HumanEval/5' first",
    ]
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read(path) == found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"task_id": "x", "solution": 3}], "line 1: neither solution nor completion"),
        ([{"task_id": "x", "solution": ""}], "sums has no task 'x'|holds no samples"),
        ([{"id": "x", "response": "y"}], "sums has no task 'x'"),
        ([{"doc_id": 1, "resps": [["a"]]}], "found fields doc_id, resps; expected"),
        ([{"question": "q", "answer": "a"}], "found fields question, answer; expected"),
        ([], "holds no samples"),
    ],
)
def test_what_is_no_sample_is_refused_in_one_line(
    tmp_path: Path, rows: list[Any], said: str
) -> None:
    with pytest.raises(EvalsError, match=said) as caught:
        read(write_rows(tmp_path / "any.name", rows))
    assert "\n" not in str(caught.value)


def test_torn_files_are_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "any.name", [{"task_id": "HumanEval/900", "solution": TWICE}] * 2)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(EvalsError, match="line 2: not JSON"):
        read(path)
