"""A fault of the sandbox while grading is no grade: the status says so, all the way out."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from code_verifier import (
    Comparison,
    Grade,
    Limits,
    Sandbox,
    Status,
    Task,
    Verdict,
)
from code_verifier.cli import main
from code_verifier.grading import grade_answer
from code_verifier.processes import EXAMINER, Pool, ProcessLost

SQUARE = "def f(x):\n    return x * x"
SPIN_ON_TWO = "def f(x):\n    while x == 2: pass\n    return x"
EXAMPLES = Task("code_f", "", inputs=("1", "2", "3"), outputs=("1", "2", "3"), visible=1)


def runs_a_program(servers: list[int]) -> bool:
    """Whether a child of these processes has used processor time, as none does that is set up."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) in servers and int(fields[11]) >= 5:
            return True
    return False


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fork server dies at the input 7; a process that only reads programs lives."""
    ask = Pool.ask

    def dying(self: Pool, kind: Any, request: bytes, grace_s: float) -> bytes:
        if kind != EXAMINER and b"seven" in request:
            raise ProcessLost("killed")
        return ask(self, kind, request, grace_s)

    monkeypatch.setattr(Pool, "ask", dying)


def test_every_other_grade_says_what_became_of_the_answer(sandbox: Sandbox) -> None:
    task = Task("code_i", SQUARE, output="9")
    for answer, status in (("3", "ok"), ("4", "ok"), ("'a'", "exception"), ("g()", "not_literal")):
        found = sandbox.grade(task, answer)
        assert (found.status, found.judged) == (status, True)
    assert sandbox.grade(Task("code_o", "", output="9"), "(").status == Status.NOT_LITERAL
    assert sandbox.grade(EXAMPLES, "def f(").status == Status.SYNTAX_ERROR
    assert sandbox.grade(EXAMPLES, SQUARE).status == Status.OK


def test_killed_servers_give_no_grade() -> None:
    """The servers are killed under a program for as long as it is judged."""
    limits = Limits(wall_s=3600.0, cpu_s=3600.0)
    tasks = [(Task("code_i", SPIN_ON_TWO, output="2"), "2"), (EXAMPLES, SPIN_ON_TWO)]
    with Sandbox(workers=1, limits=limits) as own, ThreadPoolExecutor(1) as threads:
        for task, answer in tasks:
            future = threads.submit(own.grade, task, answer)
            deadline = time.monotonic() + 600.0
            while not future.done():
                assert time.monotonic() < deadline
                time.sleep(0.05)
                if runs_a_program(own.pids()):
                    for pid in own.pids():
                        os.kill(pid, signal.SIGKILL)
            found = future.result()
            assert (found.score, found.status, found.judged) == (0.0, "sandbox_error", False)
            assert found.reason.startswith("sandbox_error: ")
            assert (found.passed, found.total) == (None, None)
        assert own.grade(Task("code_i", SQUARE, output="9"), "3").score == 1.0


def test_one_hidden_example_that_faults_makes_the_grade_a_fault() -> None:
    """Wherever it stands, and whatever the other examples said."""
    for statuses in (
        ("ok", "sandbox_error", "ok"),
        ("exception", "sandbox_error"),
        ("sandbox_error", "ok"),
    ):

        def run(program: str, inputs: Any, statuses: tuple[str, ...] = statuses) -> Any:
            for status, given in zip(statuses, inputs, strict=False):
                yield Verdict(status, given if status == "ok" else None, "gone", 0.0, 1)

        task = Task("code_f", "", inputs=("1", "2", "3"), outputs=("1", "2", "3"))
        found = grade_answer(task, SQUARE, run, Comparison(), Limits())
        assert found == Grade(0.0, "sandbox_error: gone", status=Status.SANDBOX_ERROR)


@pytest.mark.usefixtures("broken")
def test_the_command_counts_what_it_could_not_grade(tmp_path: Path) -> None:
    hidden = {"kind": "code_f", "inputs": ["1"], "outputs": ["1"]}
    rows = [
        {"id": "lost", **hidden, "answer": "def f(x, seven=7):\n    return x"},
        {"id": "right", **hidden, "answer": SQUARE},
        {"id": "late", **hidden, "answer": "def f("},
    ]
    (tmp_path / "in").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ["grade", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*args, "--json"])
    assert result.exit_code == 1, result.output
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [(row["status"], row["score"]) for row in found] == [
        ("sandbox_error", None),
        ("ok", 1.0),
        ("syntax_error", 0.0),
    ]
    assert json.loads(result.stdout) == {"rows": 3, "score": {"0.0": 1, "1.0": 1}, "ungraded": 1}
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 1
    assert "1 of 3 rows could not be graded" in result.stderr
