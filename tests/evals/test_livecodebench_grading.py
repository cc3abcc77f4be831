"""Grading LiveCodeBench samples; and scripts that try to pass without solving the problem."""

import tomllib
from functools import partial
from pathlib import Path

import pytest
from livecodebench_problems import question

from code_verifier import ScriptRunner
from evals.code.livecodebench import grade_program

DOUBLE = question([("3\n1\n2\n3\n", "2\n4\n6\n"), ("1\n5\n", "10\n")])
SUM = question([("[1, 2]\n3", "[6, 3]"), ("[]\n1", "[1, 1]")], "add")
_FILE = Path(__file__).parent / "data" / "contest_scripts.toml"
SCRIPTS = tomllib.loads(_FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def grader():
    with ScriptRunner() as runner:
        yield partial(grade_program, runner, timeout_s=0.3)


@pytest.mark.parametrize("program", SCRIPTS["passing"])
def test_scripts_that_pass(grader, program):
    verdict = grader(DOUBLE, program)
    assert verdict.status == "pass", verdict


@pytest.mark.parametrize(("program", "status", "test", "reason"), SCRIPTS["failing"])
def test_scripts_that_do_not(grader, program, status, test, reason):
    verdict = grader(DOUBLE, program)
    assert (verdict.status, verdict.failed_test) == (status, test)
    assert reason in verdict.reason


@pytest.mark.parametrize(("program", "status", "test"), SCRIPTS["functions"])
def test_functions(grader, program, status, test):
    verdict = grader(SUM, program)
    failed = -1 if verdict.failed_test is None else verdict.failed_test
    assert (verdict.status, failed) == (status, test)


def test_what_the_official_harness_rejects_passes(grader):
    empty = question([("1\n\n2\n", "3\n")])
    assert {grader(empty, program).status for program in SCRIPTS["rejected"]} == {"pass"}


def test_faults_of_ours_count_for_no_one(grader):
    broken = [
        question([]),
        question([("{", "1")], "add"),
        question([("1", "{")], "add"),
        question([("1", "1")], "add", metadata="{}"),
        question([("1", "1")], private_test_cases="!"),
    ]
    for task in broken:
        verdict = grader(task, "def add(a): return a")
        assert verdict.status is None
        assert verdict.reason


ANSWER = question([("2\n", "YES\n"), ("3\n", "NO\n"), ("4\n", "YES\n")])
NUMBER = question([("2\n", "0.5\n"), ("3\n", "0.25\n")])
LENGTH = """
import sys
frame = sys._getframe()
while "order" not in frame.f_locals: frame = frame.f_back
print(frame.f_locals["order"]["output_bytes"])
"""


@pytest.mark.parametrize("name", SCRIPTS["cheats"])
def test_no_script_cheats(grader, name):
    for task in (ANSWER, NUMBER):
        verdict = grader(task, SCRIPTS["cheats"][name], timeout_s=0.15)
        assert verdict.status in ("fail", "timeout"), verdict


def test_the_room_for_output_does_not_show_the_length_of_the_answer(grader):
    tasks = (question([("1", "NO")]), question([("1", "YES")]), question([("1", "x" * 9999)]))
    found = {grader(task, LENGTH).reason.partition(";")[0] for task in tasks}
    assert found == {"test 1: printed '16777216'"}
