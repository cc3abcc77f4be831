"""Proposals are accepted or refused with a reason, answers are judged, and rows read as tasks."""

import json

import pytest

from code_verifier import (
    Comparison,
    Grade,
    Limits,
    Proposal,
    Status,
    Task,
    Verdict,
    strip_comments,
)
from code_verifier.errors import CodeVerifierError
from code_verifier.grading import grade_answer

SQUARE = "def f(x):\n    total = x * x + 1\n    return total"


def test_a_pair_becomes_a_task(sandbox):
    found = sandbox.validate(Proposal("code_o", SQUARE, input=" 3  # three"))
    assert found.status == "ok"
    assert (found.task.input, found.task.output) == ("3", "10")
    again = sandbox.validate(Proposal("code_o", SQUARE, input="3")).task
    assert again.id == found.task.id != ""


def test_a_function_proposal_shows_the_first_half(sandbox):
    proposal = Proposal("code_f", SQUARE, inputs=("1", "2", "3", "4", "5"), message="grows fast")
    (found,) = sandbox.validate_many([proposal])
    assert found.task.visible == 2
    assert found.task.outputs == ("2", "5", "10", "17", "26")


def test_program_answers_must_pass_all_hidden_examples(sandbox):
    task = Task(
        "code_f", SQUARE, inputs=("1", "2", "3", "4"), outputs=("2", "5", "10", "17"), visible=2
    )
    right = sandbox.grade(task, "def f(n):\n    return n ** 2 + 1")
    assert (right.score, right.passed, right.total) == (1.0, 2, 2)
    half = sandbox.grade(task, "def f(n):\n    return 10")
    assert (half.score, half.passed, half.total) == (0.0, 1, 2)
    for program, passed in (("return 10", 1), ("return 17", 0)):
        hasty = sandbox.grade(task, f"def f(n):\n    {program}", fail_fast=True)
        assert (hasty.score, hasty.passed, hasty.total) == (0.0, passed, 2)
    assert sandbox.grade(task, "def f(n):\n    return n ** 2 + 1", fail_fast=True) == right
    assert "syntax_error" in sandbox.grade(task, "def f(").reason


def test_a_grade_says_what_became_of_the_answer(sandbox):
    task = Task("code_i", SQUARE, output="10")
    for answer, status in (("3", "ok"), ("4", "ok"), ("'a'", "exception"), ("g()", "not_literal")):
        found = sandbox.grade(task, answer)
        assert (found.status, found.judged) == (status, True)
    assert sandbox.grade(Task("code_o", "", output="9"), "(").status == "not_literal"


def test_one_hidden_example_that_faults_makes_the_grade_a_fault():
    """Wherever it is, and whatever the other examples said."""
    for statuses in (
        ("ok", "sandbox_error", "ok"),
        ("exception", "sandbox_error"),
        ("sandbox_error", "ok"),
    ):

        def run(program, given, statuses=statuses):
            status = statuses[int(given) - 1]
            return Verdict(status, given if status == "ok" else None, "gone", 0.0, 1)

        task = Task("code_f", "", inputs=("1", "2", "3"), outputs=("1", "2", "3"))
        found = grade_answer(task, SQUARE, run, Comparison(), Limits(), False)
        assert found == Grade(0.0, "sandbox_error: gone", status=Status.SANDBOX_ERROR)


def test_tasks_that_cannot_be_judged_are_refused(sandbox):
    for task in (
        Task("code_o", SQUARE),
        Task("code_i", SQUARE, output="nan"),
        Task("code_f", SQUARE),
    ):
        with pytest.raises(CodeVerifierError):
            sandbox.grade(task, "1")
    with pytest.raises(CodeVerifierError, match="unknown kind"):
        sandbox.grade(Task("code_x", SQUARE), "1")
    with pytest.raises(CodeVerifierError, match="unknown kind"):
        sandbox.validate(Proposal("code_x", SQUARE, "1"))
    with pytest.raises(CodeVerifierError, match="as many"):
        Task("code_f", SQUARE, inputs=("1",))


def test_comments_and_docstrings_go():
    program = 'def f(x):\n    """The answer is 42."""\n    # 42\n    return "# not a comment"'
    assert strip_comments(program) == "def f(x):\n    return '# not a comment'"
    assert strip_comments('def f():\n    "only"') == "def f():\n    pass"
    inside = 'def f():\n    "Doc."\n    if f:\n        "no doc"\n'
    assert strip_comments(inside) == "def f():\n    if f:\n        'no doc'"
    with pytest.raises(ValueError, match="not Python"):
        strip_comments("def f(")


PAIR = {"kind": "code_o", "program": SQUARE, "input": "3", "output": "9"}
EXAMPLES = {"kind": "code_f", "inputs": ["1", "2"], "outputs": ["1", "4"]}
TASKS = (
    Task("code_o", SQUARE, "3", "9").with_id(),
    Task("code_i", SQUARE, None, "9", id="7"),
    Task("code_f", SQUARE, inputs=("1", "2"), outputs=("1", "4"), message="ß", visible=1, id="a"),
    Task("code_f", "", inputs=("1",), outputs=("1",)),
)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_comes_back_from_its_row(task):
    row = json.loads(json.dumps(task.to_row()))
    assert Task.from_row(row) == task
    assert Task.from_row(row | {"step": 3, "metrics": None}) == task
    assert list(row) == [
        *("id", "kind", "program", "input", "output", "inputs", "outputs", "message", "visible")
    ]


def test_a_row_needs_only_what_an_answer_is_judged_by():
    assert Task.from_row({"kind": "code_o", "output": "9"}) == Task("code_o", "", output="9")
    azr = {"id": 7, "kind": "code_i", "snippet": SQUARE, "imports": ["import math"], "output": "9"}
    found = Task.from_row(azr)
    assert (found.program, found.id) == (f"import math\n{SQUARE}", "7")
    of_others = {"inputs": None, "outputs": ["1"], "visible": 9, "message": 1}
    assert Task.from_row(PAIR | of_others, complete=True) == Task("code_o", SQUARE, "3", "9")
    assert Task.from_row(EXAMPLES | {"input": 1, "id": None}).visible == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "field 'kind' is missing; found nothing"),
        (
            {"kind": "code_o", "output": "9"},
            "field 'program' or 'snippet' is missing; found 'kind', 'output'",
        ),
        (PAIR | {"output": 9}, "field 'output' is of type int; expected a text"),
        (
            EXAMPLES | {"program": SQUARE, "inputs": ["1", 2]},
            "field 'inputs' has a int as item 2; expected texts",
        ),
        (EXAMPLES | {"program": SQUARE, "visible": 3}, "visible is 3; expected 0 to 2"),
    ],
)
def test_a_row_that_is_no_task_is_refused_in_one_line(row, message):
    with pytest.raises(CodeVerifierError) as error:
        Task.from_row(row, complete=True)
    assert str(error.value) == message
