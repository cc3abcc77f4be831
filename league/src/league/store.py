"""Storage of a league: settings, event log, snapshot and lock, and the state rebuilt from them.

The files are a function of the events alone, whoever wrote them and however often the league was
closed and opened in between. A snapshot is due when at least `config.snapshot_every` events and as
many bytes as half the last snapshot have been logged since, so the work on snapshots stays in
proportion to the log at any number of members.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from league.config import LeagueConfig
from league.errors import LeagueError, LeagueLocked, UnreadableLeague
from league.events import apply
from league.state import State

SETTINGS = "league.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.json"
LOCK = "league.lock"

SCHEMA = 2

_RETIRED = ("coverage_every", "anchor_share")
"""Settings that a league of an older version may hold, as long as they are 0."""


def write_new_league(directory: Path, config: LeagueConfig, event: dict[str, Any]) -> None:
    """Write the files of a new league; the settings come last and make it one."""
    state, line = State(config), canonical(event)
    apply(state, event)
    write_atomically(directory / EVENTS, line)
    write_atomically(directory / SNAPSHOT, _snapshot(state, len(line), _hash(line)))
    settings = {"schema": SCHEMA, "config": asdict(config)}
    write_atomically(directory / SETTINGS, canonical(settings))


def read_events(path: Path, length: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events in the first `length` bytes of a log. Raises UnreadableLeague."""
    for _, _, event in _parsed(_read_log(path)[:length], path):
        yield event


def replayed(config: LeagueConfig, path: Path, length: int | None = None) -> State:
    """Return the state after the first `length` bytes of a log."""
    state = State(config)
    for _ in _applied(_read_log(path)[:length], path, state):
        pass
    return state


