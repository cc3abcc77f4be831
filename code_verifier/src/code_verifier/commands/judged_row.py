"""One row of a file through the sandbox. A row that cannot be used gives `{"bad_row": why}`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from code_verifier.errors import LiteralError, RecordError
from code_verifier.literals.canonical import canonical
from code_verifier.literals.literal import parse_literal
from code_verifier.rows.fields import Row, id_of, program_of, task_of, text_field, text_list
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.records import Status, Task, Verdict

Job = Callable[[Sandbox, Row], Row]


def _told(job: Job) -> Job:
    @wraps(job)
    def wrapped(sandbox: Sandbox, row: Row) -> Row:
        try:
            return job(sandbox, row)
        except RecordError as error:
            return {"bad_row": f"line {row['_line']}: {error}"}

    return wrapped


def check_request(row: Row) -> tuple[str, tuple[str, ...], bool]:
    """Program, inputs, and whether they are a list of a row with a program.

    Raises RecordError when the row lacks them.
    """
    id_of(row)
    program = program_of(row)
    if row.get("input") is None and row.get("inputs") is not None:
        inputs = text_list(row, "inputs")
        if not inputs:
            raise RecordError("field 'inputs' is empty; expected at least one input")
        return program, inputs, True
    return program, (text_field(row, "input", "inputs"),), False


def grade_request(row: Row) -> tuple[Task, str]:
    """Task and answer of a row. Raises RecordError when they are missing or cannot be judged."""
    id_of(row)
    task = task_of(row)
    for gold in task.outputs if task.output is None else (task.output,):
        try:
            parse_literal(gold)
        except LiteralError as error:
            raise RecordError(f"the output {gold[:60]!r} is not a literal: {error}") from None
    if task.kind == "code_f" and task.visible == len(task.inputs):
        raise RecordError("a code_f task needs at least one hidden example to be graded")
    return task, text_field(row, "answer")


@_told
def check_row(sandbox: Sandbox, row: Row) -> Row:
    """`{"id", "status", "output", "reason", "wall_ms", "runs"}` for a row with a program.

    A row with `inputs` (AZR's code_f seeds) is checked on each; its output is their list.
    """
    program, inputs, many = check_request(row)
    verdict = _check_all(sandbox, program, inputs) if many else sandbox.check(program, inputs[0])
    return {
        "id": id_of(row),
        "status": verdict.status,
        "output": verdict.output,
        "reason": verdict.reason,
        "wall_ms": round(verdict.wall_ms, 3),
        "runs": verdict.runs,
    }


def _check_all(sandbox: Sandbox, program: str, inputs: tuple[str, ...]) -> Verdict:
    outputs: list[Any] = []
    wall_ms, runs = 0.0, 0
    for number, verdict in enumerate(sandbox.iter_check(program, inputs), 1):
        wall_ms, runs = max(wall_ms, verdict.wall_ms), runs + verdict.runs
        if verdict.output is None:
            reason = f"input {number}: {verdict.reason}"
            return Verdict(verdict.status, None, reason, wall_ms, runs)
        outputs.append(parse_literal(verdict.output))
    text = canonical(outputs, max_chars=len(inputs) * (2 + sandbox.limits.output_chars) + 2)
    return Verdict(Status.OK, text, "", wall_ms, runs)


@_told
def grade_row(sandbox: Sandbox, row: Row) -> Row:
    """`{"id", "score", "reason", "status", "passed"?, "total"?}` for a task and an answer.

    The score is None when the sandbox failed.
    """
    task, answer = grade_request(row)
    grade = sandbox.grade(task, answer)
    result: Row = {
        "id": id_of(row),
        "score": grade.score if grade.judged else None,
        "reason": grade.reason,
        "status": grade.status,
    }
    if grade.total is not None:
        result |= {"passed": grade.passed, "total": grade.total}
    return result
