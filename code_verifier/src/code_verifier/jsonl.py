"""JSON Lines in and out: one object a line, from any file that a user may give.

Memory stays bounded whatever a file holds. Finished results survive every end: rows go to
`OUT.part`, each at once, which takes the name `OUT` when the work ends, also with an error or an
interrupt or a full disk. Only a killed process leaves `OUT.part` behind.
"""

import gzip
import io
import json
import os
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from code_verifier.errors import CodeVerifierError

MAX_LINE = 8 * 2**20
"""Bytes of the longest line that is read; ten times what the default limits let through."""

Row = dict[str, Any]


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a JSON Lines file with their line numbers, from 1; blank lines are
    passed over, `-` is standard input, gzip is unpacked whatever the name. Raises CodeVerifierError
    for a file or a line that cannot be read, OSError.
    """
    name = "standard input" if str(path) == "-" else str(path)
    if path.is_dir():
        raise CodeVerifierError(f"{path} is a folder; expected a JSON Lines file")
    opened: Any = _standard_input() if str(path) == "-" else path.open("rb")
    with opened as raw:
        number = 0
        try:
            file: Any = raw
            if file.peek(2).startswith(b"\x1f\x8b"):
                file = gzip.GzipFile(fileobj=raw, mode="rb")
            while line := file.readline(MAX_LINE + 1):
                number += 1
                try:
                    row = _parsed(line)
                except CodeVerifierError as error:
                    raise CodeVerifierError(
                        f"{name}, line {number}: {error}; expected one JSON object a line"
                    ) from None
                if row is not None:
                    yield number, row
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CodeVerifierError(
                f"{name}, line {number + 1}: broken gzip data ({error})"
            ) from None


@contextmanager
def _standard_input() -> Iterator[Any]:
    reader = io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
    try:
        yield reader
    finally:
        reader.detach()


def _parsed(line: bytes) -> Row | None:
    """The object of one line, None for a blank one. Raises CodeVerifierError."""
    if len(line) > MAX_LINE:
        raise CodeVerifierError(f"longer than {MAX_LINE} bytes")
    try:
        text = line.decode("utf-8-sig")
        if not text.strip():
            return None
        row = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        why = f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
    except json.JSONDecodeError as error:
        why = f"not JSON ({error.msg}, column {error.colno})"
    except RecursionError:
        why = "nested too deep"
    except ValueError as error:
        why = f"not usable JSON ({error})"
    else:
        if isinstance(row, dict):
            return row
        why = f"found {type(row).__name__}"
    raise CodeVerifierError(why)


def _object(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {twice[:60]!r} appears twice")
    return row


@contextmanager
def open_results(path: Path, sources: Sequence[Path]) -> Iterator[Callable[[Row], None]]:
    """Open the results of reading `sources`, and yield the function that writes one row, whole.

    `-` is standard output; a device is written directly. Raises CodeVerifierError, OSError.
    """
    if str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        with nullcontext(sys.stdout.buffer) if str(path) == "-" else path.open("wb", 0) as file:
            yield lambda row: _write(cast(BinaryIO, file), row, path)
        return
    part = path.with_name(f"{path.name}.part")
    check_output(path, sources)
    check_output(part, sources)
    with part.open("wb", 0) as file:

        def write(row: Row) -> None:
            whole = file.tell()
            try:
                _write(cast(BinaryIO, file), row, part)
            except BaseException:  # a full disk: no part of a row stays
                file.truncate(whole)
                raise

        try:
            yield write
        except BaseException:
            if os.fstat(file.fileno()).st_size:
                _finish(file, part, path)
            else:
                part.unlink()
            raise
        _finish(file, part, path)


def check_output(path: Path, sources: Iterable[Path] = ()) -> None:
    """Raise CodeVerifierError when no file can be written at `path`, before the work begins, or
    when it would take the place of one of `sources`."""
    if path.is_dir() or not path.parent.is_dir():
        reason = f"there is no folder {path.parent}; type: mkdir -p {shlex.quote(str(path.parent))}"
        reason = "it is a folder; name a file" if path.is_dir() else reason
        raise CodeVerifierError(f"cannot write {path}: {reason}")
    for source in sources if path.exists() else ():
        with suppress(OSError):  # a source that is gone cannot be overwritten
            if path.samefile(source):
                raise CodeVerifierError(f"{path} is the input itself; name another file to write")


def _write(file: BinaryIO, row: Row, path: Path) -> None:
    data = memoryview((json.dumps(row) + "\n").encode())
    try:
        while data:
            data = data[file.write(data) or 0 :]
        file.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _finish(file: Any, part: Path, path: Path) -> None:
    os.fsync(file.fileno())
    os.replace(part, path)
