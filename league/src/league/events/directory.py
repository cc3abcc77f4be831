"""A league's directory: the names of its files, its settings, and the lock of its writer."""

import fcntl
import os
from pathlib import Path

from league.basics.errors import LeagueError, LeagueLocked, UnreadableLeague
from league.events.files import SCHEMA, canonical, read_object
from league.state.config import LeagueConfig

SETTINGS = "league.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.json"
LOCK = "league.lock"


def check_exists(directory: Path) -> None:
    """Raise LeagueError if there is no league in a directory."""
    if not (directory / SETTINGS).exists():
        raise LeagueError(f"no league in {directory}; expected a directory with {SETTINGS}")


def read_settings(directory: Path) -> tuple[int, LeagueConfig]:
    """Return schema and config of the league in a directory; UnreadableLeague if damaged."""
    path = directory / SETTINGS
    settings = read_object(path)
    try:
        return settings["schema"], LeagueConfig.from_dict(settings["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableLeague(f"{path} has bad settings: {error}") from error


def settings_line(config: LeagueConfig) -> bytes:
    """Return the content of a settings file."""
    return canonical({"schema": SCHEMA, "config": config.to_dict()})


class WriterLock:
    """Holds the lock of a league's directory until `release`, or until the process ends."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            self._handle = None
            raise LeagueLocked(
                f"{path.parent} is open for writing by process {holder or 'unknown'}; wait until "
                "it ends, or read with League(directory, read_only=True)"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next writer in; harmless when called again."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None
