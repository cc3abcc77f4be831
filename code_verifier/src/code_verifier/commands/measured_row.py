"""One row of a file measured. A row that cannot be used gives `{"bad_row": why}`."""

import math
import os
from dataclasses import asdict, fields

from code_verifier.errors import ProgramError, RecordError
from code_verifier.metrics.measurement import Metrics, measure
from code_verifier.metrics.traits import traits
from code_verifier.rows.fields import Row, id_of, program_of

CPUS = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
PROGRAM = "_program"
"""The key under which a result carries its program's text, where asked."""
CARRIED = ("step", "kind", "teacher", "student", "member")
"""Fields that pass from a row to its result."""
_FIELDS = tuple(field.name for field in fields(Metrics))


def measure_row(row: Row, keep: bool = False) -> Row:
    """`{"id", "step"?, ..., "ast_depth", ...}`, or `{"id", "error"}` for what does not parse."""
    try:
        program = program_of(row)
    except RecordError as error:
        return {"bad_row": f"line {row['_line']}: {error}"}
    result = {"id": id_of(row), **{name: row[name] for name in CARRIED if name in row}}
    try:
        result |= asdict(measure(program))
    except ProgramError as error:
        return result | {"error": str(error)}
    return result | {PROGRAM: program} if keep else result


def traits_row(row: Row, keep: bool = False) -> Row:
    """The traits of a row's program, or `{"error"}`."""
    try:
        program = program_of(row)
        found = asdict(traits(program))
    except ProgramError as error:
        return {"error": str(error)}
    except RecordError as error:
        return {"bad_row": f"line {row['_line']}: {error}"}
    return found | {PROGRAM: program} if keep else found


def metrics_of(result: Row) -> Metrics | None:
    """The Metrics in a result of `measure_row`, if it has any."""
    if "structure" not in result:
        return None
    return Metrics(**{name: result[name] for name in _FIELDS})


def step_of(result: Row) -> float | None:
    """The step that a row carries, if it is a number."""
    step = result.get("step")
    if isinstance(step, bool) or not isinstance(step, int | float):
        return None
    return float(step) if math.isfinite(step) else None
