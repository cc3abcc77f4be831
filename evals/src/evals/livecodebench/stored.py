"""Rows of LiveCodeBench on disk: JSON Lines or parquet, one file or a folder of shards.

A release holds gigabytes of hidden tests, so one row is in memory at a time, and its hidden tests
are read again when they are needed. Parquet can be read in its order only, and a row group at a
time: what it hides goes to a file without a name below the user's cache, gone with the process.
"""

import hashlib
import json
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from evals.errors import EvalsError, first_line, optional
from evals.evalplus.grader import reference_cache
from evals.sources import as_json, parse_object

HIDDEN = "private_test_cases"
_PARQUET = b"PAR1"
_SHARD = re.compile(r"-\d+-of-(\d+)$")


class Spool:
    """A file without a name, which goes when nothing refers to it. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (the finalizer's)
        self._size = 0
        weakref.finalize(self, self.file.close)

    def add(self, data: bytes) -> int:
        """Append bytes; return where they begin."""
        start, rest = self._size, memoryview(data)
        while rest:
            rest = rest[self.file.write(rest) :]
        self._size += len(data)
        return start


@dataclass(frozen=True)
class StoredRow:
    """Where a line of JSON with hidden tests lies, in bytes."""

    place: Path | Spool
    start: int
    length: int

    def __call__(self) -> str:
        """Return the hidden tests. Raises EvalsError when the file has changed."""
        try:
            if isinstance(self.place, Spool):
                data = os.pread(self.place.file.fileno(), self.length, self.start)
            else:
                with self.place.open("rb") as file:
                    data = os.pread(file.fileno(), self.length, self.start)
            return str(json.loads(data).get(HIDDEN) or "")
        except (OSError, ValueError, AttributeError) as error:
            raise EvalsError(f"{self.place} has changed since it was read: {error}") from None


def on_disk(path: Path) -> bool:
    """Whether rows are read from there one by one; what cannot be opened is for other readers."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"{", _PARQUET))
    except IsADirectoryError:
        return True
    except OSError:
        return False


def shards(path: Path) -> list[Path]:
    """Return the files of a folder in their order, or the file. Raises EvalsError."""
    if not path.is_dir():
        return [path]
    files = [file for file in path.iterdir() if file.suffix in (".parquet", ".jsonl")]
    if not files:
        raise EvalsError(
            f"{path} holds no *.parquet and no *.jsonl; give the folder of one release"
        )
    totals = {int(match[1]) for file in files if (match := _SHARD.search(file.stem))}
    if totals and totals != {len(files)}:
        wanted = " and ".join(map(str, sorted(totals)))
        raise EvalsError(f"{path} holds {len(files)} shards of {wanted}; fetch the whole release")
    return sorted(files, key=lambda file: (len(file.name), file.name))


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and SHA-256 of a folder's shards."""
    found = {}
    for shard in shards(path):
        with shard.open("rb") as file:
            found[shard.name] = hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return f"sha256 of the file: {found[path.name]}"
    lines = "".join(f"{digest}  {name}\n" for name, digest in found.items())
    return f"sha256 of {len(found)} files: {hashlib.sha256(lines.encode()).hexdigest()}"


def stored_rows(path: Path) -> Iterator[tuple[Mapping[str, Any], str | StoredRow]]:
    """Yield each row, and where its hidden tests are. Raises EvalsError."""
    spool = None
    for shard in shards(path):
        try:
            with shard.open("rb") as file:
                packed = file.read(4) == _PARQUET
                if not packed:
                    file.seek(0)
                    yield from _lines(file, shard)
            if packed:
                spool = spool or Spool(reference_cache())
                yield from _parquet(shard, spool)
        except OSError as error:
            where = f" (hidden tests are kept below {reference_cache()})" if spool else ""
            why = error.strerror or first_line(error)
            raise EvalsError(f"cannot read {shard}{where}: {why}") from None


def _lines(file: BinaryIO, shard: Path) -> Iterator[tuple[Mapping[str, Any], str | StoredRow]]:
    start = 0
    for number, line in enumerate(file, 1):
        if line.strip():
            row = parse_object(line, f"{shard}, line {number}")
            yield row, StoredRow(shard, start, len(line)) if row.get(HIDDEN) else ""
        start += len(line)


def _parquet(shard: Path, spool: Spool) -> Iterator[tuple[Mapping[str, Any], str | StoredRow]]:
    parquet = optional("pyarrow.parquet", f"to read parquet ({shard})")
    arrow = optional("pyarrow", f"to read parquet ({shard})")
    try:
        with parquet.ParquetFile(shard, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=1, use_threads=False):
                for row in map(as_json, batch.to_pylist()):
                    line = json.dumps({HIDDEN: row.pop(HIDDEN, None)}).encode()
                    yield row, StoredRow(spool, spool.add(line), len(line))
    except arrow.ArrowException as error:
        raise EvalsError(f"{shard}: broken parquet ({first_line(error)})") from None
