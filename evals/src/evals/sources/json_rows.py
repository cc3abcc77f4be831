"""Objects of a JSON array or of JSON Lines, compressed or not, told apart by content."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.errors import EvalsError
from evals.sources.source import Row

_GZIP = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises EvalsError when there is no such file or it cannot be read."""
    if path.is_dir():
        raise EvalsError(f"{path} is a folder; name a file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise EvalsError(f"there is no file {path}") from None
    except OSError as error:
        raise EvalsError(f"cannot read {path}: {error.strerror or error}") from None


def parse_rows(data: bytes, place: str) -> list[Row]:
    """The objects in `data`: a JSON array of them, one object, or one on each line.

    place: what errors call it. Raises EvalsError, with the line, for anything else.
    """
    text = _text(data, place)
    if text.lstrip().startswith("["):
        rows = _parse(text, place)
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                raise EvalsError(f"{place}, item {number}: found {kind(row)}, expected an object")
        return list(rows)
    return list(_lines(text, place))


def parse_object(line: bytes, place: str) -> Row:
    """The object of one line. place: what errors call it. Raises EvalsError for anything else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{place}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise EvalsError(f"{place}: found {kind(row)}, expected an object")
    return row


def kind(value: Any) -> str:
    """What JSON calls a value, for messages."""
    names = {dict: "an object", list: "an array", str: "a text", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")


def _lines(text: str, place: str) -> Iterator[Row]:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        here = f"{place}, line {number}"
        try:
            row = _parse(line, here)
        except EvalsError:
            whole = _one_object(text) if number == 1 else None
            if whole is not None:
                yield whole
                return
            if number == len(lines):
                raise EvalsError(
                    f"{here}: the file ends inside this row; it was cut: fetch or write it again"
                ) from None
            raise
        if not isinstance(row, dict):
            raise EvalsError(f"{here}: found {kind(row)}, expected an object a line")
        yield row


def _one_object(text: str) -> Row | None:
    """A whole file that is one object over several lines."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(data: bytes, place: str) -> str:
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise EvalsError(f"{place}: broken gzip ({error}); fetch it again") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvalsError(
            f"{place}: neither JSON nor gzip nor parquet (byte {error.start} is not UTF-8)"
        ) from None
    if not text.strip():
        raise EvalsError(f"{place} is empty; expected JSON Lines or a JSON array")
    return text


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise EvalsError(f"{place}: nested too deeply to be read") from None
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise EvalsError(f"{place}: not JSON ({reason}); expected JSON Lines or an array") from None
