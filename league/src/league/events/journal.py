"""The append-only event log: one JSON object a line, whole lines only."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from league.basics.errors import LeagueError, UnreadableLeague
from league.events.files import canonical

_BLOCK = 1 << 20


class LogReader:
    """Goes through a log once, line by line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.position = 0
        """How many bytes have been read."""
        self.torn_bytes = 0
        """Length of a last line without its line feed, known at the end. A crash left it behind,
        or, where the file is only read, another process is writing it just now."""
        self.hash = hashlib.blake2b(digest_size=16)
        """Of all that was read."""
        self._stream = stream

    def skip(self, length: int) -> bool:
        """Read so many bytes without looking at them; False if the log is shorter."""
        while block := self._stream.read(min(_BLOCK, length - self.position)):
            self._advance(block)
        return self.position == length

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines from here on."""
        for line in self._stream:
            if not line.endswith(b"\n"):
                self.torn_bytes = len(line)
                return
            self._advance(line)
            yield line

    def _advance(self, content: bytes) -> None:
        self.hash.update(content)
        self.position += len(content)


class Journal:
    """The log of one open league, after all of it has been read."""

    def __init__(self, path: Path, read: LogReader, writable: bool) -> None:
        self.path = path
        self.byte_length = read.position
        """Length of the whole lines."""
        self.hash = read.hash
        """Of all whole lines."""
        self._handle: int | None = None
        if writable:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            if read.torn_bytes:
                os.ftruncate(self._handle, self.byte_length)

    @property
    def writable(self) -> bool:
        """Whether events can be appended."""
        return self._handle is not None

    def append(self, event: dict[str, Any], sync: bool = False) -> None:
        """Write one event, all of it or nothing, and hand it to the operating system.

        sync: and wait until it and all before it are on the disk.
        """
        if self._handle is None:
            raise LeagueError(f"{self.path.parent} is open for reading only; nothing was changed")
        line = canonical(event)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._handle, line[written:])
            if sync:
                os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self.byte_length)
            raise LeagueError(f"cannot append to {self.path}: {error}; nothing changed") from error
        self.byte_length += len(line)
        self.hash.update(line)

    def sync(self) -> None:
        """Force the log to the disk."""
        if self._handle is not None:
            os.fsync(self._handle)

    def close(self) -> None:
        """Sync and close; harmless when called again."""
        if self._handle is not None:
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None


def read_events(path: Path, length: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the whole events of a log that is only read, or those in its first `length` bytes.

    Raises UnreadableLeague if it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            read = LogReader(stream)
            for number, line in enumerate(read.lines(), 1):
                if length is not None and read.position > length:
                    return
                yield parse(line, f"{path} line {number}")
    except OSError as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error


def parse(line: bytes, where: str) -> dict[str, Any]:
    """Return the event in one line; UnreadableLeague names the place otherwise."""
    try:
        event = json.loads(line)
    except ValueError as error:
        raise UnreadableLeague(f"{where} is not JSON: {error}") from error
    if not isinstance(event, dict):
        raise UnreadableLeague(f"{where} is not a JSON object")
    return event
