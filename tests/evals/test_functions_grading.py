"""Grading of whole programs: verdicts, reasons, order, and faults of ours."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from function_tasks import DOUBLE, HALF, ROOT, SEEK, SHARED, problem, row

from code_verifier.sandbox.process import Process
from evals import EvalsError
from evals.functions import grader as grading
from evals.functions.grader import FunctionGrader, FunctionVerdict
from evals.functions.problem import FunctionProblem

TASK = problem(DOUBLE)


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunctionGrader]:
    with FunctionGrader(cache=tmp_path_factory.mktemp("expected"), min_time_s=0.2) as opened:
        yield opened


def test_reference_solutions_pass(grader: FunctionGrader) -> None:
    tasks = [problem(source) for source in (DOUBLE, HALF, ROOT, SHARED, SEEK)]
    verdicts = list(grader.grade_many((task, task.reference) for task in tasks))
    assert verdicts == [FunctionVerdict("pass", "pass", "", None)] * 5


@pytest.mark.parametrize(
    ("program", "base", "plus", "test", "reason"),
    [
        ("def double(x):\n    return [x] * 2", "pass", "pass", None, ""),
        ("def double(x):\n    return [x, 2]", "fail", "fail", 0, r"returned \[1, 2\]; expected"),
        ("def double(x):\n    return [x, x] if x in (1, 2) else 0", "pass", "fail", 0, "expected"),
        ("def double(x):\n    return [x, x] if x != 2 else 0", "fail", "pass", 1, "returned 0"),
        ("def double(x):\n    return (x, x)", "fail", "fail", 0, "returned"),
        ("def double(x):\n    1 / 0", "fail", "fail", 0, "ZeroDivisionError: division by zero"),
        ("def double(x):\n    raise SystemExit(0)", "fail", "fail", 0, "SystemExit"),
        ("def double(x): return", "fail", "fail", 0, "returned None"),
        ("def twice(x): return [x, x]", "fail", "fail", None, "KeyError"),
        ("def double(x:", "fail", "fail", None, "SyntaxError"),
        ("1 / 0", "fail", "fail", None, "ZeroDivisionError"),
        ("", "fail", "fail", None, "KeyError"),
        ("\ud800\0", "fail", "fail", None, "Error"),
        ("import os\ndef double(x):\n    os._exit(0)", "timeout", "timeout", 0, "left"),
        ("import time\ndef double(x):\n    time.sleep(1e9)", "fail", "fail", 0, "slept"),
        ("print('hi')\ndef double(x):\n    print(x)\n    return [x, x]", "pass", "pass", None, ""),
        ("from __future__ import annotations\nimport dataclasses, typing, re, enum, threading\n"
         "@dataclasses.dataclass\nclass A:\n    x: typing.Any\n"
         "def double(x):\n    return [A(x).x, x]", "pass", "pass", None, ""),
    ],
)  # fmt: skip
def test_verdicts(
    grader: FunctionGrader,
    program: str,
    base: str,
    plus: str,
    test: int | None,
    reason: str,
) -> None:
    import re

    verdict = grader.grade(TASK, program)
    assert (verdict.base, verdict.plus, verdict.failed_test) == (base, plus, test)
    assert re.search(reason, verdict.reason)


@pytest.mark.parametrize("source", [DOUBLE, ROOT])
def test_compat_repeats_one_published_error(source: dict[str, object], tmp_path: Path) -> None:
    task = problem(source)
    with FunctionGrader(compat="0.3.1", cache=tmp_path) as grader:
        verdict = grader.grade(task, task.reference)
    assert verdict.base == ("fail" if source is ROOT else "pass")


def test_a_loop_fails_by_its_own_processor_time(grader: FunctionGrader) -> None:
    verdict = grader.grade(TASK, "def double(x):\n    while True:\n        pass")
    assert (verdict.base, verdict.failed_test) == ("fail", 0)
    assert "processor time" in verdict.reason


def test_long_outputs_are_compared_by_rule_too(grader: FunctionGrader) -> None:
    body = "(n):\n    return [0.5] * n\n"
    task = problem(row("HumanEval/1003", "many", body, base_input=[[9000]]))
    near = "def many(n):\n    return [0.5 + 1e-9] * n"
    far = "def many(n):\n    return [0.5] * (n - 1) + [0.6]"
    assert grader.grade(task, near).base == "pass"
    assert grader.grade(task, far).base == "fail"


def test_a_failing_reference_counts_for_nobody(grader: FunctionGrader) -> None:
    task = problem(row("HumanEval/1004", "bad", "(n):\n    return 1 / n\n", base_input=[[0]]))
    verdict = grader.grade(task, task.reference)
    assert (verdict.base, verdict.plus) == (None, None)
    assert "reference solution of HumanEval/1004 failed: call 1: ZeroDivision" in verdict.reason


def test_expected_outputs_are_kept_and_damage_is_no_harm(tmp_path: Path) -> None:
    task = problem(HALF)
    for _ in range(2):
        with FunctionGrader(cache=tmp_path) as grader:
            assert grader.grade(task, task.reference).plus == "pass"
        files = list(tmp_path.iterdir())
        assert len(files) == 2
        for path in files:
            path.write_bytes(path.read_bytes()[:20])


def test_samples_are_read_as_they_are_needed(grader: FunctionGrader) -> None:
    drawn = []

    def samples() -> Iterator[tuple[FunctionProblem, str]]:
        for number in range(1000):
            drawn.append(number)
            yield TASK, "def double(x): return [x, x]"

    verdicts = grader.grade_many(samples())
    assert next(verdicts).base == "pass"
    assert len(drawn) < 40


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(EvalsError, match="workers is 0"):
        FunctionGrader(workers=0)
    with pytest.raises(EvalsError, match="time_factor 0"):
        FunctionGrader(time_factor=0)
    with pytest.raises(EvalsError, match="compat"):
        FunctionGrader(compat="0.3.2")


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_of_a_run_are_shared_out_and_change_no_verdict(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = ["", "    return [x, x] if x != 2 else 0", "    return [x, x]"]
    programs = [TASK.reference, *(f"def double(x):\n{program}" for program in programs)]
    samples = [(TASK, program) for program in programs * 3]
    with FunctionGrader(cache=tmp_path) as whole:
        wanted = list(whole.grade_many(samples))
    ask, lock, running, most = Process.ask, threading.Lock(), [0], [0]

    def counted(process: Process, *args: Any) -> bytes:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        try:
            time.sleep(0.01)
            return ask(process, *args)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(Process, "ask", counted)
    monkeypatch.setattr(grading, "_PIECE_S", 0.0)
    with FunctionGrader(workers, cache=tmp_path) as grader:
        assert list(grader.grade_many(samples)) == wanted
    assert most == [workers]
