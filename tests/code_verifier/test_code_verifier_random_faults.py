"""Faults of the sandbox at random: they are counted, judge nobody, and leave the others alone."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from code_verifier import Proposal, Sandbox, Status, Task, Validation
from code_verifier.cli import main
from code_verifier.integrations.judging import Judge
from code_verifier.sandbox.pool import EXAMINER, Kind, Pool
from code_verifier.sandbox.process import ProcessLost

SEEDS = (1, 2)
SHARE = 0.15
COUNT = 30
BODIES = ("return x + {i}", "return [x] * {i}", "return 1 // (x - 2)", "return {{x, {i}}}")


def program(i: int) -> str:
    """A program of its own for every task; its docstring stands in all that is executed."""
    return f"def f(x):\n    'task {i};'\n    " + BODIES[i % len(BODIES)].format(i=i)


def proposal(i: int) -> Proposal:
    if i % 3 == 2:
        return Proposal("code_f", program(i), inputs=("1", "3", f"{i + 4}"))
    return Proposal(("code_o", "code_i")[i % 3], program(i), input="2" if i % 4 == 2 else "3")


PROPOSALS = [proposal(i) for i in range(COUNT)]


@contextmanager
def faults(seed: int, place: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Lose a share of all executions; gives the numbers of the tasks that lost one.

    Which ones does not depend on the order in which threads come to execute.
    """
    ask = Pool.ask
    executions: Counter[int] = Counter()
    hit: set[int] = set()

    def losing(self: Pool, kind: Kind, request: bytes, grace_s: float) -> bytes:
        marker = re.search(rb"task (\d+);", request)
        if kind == EXAMINER or marker is None:
            return ask(self, kind, request, grace_s)
        task = int(marker.group(1))
        executions[task] += 1
        if random.Random(f"{seed} {task} {executions[task]}").random() < SHARE:
            hit.add(task)
            raise ProcessLost("injected")
        return ask(self, kind, request, grace_s)

    with place.context() as patched:
        patched.setattr(Pool, "ask", losing)
        yield hit


@pytest.fixture(scope="module")
def validated(sandbox: Sandbox) -> list[Validation]:
    found = list(sandbox.validate_many(PROPOSALS))
    assert {v.status for v in found} == {Status.OK, Status.EXCEPTION}
    return found


@pytest.fixture(scope="module")
def answered(validated: list[Validation]) -> list[tuple[Task, str]]:
    """Right and wrong answers; the one to a code_f task is a program, marked as its task is."""
    pairs = []
    for i, found in enumerate(validated):
        if found.task is not None:
            right = {"code_o": found.task.output, "code_i": found.task.input}
            wrong = "7" if i % 2 else None
            code = program(i) if wrong is None else program(i).replace("return", "return 0 or")
            answer = code if found.task.kind == "code_f" else wrong or right[found.task.kind]
            assert answer is not None
            pairs.append((found.task, answer))
    return pairs


def number(task: Task) -> int:
    found = re.search(r"task (\d+);", task.program)
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_proposals_that_met_no_fault_are_judged_as_ever(
    sandbox: Sandbox, validated: list[Validation], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faults(seed, monkeypatch) as hit:
        found = list(sandbox.validate_many(PROPOSALS))
    lost = {i for i, v in enumerate(found) if v.status == Status.SANDBOX_ERROR}
    assert lost
    assert lost <= hit
    assert len(hit) < COUNT
    for i, verdict in enumerate(found):
        if i in lost:
            assert verdict.task is None
            assert "injected" in verdict.reason
        else:
            assert verdict == validated[i]


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_that_met_no_fault_are_graded_as_ever(
    sandbox: Sandbox,
    answered: list[tuple[Task, str]],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clean = list(sandbox.grade_many(answered))
    assert {grade.score for grade in clean if grade.judged} == {0.0, 1.0}
    with faults(seed, monkeypatch) as hit:
        found = list(sandbox.grade_many(answered))
    lost = {number(task) for (task, _), g in zip(answered, found, strict=True) if not g.judged}
    assert lost
    assert lost <= hit
    for (task, _), grade, before in zip(answered, found, clean, strict=True):
        if number(task) in lost:
            assert (grade.status, grade.score) == (Status.SANDBOX_ERROR, 0.0)
            assert (grade.passed, grade.total) == (None, None)
        else:
            assert grade == before
    with faults(seed, monkeypatch):
        scores = Judge(sandbox, partial_credit=False).scores(answered)
    assert scores == [grade.score if grade.judged else None for grade in found]
    check_counted(seed, answered, scores, tmp_path, monkeypatch)


def check_counted(
    seed: int, answered: Any, scores: list[float | None], home: Path, place: pytest.MonkeyPatch
) -> None:
    """The command counts the faults, and gives the same scores to the same answers."""
    rows = [task.to_row() | {"answer": answer} for task, answer in answered]
    (home / "in").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ["grade", str(home / "in"), "--out", str(home / "out"), "--json", "--wall-s", "30"]
    with faults(seed, place):
        result = CliRunner().invoke(main, args)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["ungraded"] == scores.count(None)
    graded = [json.loads(line)["score"] for line in (home / "out").read_text().splitlines()]
    assert graded == scores
