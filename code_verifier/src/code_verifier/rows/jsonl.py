"""JSON Lines in: one object a line, with its line number, from any file a user may give. Memory
stays bounded whatever the file holds: no line over `MAX_LINE` bytes is ever kept."""

import gzip
import io
import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from code_verifier.errors import RecordError
from code_verifier.rows.fields import Row

MAX_LINE = 8 * 2**20
"""Bytes of the longest line that is read; ten times what the default limits let through."""

_CHUNK = 2**20
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"\x00{", b"{\x00")


class RowError(RecordError):
    """A line of a JSON Lines file cannot be used."""


class FileError(RecordError):
    """A whole file cannot be used, or cannot be trusted: no line can be skipped to mend it."""


class RowFile:
    """The rows of an open file; `name` is what errors call it."""

    def __init__(self, raw: BinaryIO, name: str, path: Path | None) -> None:
        self.name = name
        self._raw = raw
        self._path = path
        self._start = os.fstat(raw.fileno()) if path is not None else None
        self._file = _decoded(raw, name)

    def rows(self, skip: Callable[[str], None] | None) -> Iterator[Row]:
        """The objects, one at a time, each with its line number as `_line`.

        Blank lines are passed over. A bad line raises RowError, or goes to `skip` and is left
        out. A regular file that changes while it is read raises FileError at the end.
        """
        number = 0
        while line := self._line(MAX_LINE + 1, number + 1):
            number += 1
            try:
                row = self._row(line, f"{self.name}, line {number}", number)
            except RowError as error:
                if skip is None:
                    self._check_unchanged(str(error))
                    raise
                skip(str(error))
                continue
            if row is not None:
                row["_line"] = number
                yield row
            if self._start is not None and self._raw.tell() > self._start.st_size:
                break
        self._check_unchanged()

    def count_lines(self) -> int | None:
        """The number of lines, or None when it takes more than a quick look to know."""
        if self._start is None or self._path is None or self._file is not self._raw:
            return None
        with self._path.open("rb") as file:
            count, last = 0, b"\n"
            while chunk := file.read(_CHUNK):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
        return count + (last != b"\n")

    def _line(self, limit: int, number: int) -> bytes:
        try:
            return self._file.readline(limit)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileError(f"{self.name}, line {number}: broken gzip data ({error})") from None

    def _row(self, line: bytes, place: str, number: int) -> Row | None:
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = self._line(_CHUNK, number)
            raise RowError(f"{place}: longer than {MAX_LINE} bytes; expected one task a line")
        return parse_row(line, place)

    def _check_unchanged(self, after: str = "") -> None:
        if self._start is None or self._path is None:
            return
        before, now = self._start, os.fstat(self._raw.fileno())
        try:
            replaced = not os.path.samestat(os.stat(self._path), before)
        except OSError:
            replaced = True
        if replaced:
            what = "was replaced or removed"
        elif now.st_size != before.st_size:
            what = f"went from {before.st_size} to {now.st_size} bytes"
        elif now.st_mtime_ns != before.st_mtime_ns:
            what = "was written to"
        else:
            return
        raise FileError(
            f"{self.name} {what} while it was read{f' ({after})' if after else ''}; "
            "finished results are kept: run again when the file is complete"
        )


@contextmanager
def open_rows(path: Path) -> Iterator[RowFile]:
    """A JSON Lines file, `-` for standard input; gzip is unpacked, whatever the name."""
    if str(path) == "-":
        stdin = io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
        try:
            yield RowFile(cast(BinaryIO, stdin), "standard input", None)
        finally:
            stdin.detach()
        return
    if path.is_dir():
        raise FileError(f"{path} is a folder; expected a JSON Lines file")
    with path.open("rb") as raw:
        regular = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
        yield RowFile(cast(BinaryIO, raw), str(path), path if regular else None)


def parse_row(line: bytes, place: str) -> Row | None:
    """The object of one line, None for a blank one. Raises RowError that begins with `place`."""
    try:
        text = line.decode("utf-8")
        if not text.strip():
            return None
        row = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        why = f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
    except json.JSONDecodeError as error:
        null = ", and it holds null bytes" if b"\x00" in line else ""
        why = f"not JSON ({error.msg}, column {error.colno}{null})"
    except RecursionError:
        why = "nested too deep"
    except ValueError as error:
        why = f"not usable JSON ({error})"
    else:
        if isinstance(row, dict):
            return row
        why = f"found {type(row).__name__}"
    raise RowError(f"{place}: {why}; expected one JSON object a line")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"the field {twice[:60]!r} appears twice")
    return found


def _decoded(raw: BinaryIO, name: str) -> BinaryIO:
    """The file behind gzip and a byte order mark, if it has them."""
    file: Any = raw
    try:
        if file.peek(2).startswith(b"\x1f\x8b"):
            file = gzip.GzipFile(fileobj=raw, mode="rb")
        head = file.peek(4)[:4]
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{name}: cannot be read ({error})") from None
    if head.startswith(b"\xef\xbb\xbf"):
        file.read(3)
    elif head[:2] in _UTF16:
        raise FileError(
            f"{name} is UTF-16 text; expected UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`"
        )
    return cast(BinaryIO, file)
