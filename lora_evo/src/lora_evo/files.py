"""Files and directories that appear whole or not at all, and lines that are added so.

A draft is written in a hidden folder next to its target, which the writing process locks. One that
no process holds is removed when its target is written again, or by `sweep`.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lora_evo.errors import LoraEvoError


@contextmanager
def appearing(path: Path, *, overwrite: bool | None = None) -> Iterator[Path]:
    """Yield a path to write a file or a folder at; it becomes `path` when the block ends well.

    Folders above `path` are made. What was written is on disk before it is renamed; an existing
    file is replaced, an existing folder only if it is empty. After an error nothing is left.

    overwrite: of a folder. False: refuse an existing one (`LoraEvoError`). True: give it the new
    files by one rename each, and keep its others; the first by name in lower case
    (adapter_config.json), without which nothing loads, is gone meanwhile and comes last.
    """
    path = Path(os.path.abspath(path))
    if overwrite is not None:
        refuse_existing(path, overwrite=overwrite)
    made = [place for place in path.parents if not place.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with drafting(path.parent, path.name) as draft:
            yield draft
            for entry in (draft, *draft.rglob("*")):
                _sync(entry)
            if overwrite is not None:
                refuse_existing(path, overwrite=overwrite)  # another writer may have been faster
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
        # A failed write names no file, and the draft's name says nothing to anybody.
        own = f".{path.name}."
        if isinstance(error, OSError) and error.errno and own in str(error.filename or own):
            error.filename = str(path)
        remove_empty(made)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file (UTF-8): readers see the old file or the new one, never a part."""
    with appearing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def append_text(path: Path, text: str) -> None:
    """Append text (UTF-8) to a file and wait until it is on the disk.

    If that fails, the file stays as it was.
    """
    data = memoryview(text.encode())
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(handle).st_size
        try:
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, size)
            raise type(error)(error.errno, error.strerror, str(path)) from None
        except BaseException:
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Raise `LoraEvoError` when a directory cannot be written at `target`."""
    check_output(target, folder=True)
    if target.exists() and not overwrite:
        sweep(target.parent)  # its writer may have died right after the rename
        raise LoraEvoError(f"{target} exists already; replace it with --overwrite (overwrite=True)")


def check_output(path: Path, *, folder: bool = False) -> None:
    """Raise `LoraEvoError` when no file can be written at `path`, or no folder.

    The folder of a file must be there; those above a folder are made when it is written.
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
    """Remove folders, the innermost first, as far as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def drafting(home: Path, name: str) -> Iterator[Path]:
    """Yield a free path of this name in a hidden folder of `home`, which is removed at the end.

    It is locked meanwhile. Drafts of this name that dead processes left are removed first.
    """
    with ExitStack() as stack:
        # No other process may sweep between the making of the folder and its locking.
        with _locked(home) as alone:
            if alone:
                _remove_abandoned(home, name)
            folder = Path(tempfile.mkdtemp(".tmp", f".{name}.", home))
            stack.enter_context(_locked(folder))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder / name


def sweep(home: Path, name: str | None = None) -> None:
    """Remove the drafts (of this name) in a folder whose writers have died; it need not exist."""
    if home.is_dir():
        with _locked(home) as alone:
            if alone:
                _remove_abandoned(home, name)


def _remove_abandoned(home: Path, name: str | None) -> None:
    draft_name = re.compile(rf"\.{'.+' if name is None else re.escape(name)}\.\w{{8}}\.tmp")
    for draft in list(home.iterdir()):
        if draft_name.fullmatch(draft.name):
            with suppress(OSError), _locked(draft, wait=False) as abandoned:
                if abandoned:
                    shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder; yield False where another process has it, or the system has no such locks."""
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except (ImportError, OSError):
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
