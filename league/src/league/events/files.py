"""A league's files: names, settings, the writer's lock, and writing whole or not at all."""

import contextlib
import fcntl
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from league.basics.errors import LeagueError, LeagueLocked, UnreadableLeague
from league.state.config import LeagueConfig

SETTINGS = "league.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.json"
LOCK = "league.lock"

SCHEMA = 2
_BLOCK = 1 << 20
_ROWS = 1000


def canonical(data: object) -> bytes:
    """Return one line of JSON, equal for equal data; NaN and infinity are refused."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def canonical_pieces(parts: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield the JSON of the dict of these parts in pieces, without a line feed at its end.

    A part that is an iterator becomes a list, and is never held as a whole.
    """
    opening = "{"
    for name, part in parts:
        yield (opening + json.dumps(name) + ":").encode()
        opening = ","
        if not isinstance(part, Iterator):
            yield canonical(part)[:-1]
            continue
        between = b"["
        while rows := list(itertools.islice(part, _ROWS)):
            yield between + canonical(rows)[1:-2]
            between = b","
        yield b"]" if between == b"," else b"[]"
    yield b"}"


def write_atomically(path: Path, *content: bytes) -> None:
    """Write next to the target, sync, and rename; on failure the target is untouched."""
    with _beside(path) as handle:
        handle.writelines(content)


def copy_atomically(source: Path, target: Path, length: int | None = None) -> None:
    """Copy the first `length` bytes of a file, or all of it, as `write_atomically` writes."""
    left = source.stat().st_size if length is None else length
    with source.open("rb") as reader, _beside(target) as writer:
        while left and (block := reader.read(min(left, _BLOCK))):
            writer.write(block)
            left -= len(block)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of this or an older schema, or raise UnreadableLeague."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise UnreadableLeague(f"{path} is not a league file: it has no whole-number 'schema'")
    if data["schema"] > SCHEMA:
        raise UnreadableLeague(
            f"{path} has schema {data['schema']}, this version reads up to {SCHEMA}; "
            "upgrade populab-league"
        )
    return data


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


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
