"""Code graders against recorded verdicts, on the published data of POPULAB_DATA (see code_grading).

All reference solutions of HumanEval+ and MBPP+ pass. Seeded mutants of them get the verdicts that
evalplus gives them; published samples of both and of LiveCodeBench get the recorded ones, which
agree with the published. code_verdicts.json holds a letter a verdict, in the order of the data.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from code_grading import FILES, problems, read_rows
from code_mutants import mutants

from code_verifier import ScriptRunner
from evals import Data, load_benchmark
from evals.code.evalplus_grader import FunctionGrader
from evals.code.livecodebench import grade_program, read_questions
from evals.data import OFFICIAL
from evals.question import ProgramOutcome

RECORDED = json.loads(Path(__file__).with_name("code_verdicts.json").read_text())
DATA = Path(os.environ.get("POPULAB_DATA") or "absent")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("POPULAB_DATA"),
        reason="POPULAB_DATA=FOLDER names the published benchmark files",
    ),
]


def published_answers() -> dict[str, str]:
    """Published programs for LiveCodeBench by question."""
    files = sorted((DATA / "samples").glob("lcb_*.jsonl"))
    return {row["question_id"]: row["code_list"][0] for path in files for row in read_rows(path)}


def letters(outcomes: Iterable[ProgramOutcome]) -> str:
    """p, f or t for each outcome; ? for a fault of the sandbox."""
    return "".join((outcome.status or "?")[0] for outcome in outcomes)


def pairs(outcomes: Iterable[tuple[ProgramOutcome, ProgramOutcome]]) -> Iterator[ProgramOutcome]:
    """Base and plus outcome of each program, one after the other."""
    for both in outcomes:
        yield from both


@pytest.mark.parametrize("name", [name for name, known in OFFICIAL.items() if known.digest])
def test_published_files_hold_the_published_rows(name: str) -> None:
    folder = "cruxeval" if name.startswith("cruxeval") else name
    file = DATA / FILES[name][0] if name in FILES else DATA / folder / "test.jsonl"
    if not file.exists():
        pytest.skip(f"there is no {file}")
    assert load_benchmark(name, Data(file)).notes[-1] == "the rows are the published ones"


@pytest.mark.parametrize("name", FILES)
def test_all_reference_solutions_pass(name: str) -> None:
    tasks = problems(DATA, name)
    assert len(tasks) == {"humaneval_plus": 164, "mbpp_plus": 378}[name]
    with FunctionGrader() as grader:
        found = zip(tasks, grader.grade_many((task, task.reference) for task in tasks), strict=True)
        assert [task.task_id for task, both in found if letters(both) != "pp"] == []


@pytest.mark.parametrize("name", FILES)
def test_mutants_get_the_verdicts_of_evalplus(name: str) -> None:
    samples = [(task, program) for task in problems(DATA, name) for program in mutants(task, 2, 1)]
    recorded = RECORDED["mutants"][name]
    text = "\0".join(program for _, program in samples)
    if hashlib.sha256(text.encode()).hexdigest() != recorded["sha256"]:
        pytest.skip("this version of Python writes other mutants than the recorded ones")
    with FunctionGrader() as grader:
        assert letters(pairs(grader.grade_many(samples))) == recorded["verdicts"]


@pytest.mark.parametrize("name", RECORDED["samples"])
def test_published_samples_keep_their_verdicts(name: str) -> None:
    tasks = {task.task_id: task for some in FILES for task in problems(DATA, some)}
    rows = [row for row in read_rows(DATA / "samples" / name) if row["task_id"] in tasks]
    with FunctionGrader() as grader:
        found = grader.grade_many((tasks[row["task_id"]], row["solution"]) for row in rows)
        assert letters(pairs(found)) == RECORDED["samples"][name]


@pytest.mark.parametrize("name", RECORDED["livecodebench"])
def test_livecodebench_samples_keep_their_verdicts(name: str) -> None:
    answers = published_answers()
    questions = read_questions(DATA / "livecodebench" / name)
    asked = [question for question in questions if question.id in answers]
    with ScriptRunner() as runner:
        found = letters(grade_program(runner, q, answers[q.id], 6.0) for q in asked)
    recorded = RECORDED["livecodebench"][name]
    assert len(found) == len(recorded)  # what ran out of time there may pass on a faster machine
    assert [pair for pair in zip(found, recorded, strict=True) if len({*pair} - {"t"}) > 1] == []
