"""Storage of a league: its settings, its log of events, and the lock of the one writer.

Each line of the log ends with a hash of itself and of the line before it, and the first line holds
a hash of the settings, so that later changes are found when the league is opened. The bytes depend
only on the events, and not on how often the league was closed and opened.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from league.config import LeagueConfig
from league.errors import LeagueError, LeagueLocked, UnreadableLeague
from league.events import Event, apply, rated
from league.state import State

SETTINGS = "league.json"
EVENTS = "events.jsonl"
LOCK = "league.lock"

SCHEMA = 3


def write_new_league(directory: Path, config: LeagueConfig, event: Event) -> None:
    """Write the files of a new league; it exists when the last one, the settings, is written."""
    values = asdict(config)
    founding = {**event, "settings": _hash(canonical(values))}
    write_atomically(directory / EVENTS, sealed(founding, ""))
    write_atomically(directory / SETTINGS, canonical({"schema": SCHEMA, "config": values}))


class Store:
    """The files of one open league, and its state."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        """A sentence for each repair, and for a lock that cannot be had."""
        self._handle: int | None = None
        self._path = path = directory / EVENTS
        config, self._text, self._seal = read_settings(directory / SETTINGS)
        content = _content(path)
        log = _whole(content)
        if torn := len(content) - len(log):
            # A crash left it behind, or another process is writing it just now.
            self.warnings.append(
                f"{path} ended in an unfinished event of {torn} bytes; it was dropped"
            )
        self._length, self._hash, self.state = len(log), "", State(config)
        for where, event in _checked(log, path, self._seal):
            try:
                apply(self.state, event)
            except KeyError as error:
                lacks = f"{where} lacks {error}, or no line before it has it"
                raise UnreadableLeague(lacks) from error
            except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
                reason = error if isinstance(error, LeagueError) else repr(error)
                raise UnreadableLeague(f"{where}: {reason}") from error
            self._hash = event["hash"]
        if not self.state.events:
            raise UnreadableLeague(f"{path} is empty; expected a founding event")
        if writable:
            binary = getattr(os, "O_BINARY", 0)  # on Windows: no carriage returns
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | binary)
            if torn:
                os.ftruncate(self._handle, self._length)

    def commit(self, event: Event) -> None:
        """Append one checked event to the log, whole or not at all, and apply it to the state.

        A pairing waits until it and the results of earlier rounds are on the disk.
        """
        if self._handle is None:
            raise LeagueError(f"{self.directory} is open for reading only; nothing was changed")
        event = rated(self.state, event)
        line, count = sealed(event, self._hash), 0
        try:
            while count < len(line):
                count += os.write(self._handle, line[count:])
            if event["event"] == "round_paired":
                self.sync()
        except BaseException as error:
            os.ftruncate(self._handle, self._length)
            if not isinstance(error, OSError):
                raise
            reason = f"cannot append to {self._path}: {error}; nothing changed"
            raise LeagueError(reason) from error
        self._length += len(line)
        self._hash = _hash_at_end(line)
        apply(self.state, event)

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place of each event of the present state, and the event."""
        return _checked(self._log(), self._path, self._seal)

    def sync(self) -> None:
        """Force the log to the disk."""
        if self._handle is not None:
            os.fsync(self._handle)

    def copy_to(self, target: Path) -> None:
        """Write the present files into another directory."""
        self.sync()
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / EVENTS, self._log())
        write_atomically(target / SETTINGS, self._text)

    def close(self) -> None:
        """Sync and close; harmless when called again."""
        self.sync()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _log(self) -> bytes:
        return _content(self._path)[: self._length]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableLeague(f"cannot read {path}: {error.strerror}") from error


def _whole(content: bytes) -> bytes:
    """Return a log without the torn end that a killed process, or a power cut (NULs), leaves."""
    log = content[: content.rfind(b"\n") + 1]
    if (nul := log.find(b"\0")) >= 0:
        start = log.rfind(b"\n", 0, nul) + 1
        if b"}\n" not in log[start:]:
            return log[:start]
    return log


