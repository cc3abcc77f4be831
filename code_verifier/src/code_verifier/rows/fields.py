"""The fields of one row: texts, lists, numbers, programs, ids. Every function raises RecordError,
one line: the field, what was found and what was expected."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from code_verifier.errors import RecordError

Row = dict[str, Any]


def text_field(row: Mapping[str, Any], *names: str) -> str:
    """The first of the named fields that the row has; it must be a text."""
    for name in names:
        text = text_or_none(row, name)
        if text is not None:
            return text
    raise _missing(row, names, "a text")


def text_or_none(row: Mapping[str, Any], name: str) -> str | None:
    """A field that is a text; missing is null."""
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordError(f"field {name!r} is of type {type(value).__name__}; expected a text")
    return value


def text_list(row: Mapping[str, Any], name: str, required: bool = False) -> tuple[str, ...]:
    """A field that is a list of texts; missing is empty, where it may be."""
    value = row.get(name)
    if value is None and required:
        raise _missing(row, [name], "a list of texts")
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        raise RecordError(f"field {name!r} is of type {kind}; expected a list of texts")
    for place, item in enumerate(value, 1):
        if not isinstance(item, str):
            kind = type(item).__name__
            raise RecordError(
                f"field {name!r} has a {kind} as item {place}; expected a list of texts"
            )
    return tuple(value)


def whole_number(row: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number; missing is 0."""
    value = row.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        kind = type(value).__name__
        raise RecordError(f"field {name!r} is of type {kind}; expected a whole number")
    return value


def program_of(row: Mapping[str, Any], required: bool = True) -> str:
    """The program of a row: `program`, or AZR's `snippet` with its `imports` in front."""
    program = text_or_none(row, "program")
    if program is not None:
        return program
    if not required and row.get("snippet") is None:
        return ""
    snippet = text_field(row, "program", "snippet")
    lines = {line.strip() for line in snippet.splitlines()}
    missing = [line for line in text_list(row, "imports") if line.strip() not in lines]
    return "\n".join([*missing, snippet])


def id_of(row: Mapping[str, Any]) -> str | int | float | None:
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


def _missing(row: Mapping[str, Any], names: Iterable[str], expected: str) -> RecordError:
    wanted = " or ".join(map(repr, names))
    shown = ", ".join([repr(name[:40]) for name in row if name != "_line"][:8])
    return RecordError(
        f"field {wanted} is missing; found {shown or 'nothing'}; expected {expected}"
    )
