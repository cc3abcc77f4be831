"""The files of a run: where they are, how they are written, and whether they are damaged.

`checkpoints/step-N/hashes.json` names files with `SHA256:BYTES`: those of the checkpoint; those of
the run that stay as they are or only grow (then their first bytes); adapters of living members.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lora_evo import write_text
from selfplay.config import Config, config_text, read_config
from selfplay.errors import ConfigError, RunDirectoryError
from selfplay.settings import read_yaml
from selfplay.terminal import program, quote

CONFIG, METRICS, TASKS = "config.yaml", "metrics.jsonl", "tasks.jsonl"
LOCK, LINEAGE = "run.lock", "lineage.json"
SEEDS = "seeds.jsonl"
"""The tasks that the run starts from; a resume needs no other file of them."""
EVALS = "eval.jsonl"
"""Measurements of living members on tasks that never change."""
RESOURCES = "resources.jsonl"
"""Memory by step: apart from the metrics, which equal runs repeat but for their seconds."""
ROW_FILES = (METRICS, TASKS, RESOURCES, EVALS)
FOLDERS = ("league", "members", "ancestors", "checkpoints")
HASHES = "hashes.json"
COPY = "restore it from a copy, or start another run"
_LOG, _SNAPSHOT = "league/events.jsonl", "league/snapshot.json"
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors", LINEAGE)
_NAMES = {"members": re.compile(r"[tsa]\d+"), "ancestors": re.compile(r"[tsa]\d+@\d+")}
_CHUNK = 1 << 20


def create(directory: Path, config: Config) -> None:
    """Make a new run directory with its configuration; an existing one is an error."""
    if directory.exists() and not directory.is_dir():
        raise RunDirectoryError(f"{directory} is a file; choose another --out, a new directory")
    if directory.exists() and any(directory.iterdir()):
        begun = (directory / CONFIG).is_file()
        rest = f", or continue it with `{program()} resume {quote(directory)}`" if begun else ""
        raise RunDirectoryError(f"{directory} exists and is not empty; choose another --out{rest}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_text(directory / CONFIG, config_text(config))
    except OSError as error:
        raise RunDirectoryError(f"cannot write to {directory}: {error.strerror}") from error


def open_config(directory: Path) -> Config:
    """Read the configuration of an existing run."""
    path = directory / CONFIG
    if not path.is_file():
        raise RunDirectoryError(
            f"{directory} is not a run directory: it has no {CONFIG}; "
            "expected a directory that `selfplay train --out` made"
        )
    data = read_yaml(path)
    try:
        return read_config(data)
    except ConfigError as error:
        raise RunDirectoryError(f"{path}: {error}; restore it from a copy") from error


def lock(directory: Path) -> IO[str]:
    """Hold the directory for this process until the returned file is closed."""
    file = (directory / LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RunDirectoryError(f"{directory} is being trained by another process") from error
    return file


def clear(directory: Path) -> None:
    """Remove what a run wrote that died before its first checkpoint; nothing else is touched."""
    for name in (SEEDS, *ROW_FILES, *FOLDERS):
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def removed_unless_checkpointed(directory: Path) -> Iterator[None]:
    """Remove a run that fails before its first checkpoint: it could not be resumed."""
    try:
        yield
    except BaseException:
        if not any((directory / "checkpoints").glob("step-*[0-9]")) and not size(
            directory / METRICS
        ):
            clear(directory)
            (directory / CONFIG).unlink(missing_ok=True)
            (directory / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                directory.rmdir()
        raise


def size(path: Path) -> int:
    """Return the length of a file in bytes; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def truncate(path: Path, length: int) -> None:
    """Cut a file back to a length that it had."""
    found = size(path)
    if found < length:
        raise RunDirectoryError(
            f"{path} has {found} bytes, expected at least {length}: it was changed after the "
            "checkpoint was made"
        )
    if found > length:
        os.truncate(path, length)


@dataclass(frozen=True)
class Damage:
    """A file that is not as a checkpoint recorded it."""

    path: Path
    reason: str
    """What was found, what was expected, what to do."""
    mended: bool = False
    """Whether a resume writes it again, as it is not there."""

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.reason}"


@dataclass
class Hashes:
    """Hashes of a run's files; of those that stay or grow no byte is read twice."""

    _known: dict[Path, tuple[Any, int]] = field(default_factory=dict)

    def of(self, path: Path) -> str:
        """Return hash and length of a file that stays or grows; a missing one is empty."""
        content, known = self._known.get(path, (hashlib.sha256(), 0))
        length = size(path)
        _feed(content, path, known, length)
        self._known[path] = content, length
        return f"{content.hexdigest()}:{length}"

    def write(
        self,
        directory: Path,
        checkpoint: Path,
        living: Collection[str],
        kept: Collection[str] | None = None,
    ) -> None:
        """Write the hashes of a run into a checkpoint that is complete but for them.

        kept: folders of members and ancestors that the run continues with; None for all.
        """
        own = {
            path.relative_to(checkpoint).as_posix(): Hashes().of(path)
            for path in sorted(checkpoint.rglob("*"))
            if path.is_file()
        }
        run = {name: self.of(directory / name) for name in (CONFIG, SEEDS, *ROW_FILES)}
        alive: dict[str, str] = {}
        for path in _adapter_files(directory):
            name = path.relative_to(directory).as_posix()
            if kept is not None and path.parent.name not in kept:
                continue
            if path.parent.name in living and path.name != LINEAGE:
                alive[name] = Hashes().of(path)
            else:
                run[name] = self.of(path)
        found = {"checkpoint": own, "run": run, "living": alive}
        text = json.dumps({**found, "self": _of_text(found)}, indent=1)
        (checkpoint / HASHES).write_text(text + "\n")


