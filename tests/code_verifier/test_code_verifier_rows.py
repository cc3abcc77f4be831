"""A task and its row say the same, and a row that is no task is refused in one line."""

import json
from typing import Any

import pytest

from code_verifier import Proposal, Sandbox, Task
from code_verifier.errors import CodeVerifierError

SQUARE = "def f(x):\n    return x * x"
PAIR: dict[str, Any] = {"kind": "code_o", "program": SQUARE, "input": "3", "output": "9"}
EXAMPLES: dict[str, Any] = {"kind": "code_f", "inputs": ["1", "2"], "outputs": ["1", "4"]}
TASKS = (
    Task("code_o", SQUARE, "3", "9").with_id(),
    Task("code_i", SQUARE, None, "9", id="7"),
    Task("code_f", SQUARE, inputs=("1", "2"), outputs=("1", "4"), message="ß", visible=1, id="a"),
    Task("code_f", "", inputs=("1",), outputs=("1",)),
)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_comes_back_from_its_row(task: Task) -> None:
    row = json.loads(json.dumps(task.to_row()))
    assert Task.from_row(row) == task
    assert Task.from_row(row | {"step": 3, "metrics": None}) == task
    assert list(row) == [
        *("id", "kind", "program", "input", "output", "inputs", "outputs", "message", "visible"),
    ]


def test_a_row_needs_only_what_an_answer_is_judged_by() -> None:
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
        (PAIR | {"kind": "x"}, "unknown kind 'x'; expected one of code_o, code_i, code_f"),
        (
            {"kind": "code_o", "output": "9"},
            "field 'program' or 'snippet' is missing; found 'kind', 'output'",
        ),
        (
            PAIR | {"input": None},
            "field 'input' is missing; found 'kind', 'program', 'input', 'output'",
        ),
        (PAIR | {"output": 9}, "field 'output' is of type int; expected a text"),
        (
            EXAMPLES | {"program": SQUARE, "inputs": ["1", 2]},
            "field 'inputs' has a int as item 2; expected texts",
        ),
        (
            EXAMPLES | {"program": SQUARE, "visible": 1.0},
            "field 'visible' is of type float; expected a whole number",
        ),
        (EXAMPLES | {"program": SQUARE, "visible": 3}, "visible is 3; expected 0 to 2"),
    ],
)
def test_a_row_that_is_no_task_is_refused_in_one_line(row: dict[str, Any], message: str) -> None:
    with pytest.raises(CodeVerifierError) as error:
        Task.from_row(row, complete=True)
    assert str(error.value) == message


def test_validated_tasks_have_complete_rows(sandbox: Sandbox) -> None:
    proposals = [
        *(Proposal(kind, SQUARE, input="3") for kind in ("code_o", "code_i")),
        Proposal("code_f", SQUARE, inputs=("1", "2", "3"), message="grows"),
    ]
    for found in sandbox.validate_many(proposals):
        assert found.task is not None
        assert Task.from_row(found.task.to_row(), complete=True) == found.task
