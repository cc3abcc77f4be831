"""Reading LiveCodeBench: rows, hidden tests, releases, answers."""

import gzip
import json
import tracemalloc
from datetime import datetime

import pytest
from json_lines import write_rows
from livecodebench_problems import question, row

from code_verifier import read_tests as read_row
from evals import Data, EvalsError, load_benchmark
from evals.code.livecodebench import read_questions
from evals.data import HubRows

PAIRS = [("1\n", "2\n"), ("2\n", "4\n"), ("é\n", "è\n")]


def read_tests(question):
    """The tests of a question, each with its input and its output."""
    tests = read_row(question.problem())
    return list(zip(tests.inputs, tests.outputs, strict=True))


def test_tests_of_rows_and_of_files(tmp_path):
    assert read_tests(question(PAIRS)) == PAIRS
    path = tmp_path / "rows.jsonl"
    rows = [row(PAIRS[:1], question_id="p0"), row(PAIRS)]
    path.write_text("\n".join(json.dumps(item, ensure_ascii=False) for item in rows))
    questions = read_questions(path)
    assert read_tests(questions[1]) == PAIRS
    path.write_text("{}\n")
    with pytest.raises(EvalsError, match="has changed"):
        read_tests(questions[1])


LARGE = 1 << 20
"""Characters of hidden tests in a row of a shard."""


def shard_rows(first, count=4):
    """Rows as the hub has them, dates as Arrow's."""
    text = json.dumps([{"input": "x" * LARGE, "output": "y", "testtype": "stdin"}])
    return [
        row(
            PAIRS[:1],
            question_id=f"p{n}",
            private_test_cases=text,
            contest_date=datetime(2024, 8, 1),
        )
        for n in range(first, first + count)
    ]


class Table:
    """A data set of `datasets` of 12 rows, each made when it is read."""

    def __len__(self):
        return 12

    def __getitem__(self, number):
        if number >= 12:
            raise IndexError
        return shard_rows(number, 1)[0]


@pytest.mark.parametrize("kind", ["jsonl", "hub"])
def test_a_release_is_read_row_by_row_and_its_hidden_tests_when_asked(kind, tmp_path):
    folder = tmp_path / "release_v5"
    folder.mkdir()
    names = ["test.jsonl", "test2.jsonl", "test10.jsonl"] if kind == "jsonl" else []
    for n, name in enumerate(names):
        write_rows(folder / name, shard_rows(4 * n))
    (folder / "README.md").write_text("no rows")
    source = folder if names else HubRows(Table())
    tracemalloc.start()
    questions = read_questions(source)
    tests = [read_tests(question)[1] for question in questions[-1:]]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [question.id for question in questions] == [f"p{n}" for n in range(12)]
    assert peak < 8 * LARGE  # of 12 that the hidden tests have
    assert tests[0][0] == "x" * LARGE
    if names:
        benchmark = load_benchmark("livecodebench", Data(folder))
        assert benchmark.content_hash.startswith("sha256 of 3 files: ")
        assert benchmark.notes[0].startswith("12 rows, which is not an official number")


def test_a_json_array_or_gzip_is_read_whole(tmp_path):
    rows, path = [row(PAIRS, question_id=f"p{n}") for n in range(2)], tmp_path / "rows"
    lines = "".join(json.dumps(item) + "\n" for item in rows).encode()
    for data in (json.dumps(rows, indent=1).encode(), gzip.compress(lines), lines):
        path.write_bytes(data)
        load_benchmark.cache_clear()  # of the same path
        questions = load_benchmark("livecodebench", Data(path))
        assert [question.id for question in questions.questions] == ["p0", "p1"]
        assert read_tests(questions.questions[1]) == PAIRS


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    with pytest.raises(EvalsError, match=r"holds no \*.jsonl"):
        read_questions(tmp_path)
    write_rows(tmp_path / "test-00001-of-00003.jsonl", shard_rows(0, 1))
    with pytest.raises(EvalsError, match="holds 1 shards of 3; fetch the whole release"):
        read_questions(tmp_path)
    (tmp_path / "test-00001-of-00003.jsonl").rename(tmp_path / "a.jsonl")
    write_rows(tmp_path / "b.jsonl", shard_rows(0, 1))
    with pytest.raises(EvalsError, match="several rows have the id 'p0'"):
        load_benchmark("livecodebench", Data(tmp_path))
