"""Directories and single files that appear whole or not at all.

A draft lies beside its target under a hidden name, locked by the process that writes it. A draft
that nobody holds was left by a process that died; it goes when its target is written again.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lora_evo.errors import LoraEvoError


@contextmanager
def directory_in_place_of(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `target`; when the block ends well, it becomes `target`.

    A new target appears by one rename. With `overwrite` an existing one gets the new files by one
    rename each and keeps its other files; the first by name (adapter_config.json), without which
    nothing loads, is gone meanwhile and comes last. After an error no draft is left behind.
    Raises `LoraEvoError` when the target exists and `overwrite` is false.
    """
    target = Path(os.path.abspath(target))
    refuse_existing(target, overwrite=overwrite)
    with _draft_of(target, folder=True) as draft:
        yield draft
        for file in draft.iterdir():
            _sync(file)
        refuse_existing(target, overwrite=overwrite)  # another writer may have been faster
        if target.is_dir():
            names = sorted((file.name for file in draft.iterdir()), reverse=True)
            (target / names[-1]).unlink(missing_ok=True)
            _sync(target)
            for name in names:
                (draft / name).replace(target / name)
            draft.rmdir()
            _sync(target)
        else:
            draft.chmod(0o777 & ~_umask())
            _sync(draft)
            draft.rename(target)
    _sync(target.parent)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file (UTF-8) so that readers see the old one or the new one, never a part.

    Folders above it are made; an existing file is replaced. Raises `LoraEvoError` when `path` is
    a folder, or has a file where a folder should be; after an error no draft is left behind.
    """
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise LoraEvoError(f"{path} is a folder; expected the name of a file to write")
    _refuse_file_above(path)
    with _draft_of(path, folder=False) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
        _sync(draft)
        draft.chmod(0o666 & ~_umask())
        draft.replace(path)
    _sync(path.parent)


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Raise `LoraEvoError` when writing to `target` would clobber something."""
    if target.exists() and not target.is_dir():
        raise LoraEvoError(f"{target} exists and is not a folder; choose another output")
    if target.exists() and not overwrite:
        raise LoraEvoError(
            f"{target} exists already; choose another output, remove it, or ask for overwriting"
        )
    _refuse_file_above(target)


def check_output(out: Path, parents: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse a child's folder that exists (unless `overwrite`), is a parent, or lies inside one.

    A child inside its parent would be taken for part of it, and be lost with it.
    """
    place = out.resolve()
    for parent in parents:
        if place == parent.resolve():
            raise LoraEvoError(f"{out} is a parent of this child; write the child somewhere else")
        if parent.resolve() in place.parents:
            raise LoraEvoError(
                f"{out} lies inside the parent {parent}; write the child beside it instead"
            )
    refuse_existing(out, overwrite=overwrite)


def _refuse_file_above(target: Path) -> None:
    for parent in target.parents:
        if parent.exists():
            if not parent.is_dir():
                raise LoraEvoError(f"{parent} is not a folder, so {target} cannot be made")
            break


@contextmanager
def _draft_of(target: Path, *, folder: bool) -> Iterator[Path]:
    """Yield an empty draft beside the target, which is removed after an error."""
    home, prefix, suffix = target.parent, f".{target.name}.", ".part"
    home.mkdir(parents=True, exist_ok=True)
    draft_name = re.compile(re.escape(prefix) + r"\w{8}" + re.escape(suffix))
    with ExitStack() as own:
        with _locked(home) as alone:  # until the new draft is locked too, nobody else sweeps
            for entry in [entry for entry in home.iterdir() if draft_name.fullmatch(entry.name)]:
                with suppress(FileNotFoundError), _locked(entry, wait=False) as abandoned:
                    if alone and abandoned:
                        _remove(entry)
            if folder:
                draft = Path(tempfile.mkdtemp(suffix, prefix, home))
            else:
                handle, name = tempfile.mkstemp(suffix, prefix, home)
                os.close(handle)
                draft = Path(name)
            own.enter_context(_locked(draft))
        try:
            yield draft
        except BaseException:
            _remove(draft)
            raise


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a file or folder; yield False where another has it, or the system has no such locks."""
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


def _remove(draft: Path) -> None:
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
