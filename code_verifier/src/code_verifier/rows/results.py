"""JSON Lines out: finished rows survive every end, and the named file is never half written.

Rows go to `OUT.part`, each at once, and the file takes the name `OUT` when the work ends, also
with an error or an interrupt. Only a killed process or a full disk leaves `OUT.part` behind;
`resume` goes on from it, or else from `OUT`.
"""

import json
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from code_verifier.errors import RecordError
from code_verifier.rows.fields import Row
from code_verifier.rows.jsonl import parse_row

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # a system without file locks: two runs into one file are not noticed
    flock = None  # type: ignore[assignment]


class ResultFile:
    """Where the rows go. `kept` are the bytes of rows that an earlier run finished."""

    def __init__(self, file: BinaryIO, place: str, kept: Path | None = None) -> None:
        self.written = 0
        self.failed = False
        self._file = file
        self._place = place
        self._kept = kept

    def write(self, row: Row) -> None:
        """Write one row, whole, before anything else happens."""
        self.write_bytes((json.dumps(row) + "\n").encode())

    def write_bytes(self, data: bytes | memoryview) -> None:
        """Write all of it."""
        data = memoryview(data)
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
            self._file.flush()
        except OSError as error:
            self.failed = True
            raise OSError(error.errno, error.strerror, self._place) from None
        self.written += 1

    def kept(self) -> Iterator[Row]:
        """The rows of the earlier run, in order. Raises RecordError when one is broken."""
        if self._kept is None:
            return
        with self._kept.open("rb") as file:
            for number, line in enumerate(file, 1):
                row = parse_row(line, f"{self._kept}, line {number}")
                if row is None or "id" not in row:
                    raise RecordError(f"{self._kept}, line {number}: not a row of results")
                yield row


@contextmanager
def open_results(
    path: Path,
    source: Path | None = None,
    resume: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[ResultFile]:
    """The results of reading `source`; `-` is standard output, a device is written directly."""
    if str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        if resume:
            raise RecordError(f"cannot resume {path}: it is no file; leave --resume out")
        device = nullcontext(sys.stdout.buffer) if str(path) == "-" else path.open("wb", 0)
        with device as file:
            yield ResultFile(cast(BinaryIO, file), str(path))
        return
    _check_target(path, source)
    part = _part(path)
    with _locked(part, path) as file:
        copied = False
        if resume:
            copied = _take_over(file, part, path)
        elif os.fstat(file.fileno()).st_size:
            note(f"note: {part} of a run that was killed is dropped; --resume would go on from it")
            file.truncate(0)
        earlier_size = os.fstat(file.fileno()).st_size
        results = ResultFile(file, str(part), part if earlier_size else None)
        try:
            yield results
        except BaseException:
            if not results.failed:
                if results.written:
                    _finish(file, part, path)
                elif copied or not earlier_size:
                    part.unlink(missing_ok=True)
            raise
        _finish(file, part, path)


def save_text(text: str, path: Path) -> None:
    """Write a text to `path`, where it is whole or absent. Raises RecordError, OSError."""
    with open_results(path) as results:
        results.write_bytes(text.encode("utf-8", "backslashreplace"))


def _check_target(path: Path, source: Path | None) -> None:
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise RecordError(f"cannot write {path}: {what}; give --out a file in a folder that exists")
    if path.suffix == ".gz":
        raise RecordError(f"cannot write {path}: output is not compressed; leave .gz out")
    for target in (path, _part(path)):
        if source and target.exists() and source.exists() and os.path.samefile(target, source):
            raise RecordError(f"{target} is the input itself; give --out another name")


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


@contextmanager
def _locked(part: Path, path: Path) -> Iterator[BinaryIO]:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(part, flags, 0o666), "r+b", buffering=0) as file:
        if flock is not None:
            try:
                flock(file.fileno(), LOCK_EX | LOCK_NB)
                ours = os.path.samestat(os.fstat(file.fileno()), os.stat(part))
            except (BlockingIOError, FileNotFoundError):
                ours = False
            if not ours:
                raise RecordError(f"another run is writing {path}; wait for it, or choose another")
        yield cast(BinaryIO, file)


def _take_over(file: BinaryIO, part: Path, path: Path) -> bool:
    """Fill the part with what is finished, up to the last whole line; whether `path` has it."""
    copied = not os.fstat(file.fileno()).st_size and path.exists()
    if copied:
        shutil.copyfile(path, part)
    if os.fstat(file.fileno()).st_size:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = data.rfind(b"\n") + 1
        file.truncate(end)
    return copied


def _finish(file: BinaryIO, part: Path, path: Path) -> None:
    os.fsync(file.fileno())
    os.replace(part, path)