def damaged_checkpoint(checkpoint: Path, remedy: str) -> Iterator[Damage]:
    """Yield the files of a checkpoint that are not as they were written."""
    try:
        own = _recorded(checkpoint)["checkpoint"]
    except ValueError as error:
        yield Damage(checkpoint / HASHES, f"{error}; {remedy}")
        return
    for name, expected in own.items():
        yield from _compared(checkpoint / name, expected, remedy)


def damaged_run(checkpoint: Path) -> Iterator[Damage]:
    """Yield the files of a run that are not as its newest checkpoint recorded them.

    The league and living members' adapters move on after a checkpoint, and a resume writes them
    again: what may have moved on is not compared. Nothing is if the record itself is damaged.
    """
    try:
        recorded = _recorded(checkpoint)
    except ValueError:
        return
    directory, run = checkpoint.parent.parent, recorded["run"]
    for name, expected in run.items():
        yield from _compared(directory / name, expected, COPY, grows=name in ROW_FILES)
    again = {n: e for n, e in recorded["checkpoint"].items() if n.startswith("league/")}
    logged = bool(again) and size(directory / _LOG) > _length(again[_LOG])
    if logged:
        del again[_SNAPSHOT]
    grown = any(size(directory / name) > _length(run[name]) for name in ROW_FILES)
    step = int(checkpoint.name.rpartition("-")[2])
    homes = (path.parent.name for path in _adapter_files(directory))
    if not (logged or grown or any("@" in h and int(h.partition("@")[2]) > step for h in homes)):
        again |= recorded["living"]
    for name, expected in again.items():
        yield from _compared(directory / name, expected, "", grows=name == _LOG)


def prune(directory: Path, checkpoints: Collection[Path]) -> None:
    """Remove the members and ancestors of a run that none of its checkpoints needs."""
    try:
        recorded = [_recorded(checkpoint) for checkpoint in checkpoints]
    except ValueError:  # what a damaged checkpoint needs is not known
        return
    names = {
        name.split("/")[1] for r in recorded for name in (*r["run"], *r["living"]) if "/" in name
    }
    for folder in {path.parent for path in _adapter_files(directory)}:
        if folder.name not in names:
            shutil.rmtree(folder)


def is_as_recorded(checkpoint: Path, member: str) -> bool:
    """Return whether the adapter of a living member is the checkpoint's."""
    home, living = checkpoint.parent.parent, _recorded(checkpoint)["living"]
    mine = {name: e for name, e in living.items() if name.split("/")[1] == member}
    return bool(mine) and all(Hashes().of(home / name) == e for name, e in mine.items())


def _recorded(checkpoint: Path) -> dict[str, dict[str, str]]:
    """Read the hashes of a checkpoint. Raises ValueError where they are damaged."""
    try:
        found = json.loads((checkpoint / HASHES).read_bytes())
        if found.pop("self") == _of_text(found):
            return dict(found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    raise ValueError("it is not as it was written")


def _compared(path: Path, expected: str, remedy: str, *, grows: bool = False) -> Iterator[Damage]:
    """Yield what differs; a file without a remedy is one that a resume writes again."""
    length, content = _length(expected), hashlib.sha256()
    try:
        found = size(path)
        if not path.exists() and length:
            what = "it is missing"
        elif found < length or (found > length and not grows):
            what = f"it has {found} bytes, expected {'at least ' if grows else ''}{length}"
        else:
            _feed(content, path, 0, length)
            if f"{content.hexdigest()}:{length}" == expected:
                return
            what = "it was changed after it was written"
    except OSError as error:
        what = f"it cannot be read ({error.strerror})"
    mended = not remedy and not path.exists()
    remedy = remedy or f"{'' if mended else 'remove it, and '}`selfplay resume` writes it again"
    yield Damage(path, f"{what}; {remedy}", mended)


def _feed(content: Any, path: Path, start: int, end: int) -> None:
    """Add the bytes of a file from start to end to a hash."""
    if start < end:
        with path.open("rb") as file:
            file.seek(start)
            while start < end and (part := file.read(min(_CHUNK, end - start))):
                content.update(part)
                start += len(part)


def _adapter_files(directory: Path) -> Iterator[Path]:
    """Yield the files of a run's members and ancestors, sorted."""
    for home, known in _NAMES.items():
        for folder in sorted((directory / home).glob("*")):
            if known.fullmatch(folder.name):
                yield from (path for path in map(folder.joinpath, _ADAPTER) if path.is_file())


def _of_text(found: object) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _length(recorded: str) -> int:
    return int(recorded.partition(":")[2])
