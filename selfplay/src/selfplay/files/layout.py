"""The files of a run: where they are, and how they are written."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lora_evo.files import lock_folder, write_text
from selfplay.config import Config, config_text, read_config
from selfplay.errors import ConfigError, RunDirectoryError, is_refusal
from selfplay.settings import read_yaml
from selfplay.terminal import program, quote

CONFIG, METRICS, TASKS = "config.yaml", "metrics.jsonl", "tasks.jsonl"
LOCK, LINEAGE = "run.lock", "lineage.json"
SEEDS = "seeds.jsonl"
"""The tasks that the run starts from; a resume does not read `rollout.seed_file` again."""
EVALS = "eval.jsonl"
"""Evaluations of living members on fixed tasks."""
RESOURCES = "resources.jsonl"
"""Memory by step: not in the metrics, which are equal for equal runs except for the seconds."""
CHANGES = "changes.jsonl"
"""Settings that a resume found changed; most runs have no such file."""
ROW_FILES = (SEEDS, METRICS, TASKS, RESOURCES, EVALS, CHANGES)
START_FOLDER = "start"
"""The adapter that all members started from, where it is the reference of the KL divergence."""
FOLDERS = ("league", "members", "ancestors", "checkpoints", START_FOLDER)
COPY = "restore it from a copy, or start another run"


def create(directory: Path, config: Config) -> None:
    """Make a new run directory with its configuration; an existing one is an error."""
    if directory.exists() and not directory.is_dir():
        raise RunDirectoryError(f"{directory} is a file; choose another --out, a new directory")
    if directory.exists() and any(directory.iterdir()):
        begun = (directory / CONFIG).is_file()
        hint = f", or continue it with `{program()} resume {quote(directory)}`" if begun else ""
        raise RunDirectoryError(f"{directory} exists and is not empty; choose another --out{hint}")
    try:
        write_text(directory / CONFIG, config_text(config))
    except OSError as error:
        raise RunDirectoryError(f"cannot write to {directory}: {error.strerror}") from error


def open_config(directory: Path) -> Config:
    """Read the configuration of an existing run."""
    try:
        return read_config(read_yaml(config_of(directory)))
    except ConfigError as error:
        raise RunDirectoryError(f"{directory / CONFIG}: {error}; {COPY}") from error


def config_of(directory: Path) -> Path:
    """Return the path of an existing run's configuration."""
    if not (directory / CONFIG).is_file():
        raise RunDirectoryError(
            f"{directory} is not a run: it has no {CONFIG}; expected a directory that "
            "`selfplay train --out` made"
        )
    return directory / CONFIG


def lock(directory: Path) -> IO[str]:
    """Lock the directory for this process until the returned file is closed."""
    file = (directory / LOCK).open("w")
    try:
        lock_folder(directory, file.fileno())
    except BlockingIOError as error:
        file.close()
        raise RunDirectoryError(f"{directory} is being trained by another process") from error
    return file


def clear(directory: Path) -> None:
    """Remove the rows and folders of a run that ended before its first checkpoint."""
    for name in ROW_FILES:
        (directory / name).unlink(missing_ok=True)
    for folder in filter(Path.is_dir, (directory / name for name in FOLDERS)):
        shutil.rmtree(folder)


@contextmanager
def removed_unless_begun(directory: Path) -> Iterator[None]:
    """Remove a new run that is refused before its first checkpoint.

    If it is stopped before that, as by Ctrl-C or a full disk, its configuration stays, and a resume
    starts it again.
    """
    try:
        yield
    except BaseException as error:
        begun = any((directory / "checkpoints").glob("step-*[0-9]")) or size(directory / METRICS)
        if not begun and is_refusal(error):
            shutil.rmtree(directory)
        elif not begun:
            clear(directory)
        raise


def size(path: Path) -> int:
    """Return the length of a file in bytes; 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
