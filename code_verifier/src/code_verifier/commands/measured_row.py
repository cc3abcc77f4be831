"""One row of a file measured. A row that cannot be used raises RecordError."""

import math
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from code_verifier.errors import ProgramError
from code_verifier.metrics.diversity import traits
from code_verifier.metrics.measurement import Metrics, measure
from code_verifier.rows.fields import Row, id_of, program_of

PROGRAM = "_program"
"""The key under which a result carries its program's text, where asked."""
CARRIED = ("step", "kind", "teacher", "student", "member")
"""Fields that pass from a row to its result."""


def measure_row(row: Row, keep: bool = False) -> Row:
    """`{"id", "step"?, ..., "ast_depth", ...}`, or `{"id", "error"}` for what does not parse."""
    found = _described(row, measure, keep)
    return {"id": id_of(row)} | {name: row[name] for name in CARRIED if name in row} | found


def traits_row(row: Row) -> Row:
    """The traits of a row's program and the program, or `{"error"}`."""
    return _described(row, traits, keep=True)


def _described(row: Row, describe: Callable[[str], Any], keep: bool) -> Row:
    program = program_of(row)
    try:
        found: Row = asdict(describe(program))
    except ProgramError as error:
        return {"error": str(error)}
    return found | {PROGRAM: program} if keep else found


def metrics_of(result: Row) -> Metrics | None:
    """The Metrics in a result of `measure_row`, if it has any."""
    if "structure" not in result:
        return None
    return Metrics(**{field.name: result[field.name] for field in fields(Metrics)})


def step_of(result: Row) -> float | None:
    """The step that a row carries, if it is a number."""
    step: Any = result.get("step")
    usable = isinstance(step, int | float) and not isinstance(step, bool) and math.isfinite(step)
    return float(step) if usable else None
