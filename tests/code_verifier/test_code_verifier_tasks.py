"""Proposals are accepted or refused with a reason, and answers are judged."""

import ast

import pytest

from code_verifier import (
    Comparison,
    Limits,
    Proposal,
    Sandbox,
    Task,
    grade,
    measure,
    parse_program,
    strip_comments,
)
from code_verifier.errors import CodeVerifierError
from code_verifier.grading import leaks
from code_verifier.metrics import fingerprint

SQUARE = "def f(x):\n    total = x * x + 1\n    return total"


def test_a_pair_becomes_a_task(sandbox: Sandbox) -> None:
    found = sandbox.validate(Proposal("code_o", SQUARE, input=" 3  # three"))
    assert found.status == "ok"
    assert found.task is not None
    assert (found.task.input, found.task.output) == ("3", "10")
    again = sandbox.validate(Proposal("code_o", SQUARE, input="3")).task
    assert again is not None
    assert again.id == found.task.id != ""


@pytest.mark.parametrize(
    ("status", "proposal"),
    [
        ("incomplete", Proposal("code_i", SQUARE)),
        ("not_literal", Proposal("code_i", SQUARE, input="g(1)")),
        ("banned", Proposal("code_o", "import os\n" + SQUARE, input="1")),
        ("incomplete", Proposal("code_f", SQUARE, inputs=("1",))),
        ("duplicate_input", Proposal("code_f", SQUARE, inputs=("1", "2", " 1 "))),
        ("constant_output", Proposal("code_f", SQUARE, inputs=("1", "-1"))),
        ("exception", Proposal("code_f", SQUARE, inputs=("1", "'a'"))),
        ("leaking_message", Proposal("code_f", SQUARE, inputs=("1", "2"), message=SQUARE)),
        (
            "leaking_message",
            Proposal("code_f", SQUARE, inputs=("1", "2"), message="try total=x*x+1, return total"),
        ),
    ],
)
def test_bad_proposals_are_refused(sandbox: Sandbox, status: str, proposal: Proposal) -> None:
    found = sandbox.validate(proposal)
    assert (found.status, found.task) == (status, None)
    assert found.reason


def test_a_function_proposal_shows_the_first_half(sandbox: Sandbox) -> None:
    proposal = Proposal("code_f", SQUARE, inputs=("1", "2", "3", "4", "5"), message="grows fast")
    (found,) = sandbox.validate_many([proposal])
    assert found.task is not None
    assert found.task.visible == 2
    assert found.task.outputs == ("2", "5", "10", "17", "26")


def test_output_answers_are_compared_as_data(sandbox: Sandbox) -> None:
    task = Task("code_o", SQUARE, input="3", output="[1, True]")
    answers = ["[1, True]", "[1,True]", "[True, 1]", "[0 + 1, True]", "gold", "", "[1, True]\n"]
    scores = [found.score for found in sandbox.grade_many((task, text) for text in answers)]
    assert scores == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    loose = Sandbox(comparison=Comparison(types=False))
    assert loose.grade(task, "[True, 1]").score == 1.0
    assert grade(task, "[1, True]", sandbox).score == 1.0


def test_input_answers_run_as_data(sandbox: Sandbox) -> None:
    task = Task("code_i", SQUARE, input="3", output="10")
    answers = ["3", "-3", "x=3", "4", "1) or (True", "'a'", "range(3)", "", "3.0"]
    scores = [sandbox.grade(task, text).score for text in answers]
    assert scores == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_program_answers_must_pass_all_hidden_examples(sandbox: Sandbox) -> None:
    task = Task(
        "code_f", SQUARE, inputs=("1", "2", "3", "4"), outputs=("2", "5", "10", "17"), visible=2
    )
    right = sandbox.grade(task, "def f(n):\n    return n ** 2 + 1")
    assert (right.score, right.passed, right.total) == (1.0, 2, 2)
    half = sandbox.grade(task, "def f(n):\n    return 10")
    assert (half.score, half.passed, half.total) == (0.0, 1, 2)
    same = "class A:\n    def __eq__(s, o): return True\ndef f(n):\n    return A()"
    assert sandbox.grade(task, same).score == 0.0
    assert "syntax_error" in sandbox.grade(task, "def f(").reason


def test_tasks_that_cannot_be_judged_are_told(sandbox: Sandbox) -> None:
    for task in (
        Task("code_o", SQUARE),
        Task("code_i", SQUARE, output="nan"),
        Task("code_f", SQUARE),
    ):
        with pytest.raises(CodeVerifierError):
            sandbox.grade(task, "1")
    with pytest.raises(CodeVerifierError, match="unknown kind"):
        Task("code_x", SQUARE)
    with pytest.raises(CodeVerifierError, match="as many"):
        Task("code_f", SQUARE, inputs=("1",))


def test_comments_and_docstrings_go() -> None:
    program = 'def f(x):\n    """The answer is 42."""\n    # 42\n    return "# not a comment"'
    assert strip_comments(program) == "def f(x):\n    return '# not a comment'"
    assert strip_comments('def f():\n    "only"') == "def f():\n    pass"
    with pytest.raises(ValueError, match="not Python"):
        strip_comments("def f(")


def test_a_parsed_program_serves_as_well_and_is_left_as_it_is() -> None:
    parsed = parse_program('def f():\n    "Doc."\n    if f:\n        "no doc"\n')
    before = ast.dump(parsed.tree)
    assert strip_comments(parsed) == "def f():\n    if f:\n        'no doc'"
    assert measure(parsed) == measure(parsed.text)
    assert fingerprint(parsed) == measure(parsed).structure
    assert leaks(parsed.text, parsed)
    assert ast.dump(parsed.tree) == before


def test_inputs_and_outputs_of_any_allowed_size_are_judged() -> None:
    with Sandbox(workers=1, limits=Limits(wall_s=30, output_chars=300_000)) as wide:
        program = "def f(n):\n    return 'x' * n"
        task = wide.validate(Proposal("code_i", program, input="200_000")).task
        assert task is not None
        assert wide.grade(task, "200000").score == 1.0
        examples = ("150000", "150001")
        found = wide.validate(Proposal("code_f", program, inputs=examples)).task
        assert found is not None
        assert wide.grade(found, program).score == 1.0
        huge = wide.validate(Proposal("code_o", program, input="0x" + "f" * 9000))
        assert huge.status == "too_long"
