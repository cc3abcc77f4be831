"""JSON Lines files of a run: rows go in whole, and come out typed or not at all."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from selfplay.errors import RunDirectoryError

T = TypeVar("T", bound=msgspec.Struct)


def append_rows(path: Path, rows: Iterable[msgspec.Struct]) -> None:
    """Append rows and wait until they are on disk."""
    plain = (msgspec.to_builtins(row) for row in rows)
    text = "".join(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n" for row in plain)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the rows of a file; a file that is not there has none.

    Fields that a row lacks take their defaults, fields that its type lacks are passed over: runs
    may be older or newer than the reader. A last line without its line end was torn by a kill: it
    is kept if it can be read and dropped if not. Any other line that is no such row raises
    RunDirectoryError with file, line and field.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = msgspec.convert(json.loads(line, parse_constant=_unknown), kind)
                except msgspec.ValidationError as error:
                    if line.endswith(b"\n"):
                        raise RunDirectoryError(f"{path}, line {number}: {_told(error)}") from error
                except (ValueError, RecursionError) as error:
                    if line.endswith(b"\n"):
                        shown = line.strip()[:40].decode("utf-8", "replace")
                        raise RunDirectoryError(
                            f"{path}, line {number}: expected one JSON object a line, found "
                            f"{shown!r}; the file is damaged: restore it from a copy, or cut it "
                            "off before this line"
                        ) from error
                else:
                    yield row
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror or error}") from error


def _unknown(constant: str) -> None:
    """Read NaN and infinities, which JSON does not know, as no number."""


def _told(error: msgspec.ValidationError) -> str:
    """Turn `Expected int, got str - at $.rho[0]` into `field rho[0]: expected int, got str`."""
    what, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    return f"{f'field {field}: ' if field else ''}{what[:1].lower()}{what[1:]}"
