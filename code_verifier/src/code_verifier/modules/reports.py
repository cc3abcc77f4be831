"""What came of running an ordinary module: its values as data, or the output of a script."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

_NAME_CHARS = 200
_DIGEST_CHARS = 32


class Value(NamedTuple):
    """A returned value. See `values.describe`.

    digest: equal for values that Python holds equal; "" for one that equals nothing.
    text: its literal (and `nan`, `inf`); None when it is no data (`chars` is -1) or too long.
    floats: whether it is a float, or a list or tuple of floats only and not empty.
    """

    type_name: str
    digest: str
    text: str | None
    chars: int
    floats: bool
    cpu_s: float


@dataclass(frozen=True)
class Calls:
    """Values of the calls that returned, in order, and how the process ended.

    ending: `done`; `exception` of call `call` (from 1 on); `module` when the module itself raised
    or lacks the function; `cpu` and `idle` for its time, in call `call` (0: in the module), and
    `total` for that of all calls together;
    `memory`, `crash`, `left` (without a report), `flood`; `fault` when it was our fault.
    """

    values: tuple[Value, ...]
    ending: str
    call: int
    reason: str
    cpu_s: float


@dataclass(frozen=True)
class ScriptRun:
    """Output of a script. ending: `done`, `raised`, or as in `Calls`."""

    output: bytes
    ending: str
    reason: str
    cpu_s: float


def read_report(data: bytes, most: int) -> tuple[list[Value], tuple[str, str] | None]:
    """Values and ending of a child's report of at most `most` values; it may be forged or cut."""
    values: list[Value] = []
    for line in data.split(b"\n"):
        try:
            rows: Any = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(rows, list):
            break
        if len(rows) == 2 and isinstance(rows[0], str) and isinstance(rows[1], str):
            known = rows[0] in ("exception", "module")
            known = known or (rows[0] == "done" and len(values) == most)
            return values, (rows[0], rows[1]) if known else None
        for row in rows:
            value = _value(row)
            if value is None or len(values) == most:
                return values, None
            values.append(value)
    return values, None


def _value(row: Any) -> Value | None:
    if not isinstance(row, list) or len(row) != 6:
        return None
    name, digest, text, chars, floats, spent = row
    plain = isinstance(name, str) and isinstance(digest, str) and isinstance(chars, int)
    if not plain or len(digest) > _DIGEST_CHARS or not isinstance(text, str | None):
        return None
    if not isinstance(spent, int | float) or not math.isfinite(spent):
        return None
    return Value(name[:_NAME_CHARS], digest, text, int(chars), floats is True, float(spent))