class Store:
    """The files of one open league, and the state that they amount to."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        """What had to be repaired or could not be written, one sentence each."""
        self._handle: int | None = None
        self._last = (0, 0, 0)  # events, bytes of the log and size of the last snapshot
        path, config = directory / EVENTS, read_settings(directory)
        content = _read_log(path)
        log = content[: content.rfind(b"\n") + 1]
        self.state = self._from_snapshot(config, log) or State(config)
        self.byte_length = self._last[1]
        self._hash = _hash(log[: self.byte_length])
        snapshot = None
        for line in _applied(log[self.byte_length :], path, self.state):
            self._count(line)
            snapshot = self._due_snapshot() or snapshot
        if not self.state.events:
            raise UnreadableLeague(f"{path} is empty; expected a founding event")
        if torn := len(content) - len(log):
            # A crash left it behind, or another process is writing it just now.
            self.warnings.append(
                f"{path} ended in an unfinished event of {torn} bytes; it was dropped"
            )
        if writable:
            self._write_snapshot(snapshot)
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            if torn:
                os.ftruncate(self._handle, self.byte_length)

    def commit(self, event: dict[str, Any]) -> None:
        """Append one checked event to the log, all of it or nothing; the state follows.

        A pairing waits until it and the results of the rounds before it are on the disk.
        """
        if self._handle is None:
            raise LeagueError(f"{self.directory} is open for reading only; nothing was changed")
        line, written = canonical(event), 0
        try:
            while written < len(line):
                written += os.write(self._handle, line[written:])
            if event["event"] == "round_paired":
                self.sync()
        except BaseException as error:
            os.ftruncate(self._handle, self.byte_length)
            if not isinstance(error, OSError):
                raise
            raise LeagueError(
                f"cannot append to {self.directory / EVENTS}: {error}; nothing changed"
            ) from error
        self._count(line)
        apply(self.state, event)
        self._write_snapshot(self._due_snapshot())

    def sync(self) -> None:
        """Force the log to the disk."""
        if self._handle is not None:
            os.fsync(self._handle)

    def copy_to(self, target: Path) -> None:
        """Write the three files of this moment into another directory."""
        self.sync()
        target.mkdir(parents=True, exist_ok=True)
        for name in (EVENTS, SNAPSHOT, SETTINGS):
            content = (self.directory / name).read_bytes()
            write_atomically(target / name, content[: self.byte_length if name == EVENTS else None])

    def close(self) -> None:
        """Sync and close; harmless when called again."""
        self.sync()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _count(self, line: bytes) -> None:
        self.byte_length += len(line)
        self._hash.update(line)

    def _write_snapshot(self, content: bytes | None) -> None:
        if content is None:
            return
        try:
            self.sync()
            write_atomically(self.directory / SNAPSHOT, content)
        except OSError as error:
            # The log holds everything; the next opening writes the snapshot again.
            self.warnings.append(f"cannot write {self.directory / SNAPSHOT}: {error}")

    def _from_snapshot(self, config: LeagueConfig, log: bytes) -> State | None:
        """Return the state of the snapshot if it belongs to the log."""
        path = self.directory / SNAPSHOT
        try:
            data = read_object(path)
            length = int(data["bytes"])
            if length > len(log) or data["digest"] != _hash(log[:length]).hexdigest():
                raise LeagueError(f"{path} does not belong to the log")
            state = State.from_dict(config, data["state"])
            self._last = (state.events, length, path.stat().st_size)
        except (LookupError, TypeError, ValueError, OSError) as error:
            self.warnings.append(f"rebuilt the state from the log alone: {error}")
            return None
        return state

    def _due_snapshot(self) -> bytes | None:
        """Return the snapshot of the state as it is now, if one is due."""
        state, (events, start, size) = self.state, self._last
        few = state.events - events < state.config.snapshot_every
        if state.events > 1 and (few or 2 * (self.byte_length - start) < size):
            return None
        content = _snapshot(state, self.byte_length, self._hash)
        self._last = (state.events, self.byte_length, len(content))
        return content


def _snapshot(state: State, byte_length: int, log: hashlib.blake2b) -> bytes:
    header = {"schema": SCHEMA, "bytes": byte_length, "digest": log.hexdigest()}
    return canonical(header | {"state": state.to_dict()})


def _hash(log: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(log, digest_size=16)


def _read_log(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error


def _parsed(log: bytes, path: Path, before: int = 0) -> Iterator[tuple[bytes, str, dict[str, Any]]]:
    """Yield each whole line, where it is, and its event. before: lines of the file before these."""
    for number, text in enumerate(log.split(b"\n")[:-1], before + 1):
        line, where = text + b"\n", f"{path} line {number}"
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UnreadableLeague(f"{where} is not JSON: {error}") from error
        if not isinstance(event, dict):
            raise UnreadableLeague(f"{where} is not a JSON object")
        yield line, where, event


def _applied(log: bytes, path: Path, state: State) -> Iterator[bytes]:
    """Yield each whole line when its event has changed the state."""
    for line, where, event in _parsed(log, path, state.events):
        try:
            apply(state, event)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            reason = error if isinstance(error, LeagueError) else repr(error)
            raise UnreadableLeague(f"{where}: {reason}") from error
        yield line


@contextlib.contextmanager
def writer_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a league's directory; it also ends with the process."""
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
        os.close(handle)
        raise LeagueLocked(
            f"{directory} is open for writing by process {holder or 'unknown'}; wait until "
            "it ends, or read with League(directory, read_only=True)"
        ) from None
    os.ftruncate(handle, 0)
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the name
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    try:
        yield
    finally:
        os.ftruncate(handle, 0)
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def canonical(data: object) -> bytes:
    """Return one line of JSON, equal for equal data; NaN and infinity are refused."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def write_atomically(path: Path, content: bytes) -> None:
    """Write next to the target, sync, and rename; on failure the target is untouched."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a failed write names no file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of this schema; raise UnreadableLeague otherwise."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise UnreadableLeague(f"{path} is not a league file: it has no whole-number 'schema'")
    if data["schema"] != SCHEMA:
        raise UnreadableLeague(
            f"{path} has schema {data['schema']}, this version reads {SCHEMA}: take the version of "
            "populab-league that wrote it"
        )
    return data


def read_settings(directory: Path) -> LeagueConfig:
    """Return the config of the league in a directory; raise UnreadableLeague if damaged."""
    path = directory / SETTINGS
    settings = read_object(path)
    try:
        values = {**settings["config"], "pfsp": tuple(settings["config"]["pfsp"])}
        for name in _RETIRED:
            if value := values.pop(name, 0):
                raise LeagueError(
                    f"{name} is {value}, which this version does not have: take the version of "
                    "populab-league that wrote it"
                )
        return LeagueConfig(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableLeague(f"{path} has bad settings: {error}") from error
