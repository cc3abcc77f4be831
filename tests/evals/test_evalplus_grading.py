"""HumanEval+ and MBPP+: problems, the program in an answer, and verdicts with reasons."""

import re
import tomllib
from pathlib import Path

import pytest
from evalplus_problems import DOUBLE, HALF, ROOT, SEEK, SHARED, problem, row

from evals.code import evalplus_grader as grading
from evals.code.evalplus import sanitize
from evals.code.evalplus_grader import FunctionGrader
from evals.code.programs import extract_program
from evals.question import ProgramOutcome
from evals.recipes import Limits

_FILE = Path(__file__).parent / "data" / "answers_with_programs.toml"
ANSWERS = tomllib.loads(_FILE.read_text(encoding="utf-8"))
TASK = problem(DOUBLE)


@pytest.fixture(scope="module")
def grader(tmp_path_factory):
    cache = tmp_path_factory.mktemp("expected")
    with FunctionGrader(cache=cache, limits=Limits(min_time_s=0.2)) as opened:
        yield opened


def test_reference_solutions_pass(grader):
    tasks = [problem(source) for source in (DOUBLE, HALF, ROOT, SHARED, SEEK)]
    verdicts = list(grader.grade_many((task, task.reference) for task in tasks))
    assert verdicts == [(ProgramOutcome("pass"), ProgramOutcome("pass"))] * 5


JUDGED = [*ANSWERS["judged"], ("\ud800\0", "fail", "fail", -1, "Error")]


@pytest.mark.parametrize(("program", "base", "plus", "test", "reason"), JUDGED)
def test_verdicts(grader, program, base, plus, test, reason):
    first, second = grader.grade(TASK, program)
    worse = first if first.status != "pass" else second
    failed = -1 if worse.failed_test is None else worse.failed_test
    assert (first.status, second.status, failed) == (base, plus, test)
    assert re.search(reason, worse.reason)


def test_a_loop_fails_by_its_own_processor_time(grader):
    base, _ = grader.grade(TASK, "def double(x):\n    while True:\n        pass")
    assert (base.status, base.failed_test) == ("fail", 0)
    assert "processor time" in base.reason


def test_a_failing_reference_counts_for_no_one(grader):
    task = problem(row("HumanEval/1004", "bad", "(n):\n    return 1 / n\n", base_input=[[0]]))
    outcomes = grader.grade(task, task.reference)
    assert [outcome.status for outcome in outcomes] == [None, None]
    assert "of HumanEval/1004 failed: call 1: ZeroDivision" in outcomes[0].reason


def test_expected_outputs_are_kept_and_damage_is_no_harm(tmp_path):
    task = problem(HALF)
    for _ in range(2):
        with FunctionGrader(cache=tmp_path) as grader:
            assert grader.grade(task, task.reference)[1].status == "pass"
        files = list(tmp_path.iterdir())
        assert len(files) == 2
        for path in files:
            path.write_bytes(path.read_bytes()[:20])


@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_pieces_of_a_run_change_no_verdict(workers, tmp_path, monkeypatch):
    programs = ["", "    return [x, x] if x != 2 else 0", "    return [x, x]"]
    programs = [TASK.reference, *(f"def double(x):\n{program}" for program in programs)]
    samples = [(TASK, program) for program in programs * 3]
    with FunctionGrader(cache=tmp_path) as whole:
        wanted = list(whole.grade_many(samples))
    monkeypatch.setattr(grading, "_PIECE_S", 0.0)
    with FunctionGrader(workers, cache=tmp_path) as grader:
        assert list(grader.grade_many(samples)) == wanted


def test_arguments_of_mbpp_get_their_python_types():
    def arguments(task, *found):
        return problem(
            row(task, "f", "(*a):\n    return a\n", base_input=[list(found)])
        ).base_input[0]

    assert problem(SHARED).base_input == (((1, 2, 3), (2, 3, 4)),)
    assert arguments("Mbpp/75", [[1, 2], [3]], 4) == ([(1, 2), (3,)], 4)
    assert arguments("Mbpp/106", [1], [2]) == ([1], (2,))
    assert arguments("Mbpp/115", [[1, 1], []]) == ([{1}, {}],)
    assert arguments("Mbpp/124", "1", "2+1j") == (1.0, 2 + 1j)
    assert arguments("Mbpp/278", [1, [2, 3]]) == ((1, (2, 3)),)
    assert arguments("Mbpp/580", [1, [2, [3]]]) == ((1, (2, (3,))),)
    assert arguments("Mbpp/722", {"a": [1, 2]}, 3) == ({"a": (1, 2)}, 3)
    assert arguments("Mbpp/9", [1, [2]]) == ([1, [2]],)
    assert problem(row("Mbpp/793", "last", "(a):\n    return a\n", plus_input={})).plus_input == ()


PROGRAM = "def f(x):\n    return x + 1"


@pytest.mark.parametrize("answer", ANSWERS["wrapped"])
def test_one_program_in_many_wrappings(answer):
    assert sanitize(answer, "f").strip() == PROGRAM


@pytest.mark.parametrize("program", ANSWERS["whole"])
def test_what_the_entry_point_needs_stays(program):
    assert sanitize(f"```\n{program}\nprint(f(1))\n```", "f") == program


def test_an_answer_without_a_program_stays_as_it_is():
    for answer in ("", "I cannot do that."):
        assert sanitize(answer, "f") == answer
    assert sanitize("```python\nx = 1\n```", "f") == "x = 1"
    assert extract_program("x" * 2_000_000, "f") == ""


def test_long_nonsense_takes_no_time():
    sanitize("def f(:\n" * 20_000, "f")
    sanitize("(" * 100_000, "f")
    sanitize("```\n" * 50_001, "f")
