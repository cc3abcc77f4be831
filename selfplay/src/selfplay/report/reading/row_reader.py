"""Rows of a JSON Lines file: strict about what is written, at ease with a torn last line."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.errors import RunDirectoryError


@dataclass(frozen=True, slots=True)
class Row:
    """A JSON object and where it stands; every reader names file, line and field when it fails.

    A field that is missing or null reads as None or empty: runs may be older than the reader.
    """

    fields: Mapping[str, Any]
    place: str

    def number(self, name: str) -> float | None:
        """Return a finite number; None where it is missing, null, NaN or infinite."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.mismatch(name, value, "a number")
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None

    def count(self, name: str) -> int:
        """Return a whole number from 0 up; 0 where it is missing."""
        value = self.number(name)
        if value is None:
            return 0
        if value < 0 or value != int(value):
            raise self.mismatch(name, self.fields[name], "a whole number from 0 up")
        return int(value)

    def text(self, name: str) -> str | None:
        """Return a text; None where it is missing or null."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self.mismatch(name, value, "a text")
        return value

    def items(self, name: str) -> list[Any]:
        """Return a list; empty where it is missing or null."""
        value = self.fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.mismatch(name, value, "a list")
        return value

    def section(self, name: str) -> "Row":
        """Return the object in a field; an empty one where it is missing or null."""
        return self._inner(name, self.fields.get(name))

    def sections(self, name: str) -> dict[str, "Row"]:
        """Return the objects in the fields of an object."""
        inner = self.section(name)
        return {key: inner.section(key) for key in inner.fields}

    def rows(self, name: str) -> list["Row"]:
        """Return the objects in a list."""
        return [self._inner(f"{name}[{i}]", item) for i, item in enumerate(self.items(name))]

    def numbers(self) -> dict[str, float]:
        """Return the fields that hold finite numbers."""
        found = {
            name: self.number(name)
            for name, value in self.fields.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        return {name: value for name, value in found.items() if value is not None}

    def mismatch(self, name: str, found: object, expected: str) -> RunDirectoryError:
        """Return the error for a field that holds something else."""
        shown = repr(found)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return RunDirectoryError(f"{self.place}: field {name!r} is {shown}; expected {expected}")

    def _inner(self, name: str, value: object) -> "Row":
        if value is None:
            return Row({}, self.place)
        if not isinstance(value, dict):
            raise self.mismatch(name, value, "an object")
        return Row(value, f"{self.place}, in {name!r}")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file.

    A last line without its line end was torn by a kill: it is kept if it can be read and dropped if
    not. Any other line that is not a JSON object raises `RunDirectoryError` with file and line.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                row = _read_row(line, f"{path}, line {number}")
                if row is not None:
                    yield row
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror or error}") from error


def _read_row(line: bytes, place: str) -> Row | None:
    torn = not line.endswith(b"\n")
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        if torn:
            return None
        shown = line.strip()[:40].decode("utf-8", "replace")
        raise RunDirectoryError(
            f"{place}: expected one JSON object a line, found {shown!r}; the file is damaged: "
            "restore it from a copy, or cut it off before this line"
        ) from error
    if not isinstance(value, dict):
        if torn:
            return None
        raise RunDirectoryError(f"{place}: expected a JSON object, found {type(value).__name__}")
    return Row(value, place)
