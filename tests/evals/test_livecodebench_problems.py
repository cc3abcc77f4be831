"""Reading LiveCodeBench: rows, hidden tests, releases, answers."""

import base64
import json
import pickle
import zlib
from pathlib import Path

import pytest
from livecodebench_problems import packed, problem, row

from evals import EvalsError
from evals.livecodebench.benchmark import azr_program, official_program
from evals.livecodebench.problems import (
    Case,
    StoredRow,
    erratum,
    read_problems,
    read_tests,
    window,
)

PAIRS = [("1\n", "2\n"), ("2\n", "4\n"), ("é\n", "è\n")]
TESTS = tuple(Case(*pair, "stdin") for pair in PAIRS)


def test_tests_of_rows_and_of_files(tmp_path: Path) -> None:
    assert read_tests(problem(PAIRS)) == TESTS
    path = tmp_path / "rows.jsonl"
    rows = [row(PAIRS[:1], question_id="p0"), row(PAIRS)]
    path.write_text("\n".join(json.dumps(item, ensure_ascii=False) for item in rows))
    problems = read_problems(path)
    assert isinstance(problems[1].private, StoredRow)
    assert read_tests(problems[1]) == TESTS
    path.write_text("{}\n")
    with pytest.raises(EvalsError, match="has changed"):
        read_tests(problems[1])


def test_hidden_tests_may_be_plain_json_or_missing() -> None:
    tests = json.dumps([{"input": "1", "output": "2", "testtype": "stdin"}])
    assert len(read_tests(problem(PAIRS, private_test_cases=tests))) == 2
    assert len(read_tests(problem(PAIRS, private_test_cases=None))) == 1


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("run",))


def _zipped(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (_zipped(pickle.dumps(Evil())), "names builtins.print"),
        (_zipped(b"cos\nsystem\n(S'true'\ntR."), "names os.system"),
        (_zipped(b"not a pickle"), "cannot be unpacked"),
        (_zipped(pickle.dumps(7)), "hold int"),
        ("!!!", "cannot be unpacked"),
        (base64.b64encode(b"plain").decode(), "cannot be unpacked"),
        (packed([{"input": "1"}]), "lacks the texts"),
        (_zipped(pickle.dumps("{")), "not JSON"),
    ],
)
def test_hidden_tests_that_are_none(
    hidden: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EvalsError, match=message):
        read_tests(problem(PAIRS, private_test_cases=hidden))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contest_date": "soon"}, "contest_date is 'soon'"),
        ({"question_id": 3}, "lacks the texts question_id"),
        ({"metadata": "{"}, "not JSON"),
    ],
)
def test_rows_that_are_no_problems(changes: dict[str, object], message: str) -> None:
    with pytest.raises(EvalsError, match=message):
        problem(PAIRS, **changes)
    with pytest.raises(EvalsError, match="repeats"):
        read_problems([row(PAIRS), row(PAIRS)])


def test_windows_are_inclusive_and_end_at_midnight() -> None:
    dates = ("2024-03-02", "2024-08-01", "2024-08-03T19:30:00", "2025-02-01")
    problems = [problem(PAIRS, question_id=date, contest_date=date) for date in dates]
    chosen = window(problems, start="2024-08-01", end="2024-08-03")
    assert [item.question_id for item in chosen] == ["2024-08-01"]
    assert len(window(problems, start="2024-08-01", end="2025-02-01")) == 3
    with pytest.raises(EvalsError, match="'yesterday'"):
        window(problems, end="yesterday")


def test_known_errata() -> None:
    assert "interactive" in str(erratum(problem(PAIRS, question_id="abc337_e")))
    assert erratum(problem(PAIRS, question_title="find-the-peaks"))
    assert erratum(problem(PAIRS)) is None


def test_programs_in_answers() -> None:
    answer = "Try\n```python\na\n```\nor\n```\nb\nc\n```\ndone"
    assert official_program(answer) == "b\nc"
    assert official_program("```python\na") == ""
    assert official_program("a") == ""
    assert azr_program(answer) == "a"
    tagged = "<answer>```python\nx\n``` ```python\ny\n```</answer> ```python\nz\n```"
    assert azr_program(tagged) == "y"
    assert azr_program("<answer> plain </answer>") == "plain"
