"""Grading in child processes: order, laziness, limits, and no process left."""

import os
import signal
from collections.abc import Iterator

import pytest

from evals import EvalsError
from evals.math import symbolic
from evals.math.golds import Gold
from evals.math.grader import MathGrader
from evals.math.workers import Worker


@pytest.fixture
def grader(monkeypatch: pytest.MonkeyPatch) -> Iterator[MathGrader]:
    """A grader whose tests need no Math-Verify, with or without it installed."""
    monkeypatch.setattr(symbolic, "require", lambda: None)
    with MathGrader(workers=2) as found:
        yield found


def pid(worker: Worker) -> int:
    assert worker._process is not None
    return worker._process.pid


def test_verdicts_come_in_order_and_lazily(grader: MathGrader) -> None:
    read = []

    def pairs() -> Iterator[tuple[Gold, str]]:
        for number in range(40):
            read.append(number)
            yield Gold(str(number)), f"\\boxed{{{number if number % 3 else -1}}}"

    verdicts = grader.grade_many(pairs())
    first = next(verdicts)
    assert (first.correct, first.extracted, first.gold) == (False, "-1", "0")
    assert len(read) <= 6
    rest = list(verdicts)
    assert [v.correct for v in rest] == [bool(number % 3) for number in range(1, 40)]
    assert [v.gold for v in rest] == [str(number) for number in range(1, 40)]


def test_long_and_strange_responses(grader: MathGrader) -> None:
    responses = ["", "\ud800 \\boxed{5}", "x" * 5_000_000 + "\\boxed{5}", "<think>5"]
    verdicts = list(grader.grade_many((Gold("5"), text) for text in responses))
    assert [v.correct for v in verdicts] == [False, True, True, False]
    assert [v.reason for v in verdicts] == ["empty", "same text", "same text", "only thoughts"]


def test_a_killed_process_is_replaced(grader: MathGrader) -> None:
    pair = (Gold("5"), "\\boxed{5}")
    assert next(grader.grade_many([pair])).correct
    os.killpg(pid(grader._workers[0]), signal.SIGKILL)
    assert [v.correct for v in grader.grade_many([pair] * 4)] == [True] * 4


def test_no_process_is_left(grader: MathGrader) -> None:
    assert next(grader.grade_many([(Gold("5"), "\\boxed{5}")])).correct
    workers = [worker for worker in grader._workers if worker._process is not None]
    groups = [pid(worker) for worker in workers]
    grader.close()
    for group in groups:
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)


def test_wrong_settings_and_a_missing_library_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "find_spec", lambda name: None)
    with pytest.raises(EvalsError, match=r"pip install 'populab-evals\[benchmarks\]'"):
        MathGrader()
    with pytest.raises(EvalsError, match="workers=0"):
        MathGrader(workers=0)


def test_math_verify_reads_the_rest_and_is_killed_in_time() -> None:
    pytest.importorskip("math_verify", reason="pip install 'populab-evals[benchmarks]'")
    third, hostile = Gold(r"\frac{1}{3}"), r"\boxed{\sum_{k=1}^{10^9} \frac{1}{k}}"
    with MathGrader() as grader:
        verdicts = list(
            grader.grade_many(
                [
                    (third, r"\boxed{\int_0^1 x^2 dx}"),
                    (third, hostile),
                    (third, r"\boxed{\int_0^1 x^3 dx}"),
                ]
            )
        )
    assert [(v.correct, v.reason) for v in verdicts] == [
        (True, "symbolic"),
        (False, "timeout"),
        (False, "symbolic"),
    ]
    assert verdicts[1].extracted is not None
