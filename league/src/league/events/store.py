"""A league on disk: settings, event log and snapshot, and how they become a state again.

The files are a function of the events alone, whoever wrote them and however often the league was
closed and opened in between. A snapshot is due when at least `config.snapshot_every` events and as
many bytes as half the last snapshot have been logged since: so the work on snapshots, and the log
behind the last of them, stay in proportion to what happens, at any number of members.
"""

import hashlib
import io
from pathlib import Path
from typing import Any

from league.basics.errors import LeagueError, UnreadableLeague
from league.events.files import (
    EVENTS,
    SCHEMA,
    SETTINGS,
    SNAPSHOT,
    canonical,
    canonical_pieces,
    read_object,
    read_settings,
    settings_line,
    write_atomically,
)
from league.events.fold import apply
from league.events.journal import Journal, LogReader, parse
from league.state.config import LeagueConfig
from league.state.state import State


def write_new_league(
    directory: Path, config: LeagueConfig, teachers: list[str], students: list[str]
) -> None:
    """Write a new league's files; the settings come last and make it one."""
    event = {"event": "league_founded", "teachers": teachers, "students": students}
    state = State(config)
    apply(state, event)
    line = canonical(event)
    read = LogReader(io.BytesIO(line))
    read.skip(len(line))
    write_atomically(directory / EVENTS, line)
    write_atomically(directory / SNAPSHOT, *_snapshot(state, read.position, read.hash))
    write_atomically(directory / SETTINGS, settings_line(config))


def replayed(config: LeagueConfig, log: bytes, path: Path) -> State:
    """Return the state after a whole log, from its first event on."""
    state = State(config)
    for line in LogReader(io.BytesIO(log)).lines():
        _fold(state, line, path)
    return state


class Store:
    """The files of one open league, and the state that they amount to."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        """What had to be repaired or could not be written, one sentence each."""
        self._schema, config = read_settings(directory)
        self._last = (0, 0, 0)  # events, bytes of the log and size of the last snapshot
        log = directory / EVENTS
        try:
            with log.open("rb") as stream:
                read, snapshot = self._read(config, stream)
        except OSError as error:
            raise UnreadableLeague(f"cannot read {log}: {error}") from error
        if not self.state.events:
            raise UnreadableLeague(f"{log} is empty; expected a founding event")
        if read.torn_bytes:
            self.warnings.append(
                f"{log} ended in an unfinished event of {read.torn_bytes} bytes; it was dropped"
            )
        if writable and snapshot is not None:
            write_atomically(directory / SNAPSHOT, *snapshot)
        self.journal = Journal(log, read, writable)

    def commit(self, event: dict[str, Any]) -> None:
        """Append one checked event, then let the state follow."""
        if self._schema < SCHEMA and self.journal.writable:
            # From here on an older version could not read the log: let it say so.
            try:
                write_atomically(self.directory / SETTINGS, settings_line(self.state.config))
            except OSError as error:
                raise LeagueError(f"cannot write {self.directory / SETTINGS}: {error}") from error
            self._schema = SCHEMA
        # A pairing brings the results of the rounds before it to the disk.
        self.journal.append(event, sync=event["event"] == "round_paired")
        apply(self.state, event)
        content = self._due_snapshot(self.journal.byte_length, self.journal.hash)
        if content is None:
            return
        try:
            self.journal.sync()
            write_atomically(self.directory / SNAPSHOT, *content)
        except OSError as error:
            # The log holds everything; the next opening writes the snapshot again.
            self.warnings.append(f"cannot write {self.directory / SNAPSHOT}: {error}")

    def _read(
        self, config: LeagueConfig, stream: io.BufferedReader
    ) -> tuple[LogReader, list[bytes] | None]:
        """Set the state; return the reader at its end, and the last snapshot due on the way."""
        read = LogReader(stream)
        state = self._from_snapshot(config, read)
        if state is None:
            stream.seek(0)
            read, state = LogReader(stream), State(config)
        self.state = state
        last: list[bytes] | None = None
        for line in read.lines():
            _fold(state, line, self.directory / EVENTS)
            last = self._due_snapshot(read.position, read.hash) or last
        return read, last

    def _from_snapshot(self, config: LeagueConfig, read: LogReader) -> State | None:
        """The state of the snapshot, with the reader at its place in the log, if they agree."""
        path = self.directory / SNAPSHOT
        try:
            data = read_object(path)
            if data["schema"] < SCHEMA:
                return None
            if not read.skip(int(data["bytes"])) or data["digest"] != read.hash.hexdigest():
                raise LeagueError(f"{path} does not belong to the log beside it")
            state = State.from_dict(config, data["state"])
            self._last = (state.events, read.position, path.stat().st_size)
        except (KeyError, TypeError, ValueError, OSError) as error:
            self.warnings.append(f"rebuilt the state from the log alone: {error}")
            return None
        return state

    def _due_snapshot(self, position: int, log: hashlib.blake2b) -> list[bytes] | None:
        """The snapshot after an event that ends at this byte of the log, if one is due."""
        state, (events, start, size) = self.state, self._last
        few = state.events - events < state.config.snapshot_every
        if state.events > 1 and (few or 2 * (position - start) < size):
            return None
        content = _snapshot(state, position, log)
        self._last = (state.events, position, sum(map(len, content)))
        return content


def _snapshot(state: State, byte_length: int, log: hashlib.blake2b) -> list[bytes]:
    header = {"schema": SCHEMA, "bytes": byte_length, "digest": log.hexdigest()}
    opening = canonical(header)[:-2] + b',"state":'
    return [opening, *canonical_pieces(state.sections()), b"}\n"]


def _fold(state: State, line: bytes, path: Path) -> None:
    where = f"{path} line {state.events + 1}"
    try:
        apply(state, parse(line, where))
    except UnreadableLeague:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = error if isinstance(error, LeagueError) else repr(error)
        raise UnreadableLeague(f"{where}: {reason}") from error
