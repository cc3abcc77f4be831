"""JSON Lines in and out: rows with line numbers, and an output file that is whole or absent."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from code_verifier.errors import RecordError

MAX_LINE = 64 * 2**20

Row = dict[str, Any]


class RowError(RecordError):
    """A line of a JSON Lines file cannot be used."""


def read_rows(file: BinaryIO, name: str, skip: Callable[[str], None] | None) -> Iterator[Row]:
    """The objects of a JSON Lines file, one at a time, each with its line number as `_line`.

    Blank lines are passed over. A bad line raises RowError, or is told to `skip` and left out.
    """
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        try:
            row = _row(line, f"{name}, line {number}", file)
        except RowError as error:
            if skip is None:
                raise
            skip(str(error))
            continue
        if row is not None:
            row["_line"] = number
            yield row


def _row(line: bytes, place: str, file: BinaryIO) -> Row | None:
    if len(line) > MAX_LINE:
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        raise RowError(f"{place}: longer than {MAX_LINE} bytes")
    if not line.strip():
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"{place}: not JSON ({error}); expected one object a line") from None
    if not isinstance(row, dict):
        raise RowError(f"{place}: found {type(row).__name__}, expected a JSON object")
    return row


def text_field(row: Row, *names: str) -> str:
    """The first of the named fields that the row has; it must be a text."""
    for name in names:
        if row.get(name) is not None:
            if not isinstance(row[name], str):
                kind = type(row[name]).__name__
                raise RecordError(f"field {name!r} is of type {kind}; expected a text")
            return str(row[name])
    raise RecordError(f"field {names[0]!r} is missing; found {', '.join(_shown(row)) or 'nothing'}")


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


def id_of(row: Row) -> Any:
    """The row's `id`, or its line number."""
    return row["id"] if "id" in row else row["_line"]


@contextmanager
def writer(path: Path) -> Iterator[Callable[[Row], None]]:
    """Write rows to `path`: a temporary file takes its name when done.

    Rows written before another error are kept. When the disk fails, `path` stays as it was.
    A device or pipe (such as /dev/stdout) is written to directly.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise RecordError(f"cannot write {path}: {what}; give --out a file in a folder that exists")
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as device:
            yield lambda row: print(json.dumps(row), file=device)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    failed = False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:

            def write(row: Row) -> None:
                nonlocal failed
                try:
                    file.write(json.dumps(row) + "\n")
                except OSError:
                    failed = True
                    raise

            try:
                yield write
            finally:
                if not failed:
                    failed = True
                    file.flush()
                    os.fsync(file.fileno())
                    os.chmod(temporary, 0o666 & ~_umask())
                    os.replace(temporary, path)
                    failed = False
    finally:
        if failed:
            Path(temporary).unlink(missing_ok=True)


def _shown(row: Row) -> list[str]:
    return [name for name in row if name != "_line"][:8]


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
