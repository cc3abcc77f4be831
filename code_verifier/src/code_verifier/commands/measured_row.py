"""One row of a file measured. A row that cannot be used gives `{"bad_row": why}`."""

import math
from collections.abc import Callable
from dataclasses import asdict, fields

from code_verifier.errors import ProgramError, RecordError
from code_verifier.metrics.measurement import Metrics, measure
from code_verifier.metrics.traits import Traits, traits
from code_verifier.rows.fields import Row, id_of, program_of

PROGRAM = "_program"
"""The key under which a result carries its program's text, where asked."""
CARRIED = ("step", "kind", "teacher", "student", "member")
"""Fields that pass from a row to its result."""
_FIELDS = tuple(field.name for field in fields(Metrics))


def measure_row(row: Row, keep: bool = False) -> Row:
    """`{"id", "step"?, ..., "ast_depth", ...}`, or `{"id", "error"}` for what does not parse."""
    return _described(row, measure, keep, named=True)


def traits_row(row: Row, keep: bool = False) -> Row:
    """The traits of a row's program, or `{"error"}`."""
    return _described(row, traits, keep, named=False)


def _described(
    row: Row, describe: Callable[[str], Metrics | Traits], keep: bool, named: bool
) -> Row:
    result: Row = {}
    try:
        program = program_of(row)
        if named:
            result = {"id": id_of(row)} | {name: row[name] for name in CARRIED if name in row}
        result |= asdict(describe(program))
    except RecordError as error:
        return {"bad_row": f"line {row['_line']}: {error}"}
    except ProgramError as error:
        return result | {"error": str(error)}
    return result | {PROGRAM: program} if keep else result


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
