"""The fields of one row: programs, texts, lists, ids, tasks."""

import math
from typing import Any

from code_verifier.errors import RecordError
from code_verifier.tasks.records import KINDS, Task

Row = dict[str, Any]


def text_field(row: Row, *names: str) -> str:
    """The first of the named fields that the row has; it must be a text."""
    for name in names:
        if row.get(name) is not None:
            if not isinstance(row[name], str):
                kind = type(row[name]).__name__
                raise RecordError(f"field {name!r} is of type {kind}; expected a text")
            return str(row[name])
    expected = " or ".join(repr(name) for name in names)
    raise RecordError(f"field {expected} is missing; found {', '.join(_shown(row)) or 'nothing'}")


def text_list(row: Row, name: str) -> tuple[str, ...]:
    """A field that is a list of texts; missing is empty."""
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RecordError(f"field {name!r} is not a list of texts")
    return tuple(value)


def program_of(row: Row) -> str:
    """The program of a row: `program`, or AZR's `snippet` with its `imports` in front."""
    if row.get("program") is not None:
        return text_field(row, "program")
    snippet = text_field(row, "program", "snippet")
    lines = {line.strip() for line in snippet.splitlines()}
    missing = [line for line in text_list(row, "imports") if line.strip() not in lines]
    return "\n".join([*missing, snippet])


def task_of(row: Row) -> Task:
    """The task of a row with `kind` and what an answer of this kind is judged by.

    code_o: `output`. code_i: `program` (or `snippet` and `imports`) and `output`. code_f:
    `inputs`, `outputs`, and `visible`, the number of leading pairs that are not judged (0).
    """
    kind = text_field(row, "kind")
    if kind not in KINDS:
        raise RecordError(f"unknown kind {kind[:60]!r}; expected one of {', '.join(KINDS)}")
    visible = row.get("visible")
    if visible is None:
        visible = 0
    if not isinstance(visible, int) or isinstance(visible, bool):
        raise RecordError(f"field 'visible' is of type {type(visible).__name__}; expected a number")
    if kind != "code_f":
        program = program_of(row) if kind == "code_i" else ""
        return Task(kind, program, output=text_field(row, "output"))
    for name in ("inputs", "outputs"):
        if row.get(name) is None:
            raise RecordError(
                f"field {name!r} is missing; found {', '.join(_shown(row)) or 'nothing'}"
            )
    inputs, outputs = text_list(row, "inputs"), text_list(row, "outputs")
    return Task(kind, "", inputs=inputs, outputs=outputs, visible=visible)


def id_of(row: Row) -> str | int | float | bool | None:
    """The row's `id`, or its line number. An id is a text, a finite number or null."""
    if "id" not in row:
        return int(row["_line"])
    found = row["id"]
    if found is None or isinstance(found, str | int):
        return found
    if isinstance(found, float) and math.isfinite(found):
        return found
    kind = type(found).__name__ if not isinstance(found, float) else repr(found)
    raise RecordError(f"field 'id' is of type {kind}; expected a text or a number")


def _shown(row: Row) -> list[str]:
    return [repr(name[:40]) for name in row if name != "_line"][:8]
