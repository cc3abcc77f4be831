"""The append-only event log: one JSON object a line, whole lines only."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from league.errors import LeagueError, UnreadableLeague
from league.files import canonical


class Journal:
    """The log of one league.

    found: the whole lines that were there on opening. A last line without its line feed is what
    a crash left behind: it is kept out of it, and cut off if `writable`. byte_length counts whole
    lines only. Where the file is only read, another process may be appending: then the torn line
    is one being written.
    """

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UnreadableLeague(f"cannot read {path}: {error}") from error
        self.byte_length = content.rfind(b"\n") + 1
        self.torn_bytes = len(content) - self.byte_length
        self._hash = hashlib.blake2b(content[: self.byte_length], digest_size=16)
        self.found = content[: self.byte_length]
        self._handle: int | None = None
        if writable:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            if self.torn_bytes:
                os.ftruncate(self._handle, self.byte_length)

    @property
    def digest(self) -> str:
        """Hash of all whole lines."""
        return self._hash.hexdigest()

    def append(self, event: dict[str, Any]) -> None:
        """Write one event, all of it or nothing, and hand it to the operating system."""
        if self._handle is None:
            raise LeagueError(f"{self.path.parent} is open for reading only; nothing was changed")
        line = canonical(event)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except OSError as error:
            os.ftruncate(self._handle, self.byte_length)
            raise LeagueError(f"cannot append to {self.path}: {error}; nothing changed") from error
        self.byte_length += len(line)
        self._hash.update(line)

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


def digest(content: bytes) -> str:
    """Return the hash that a journal of exactly these bytes has."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def parse(line: bytes, where: str) -> dict[str, Any]:
    """Return the event in one line; UnreadableLeague names the place otherwise."""
    try:
        event = json.loads(line)
    except ValueError as error:
        raise UnreadableLeague(f"{where} is not JSON: {error}") from error
    if not isinstance(event, dict):
        raise UnreadableLeague(f"{where} is not a JSON object")
    return event
