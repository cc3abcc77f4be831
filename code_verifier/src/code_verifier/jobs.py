"""One row of a file through the sandbox. A row that cannot be used gives `{"bad_row": why}`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from code_verifier.errors import RecordError
from code_verifier.literals import canonical, parse_literal
from code_verifier.records import KINDS, Status, Task, Verdict
from code_verifier.rows import Row, id_of, program_of, text_field, text_list
from code_verifier.sandbox import Sandbox

Job = Callable[[Sandbox, Row], Row]


def _told(job: Job) -> Job:
    @wraps(job)
    def wrapped(sandbox: Sandbox, row: Row) -> Row:
        try:
            return job(sandbox, row)
        except RecordError as error:
            return {"bad_row": f"line {row['_line']}: {error}"}

    return wrapped


@_told
def check_row(sandbox: Sandbox, row: Row) -> Row:
    """`{"id", "status", "output", "reason", "wall_ms", "runs"}` for a row with a program.

    A row with `inputs` (AZR's code_f seeds) is checked on each; its output is their list.
    """
    program = program_of(row)
    if "input" in row or "inputs" not in row:
        verdict = sandbox.check(program, text_field(row, "input"))
    else:
        verdict = _check_all(sandbox, program, text_list(row, "inputs"))
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
    for number, given in enumerate(inputs, 1):
        verdict = sandbox.check(program, given)
        wall_ms, runs = max(wall_ms, verdict.wall_ms), runs + verdict.runs
        if verdict.output is None:
            reason = f"input {number}: {verdict.reason}"
            return Verdict(verdict.status, None, reason, wall_ms, runs)
        outputs.append(parse_literal(verdict.output))
    text = canonical(outputs, max_chars=len(inputs) * (2 + sandbox.limits.output_chars) + 2)
    return Verdict(Status.OK, text, "", wall_ms, runs)


@_told
def grade_row(sandbox: Sandbox, row: Row) -> Row:
    """`{"id", "score", "reason", "passed"?, "total"?}` for a row with a task and an answer."""
    kind = text_field(row, "kind")
    if kind not in KINDS:
        raise RecordError(f"unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
    visible = row.get("visible", 0)
    if not isinstance(visible, int) or isinstance(visible, bool):
        raise RecordError("field 'visible' is not a whole number")
    task = Task(
        kind,
        program_of(row) if kind == "code_i" else "",
        output=None if kind == "code_f" else text_field(row, "output"),
        inputs=text_list(row, "inputs"),
        outputs=text_list(row, "outputs"),
        visible=visible,
    )
    grade = sandbox.grade(task, text_field(row, "answer"))
    result: Row = {"id": id_of(row), "score": grade.score, "reason": grade.reason}
    if grade.total is not None:
        result |= {"passed": grade.passed, "total": grade.total}
    return result
