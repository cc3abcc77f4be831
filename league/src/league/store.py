"""A league on disk: settings, event log and snapshot, and how they become a state again.

The files are a function of the events alone: the snapshot always is the state after the last
multiple of `config.snapshot_every` events (or after the founding), whoever wrote it and however
often the league was closed and opened in between.
"""

from pathlib import Path
from typing import Any

from league.config import LeagueConfig
from league.errors import LeagueError, UnreadableLeague
from league.files import SCHEMA, canonical, read_object, write_atomically
from league.fold import apply
from league.journal import Journal, digest, parse
from league.state import State

SETTINGS = "league.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.json"
LOCK = "league.lock"


def found(directory: Path, config: LeagueConfig, teachers: list[str], students: list[str]) -> None:
    """Write a new league's files; the settings come last and make it one."""
    event = {"event": "league_founded", "teachers": teachers, "students": students}
    state = State(config)
    apply(state, event)
    line = canonical(event)
    write_atomically(directory / EVENTS, line)
    write_atomically(directory / SNAPSHOT, snapshot_bytes(state, len(line), digest(line)))
    settings = {"schema": SCHEMA, "config": config.to_json()}
    write_atomically(directory / SETTINGS, canonical(settings))


def snapshot_bytes(state: State, byte_length: int, log_digest: str) -> bytes:
    """Return the snapshot file for a state after that many bytes of the log."""
    header = {"schema": SCHEMA, "bytes": byte_length, "digest": log_digest}
    return canonical(header | {"state": state.to_json()})


def replayed(config: LeagueConfig, log: bytes, path: Path) -> State:
    """Return the state after a whole log, from its first event on."""
    state = State(config)
    _fold(state, log, path)
    return state


class Store:
    """The files of one open league, and the state that they amount to.

    warnings: what had to be repaired on opening, one sentence each.
    """

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        settings = read_object(directory / SETTINGS)
        try:
            config = LeagueConfig.from_json(settings["config"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableLeague(f"{directory / SETTINGS} has bad settings: {error}") from error
        self.journal = Journal(directory / EVENTS, writable)
        try:
            if self.journal.torn_bytes:
                self.warnings.append(
                    f"{directory / EVENTS} ended in an unfinished event of "
                    f"{self.journal.torn_bytes} bytes; it was dropped"
                )
            log = self.journal.found
            self.state, start = self._from_snapshot(config, log)
            snapshot = _fold(self.state, log, directory / EVENTS, start)
            if writable and snapshot is not None:
                write_atomically(directory / SNAPSHOT, snapshot)
        except BaseException:
            self.journal.close()
            raise
        if not self.state.events:
            self.journal.close()
            raise UnreadableLeague(f"{directory / EVENTS} is empty; expected a founding event")

    def commit(self, event: dict[str, Any]) -> None:
        """Append one checked event, then let the state follow."""
        self.journal.append(event)
        apply(self.state, event)
        if _is_boundary(self.state):
            content = snapshot_bytes(self.state, self.journal.byte_length, self.journal.digest)
            try:
                self.journal.sync()
                write_atomically(self.directory / SNAPSHOT, content)
            except OSError as error:
                # The log holds everything; the next opening writes the snapshot again.
                self.warnings.append(f"cannot write {self.directory / SNAPSHOT}: {error}")

    def _from_snapshot(self, config: LeagueConfig, log: bytes) -> tuple[State, int]:
        path = self.directory / SNAPSHOT
        try:
            data = read_object(path)
            length = int(data["bytes"])
            if length > len(log) or data["digest"] != digest(log[:length]):
                raise LeagueError(f"{path} does not belong to the log beside it")
            return State.from_json(config, data["state"]), length
        except (KeyError, TypeError, ValueError) as error:
            self.warnings.append(f"rebuilt the state from the log alone: {error}")
            return State(config), 0


def _fold(state: State, log: bytes, path: Path, start: int = 0) -> bytes | None:
    """Apply the lines from byte `start` on; return the last snapshot that is due, if any."""
    due: bytes | None = None
    position = start
    for line in log[start:].split(b"\n")[:-1]:
        where = f"{path} line {state.events + 1}"
        try:
            apply(state, parse(line, where))
        except UnreadableLeague:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            reason = error if isinstance(error, LeagueError) else repr(error)
            raise UnreadableLeague(f"{where}: {reason}") from error
        position += len(line) + 1
        if _is_boundary(state):
            due = snapshot_bytes(state, position, digest(log[:position]))
    return due


def _is_boundary(state: State) -> bool:
    return state.events == 1 or state.events % state.config.snapshot_every == 0
