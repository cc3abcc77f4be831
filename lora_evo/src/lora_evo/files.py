"""Atomic writing of files and directories, and atomic appending of lines.

A draft is written in a hidden folder next to its target, locked by the writing process. A draft
without a lock is removed when its target is written again, or by `sweep`.
"""

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from lora_evo.errors import LoraEvoError

__all__ = [
    "appearing", "append_text", "check_output", "lock_folder", "remove_empty", "sweep",
    "write_text",
]  # fmt: skip
_without_locks: set[int] = set()
"""The devices of which a warning was printed."""


@contextmanager
def appearing(path: Path, *, overwrite: bool | None = None) -> Iterator[Path]:
    """Yield a path to write a file or folder to; it is renamed to `path` at the end of the block.

    Parent folders are made, and all data are synced to disk before the rename. An existing file is
    replaced, an existing folder only if it is empty; of a link, what it leads to. After an error
    nothing is left.

    overwrite: for a folder. False: refuse an existing one (`LoraEvoError`). True: rename the new
    files into it one by one, and keep its other files. Its first file by name in lower case
    (adapter_config.json), without which nothing loads, is removed first and renamed last.
    """
    if overwrite is not None:
        refuse_existing(path, overwrite=overwrite)
    named, path = path, Path(os.path.realpath(path))
    new_folders = [place for place in path.parents if not place.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with drafting(path.parent, path.name) as draft:
            yield draft
            for entry in (draft, *draft.rglob("*")):
                _sync(entry)
            if overwrite is not None:
                refuse_existing(named, overwrite=overwrite)  # another writer may have been faster
            if overwrite and path.is_dir():
                names = sorted((file.name for file in draft.iterdir()), key=str.lower, reverse=True)
                (path / names[-1]).unlink(missing_ok=True)
                _sync(path)
                for name in names:
                    (draft / name).replace(path / name)
                _sync(path)
            else:
                os.replace(draft, path)
        _sync(path.parent)
    except BaseException as error:
        # A failed write names no file, or the draft, which users do not know.
        start = _draft_start(path.name)
        if isinstance(error, OSError) and error.errno and start in str(error.filename or start):
            error.filename = str(named)
        remove_empty(new_folders)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file (UTF-8) atomically."""
    with appearing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def append_text(path: Path, text: str) -> None:
    """Append text (UTF-8) to a file and sync it to disk; after an error it is as it was."""
    data = memoryview(text.encode())
    with path.open("ab", buffering=0) as file:
        handle = file.fileno()
        size = os.fstat(handle).st_size
        try:
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except BaseException as error:
            os.ftruncate(handle, size)
            if isinstance(error, OSError):
                error.filename = str(path)  # a failed write names no file
            raise


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Raise `LoraEvoError` if a directory cannot be written at `target`."""
    check_output(target, folder=True)
    if target.exists() and not overwrite:
        sweep(target.parent)  # its writer may have died just after the rename
        raise LoraEvoError(f"{target} exists already; replace it with --overwrite (overwrite=True)")


def check_output(path: Path, *, folder: bool = False) -> None:
    """Raise `LoraEvoError` if no file, or no folder, can be written at `path`.

    The folder of a file must exist; parents of a folder are made when it is written.
    """
    if path.exists() and not (path.is_dir() if folder else path.is_file()):
        raise LoraEvoError(f"{path} exists and is not a {'folder' if folder else 'file'}")
    above = next(parent for parent in Path(os.path.abspath(path)).parents if parent.exists())
    if not above.is_dir():
        raise LoraEvoError(f"{above} is not a folder, so {path} cannot be made")
    if not folder and not path.parent.is_dir():
        raise LoraEvoError(
            f"{path} cannot be written: there is no folder {path.parent}; type: "
            f"mkdir -p {shlex.quote(str(path.parent))}"
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise LoraEvoError(f"{path} cannot be written: no permission to; choose another output")


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders in order until one is not empty; the innermost comes first."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def drafting(home: Path, name: str) -> Iterator[Path]:
    """Yield a free path of this name in a hidden, locked folder of `home`, removed at the end.

    Drafts of this name that dead processes left are removed first.
    """
    with ExitStack() as stack:
        # The lock of `home` keeps other processes from sweeping the folder before it is locked.
        with _locked(home) as alone:
            if alone:
                _remove_abandoned(home, name)
            folder = Path(tempfile.mkdtemp(".tmp", _draft_start(name), home))
            stack.enter_context(_locked(folder))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder / name


def sweep(home: Path, name: str | None = None) -> None:
    """Remove the drafts (of this name) of dead processes in a folder, if it exists."""
    if home.is_dir():
        with _locked(home) as alone:
            if alone:
                _remove_abandoned(home, name)


def _draft_start(name: str) -> str:
    """Return how the name of a draft's folder begins; the whole one has at most 255 bytes."""
    return f".{os.fsdecode(os.fsencode(name)[:241])}."


def _remove_abandoned(home: Path, name: str | None) -> None:
    start = r"\..+\." if name is None else re.escape(_draft_start(name))
    draft_name = re.compile(rf"{start}\w{{8}}\.tmp")
    for draft in list(home.iterdir()):
        if draft_name.fullmatch(draft.name):
            with suppress(OSError), _locked(draft, wait=False) as abandoned:
                if abandoned:
                    shutil.rmtree(draft, ignore_errors=True)


def lock_folder(folder: Path, handle: int) -> None:
    """Lock a folder by an open file in it, for this process, until the file is closed.

    Raises BlockingIOError if another process has the lock. Prints a warning, once, where the file
    system has no locks, as Lustre mounted without flock, and on Windows.
    """
    device = os.fstat(handle).st_dev
    if not _flock(handle, wait=False) and device not in _without_locks:
        _without_locks.add(device)
        click.echo(
            f"warning: {folder} cannot be locked: the file system, or Windows, has no locks; see "
            "to it that no other process writes there",
            err=True,
        )


def _flock(handle: int, *, wait: bool) -> bool:
    """Lock an open file or folder; return whether that can be done. Raises BlockingIOError."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except (ImportError, OSError):
        return False
    return True


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder; yield False if another process has the lock, or if locks are not supported."""
    with ExitStack() as stack:
        locked = False
        with suppress(BlockingIOError, PermissionError):  # Windows opens no folder
            handle = os.open(path, os.O_RDONLY)
            stack.callback(os.close, handle)
            locked = _flock(handle, wait=wait)
        yield locked


def _sync(path: Path) -> None:
    is_windows = sys.platform == "win32"  # which opens no folder, and syncs what it may write
    if is_windows and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