def _checked(log: bytes, path: Path, seal: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each line of a log, and its event. Raises UnreadableLeague for a line that
    is damaged, or was changed. seal: the hash of the settings."""
    before = ""
    for number, line in enumerate(log.split(b"\n")[:-1], 1):
        where = f"{path} line {number}"
        try:
            event = json.loads(line.decode())
        except ValueError as error:
            raise UnreadableLeague(f"{where} is not JSON: {error}") from error
        if not isinstance(event, dict):
            raise UnreadableLeague(f"{where} is not a JSON object")
        line += b"\n"
        if _hash(before.encode() + line.rpartition(_HASH)[0]) != _hash_at_end(line):
            raise UnreadableLeague(
                f"{where} does not follow from the line before it: one of them was changed, or "
                "lines were lost or doubled; restore the league from a copy"
            )
        if not before and event.get("settings") != seal:
            raise UnreadableLeague(
                f"{path.with_name(SETTINGS)} was changed after the league was founded; write the "
                "old settings back, or found another league with these"
            )
        before = event["hash"]
        yield where, event


_HASH = b',"hash":"'


def sealed(event: Event, before: str) -> bytes:
    """Return an event as a line that ends with a hash of itself and of the hash before it."""
    body = canonical(event).removesuffix(b"}\n")
    return body + _HASH + _hash(before.encode() + body).encode() + b'"}\n'


def _hash_at_end(line: bytes) -> str:
    return line.rpartition(_HASH)[2].removesuffix(b'"}\n').decode(errors="replace")


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@contextlib.contextmanager
def writer_lock(directory: Path) -> Iterator[list[str]]:
    """Hold the lock of a league's directory; the end of the process releases it, too.

    Yields a sentence, and holds none, where the file system has no locks, and on Windows.
    """
    handle, warnings = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644), []
    with contextlib.ExitStack() as held:
        held.callback(os.close, handle)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.callback(fcntl.flock, handle, fcntl.LOCK_UN)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            raise LeagueLocked(
                f"{directory} is open for writing by process {holder or 'unknown'}; wait until "
                "it ends, or read with League(directory, read_only=True)"
            ) from None
        except (ImportError, OSError):
            warnings = [
                f"{directory} cannot be locked: the file system, or Windows, has no locks; see to "
                "it that no other process writes there"
            ]
        os.ftruncate(handle, 0)
        held.callback(os.ftruncate, handle, 0)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without the name
            os.write(handle, f"{os.getpid()}\n".encode())
        yield warnings


def canonical(data: object) -> bytes:
    """Return one line of JSON, the same for equal data. Raises ValueError for NaN and infinity."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def write_atomically(path: Path, content: bytes, *, alone: bool = True) -> None:
    """Write next to the target, or to that of a link, sync, and rename; on failure the target is
    unchanged.

    alone: no other process writes this file, so that drafts have one name, and the next one
    replaces that of a killed process.
    """
    target = Path(os.path.realpath(path))
    end = ".part" if alone else f".{os.getpid()}.part"
    start = os.fsencode(f".{target.name}")[: 255 - len(end)]  # names have at most 255 bytes
    temporary = target.with_name(os.fsdecode(start) + end)
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a failed write names no file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read_settings(path: Path) -> tuple[LeagueConfig, bytes, str]:
    """Return the settings of a league, the content of their file, and the hash in the first event.
    Raises UnreadableLeague if the file is damaged."""
    content = _content(path)
    try:
        data = json.loads(content)
    except ValueError as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise UnreadableLeague(f"{path} is not a league file: it has no whole-number 'schema'")
    if data["schema"] != SCHEMA:
        raise UnreadableLeague(
            f"{path} has schema {data['schema']}, this version reads {SCHEMA}: take the version of "
            "populab-league that wrote it"
        )
    try:
        values = data["config"]
        config = LeagueConfig(**values | {"pfsp": tuple(values["pfsp"])})
        return config, content, _hash(canonical(values))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableLeague(f"{path} has bad settings: {error}") from error
