"""Directories and single files that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lora_evo.errors import LoraEvoError


@contextmanager
def directory_in_place_of(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `target`; when the block ends well, it becomes `target`.

    A new target appears by one rename. With `overwrite` an existing one gets the new files by one
    rename each (in the order of their names backwards, so that adapter_model.safetensors comes
    before adapter_config.json) and keeps its other files. After an error nothing is left behind.
    Raises `LoraEvoError` when the target exists and `overwrite` is false.
    """
    target = Path(os.path.abspath(target))
    refuse_existing(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield draft
        for file in draft.iterdir():
            _sync(file)
        if target.is_dir():
            for file in sorted(draft.iterdir(), reverse=True):
                file.replace(target / file.name)
            draft.rmdir()
            _sync(target)
        else:
            draft.chmod(0o777 & ~_umask())
            _sync(draft)
            draft.rename(target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file (UTF-8) so that readers see the old one or the new one, never a part.

    Folders above it are made; an existing file is replaced. Raises `LoraEvoError` when `path` is
    a folder, or has a file where a folder should be; after an error no draft is left behind.
    """
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise LoraEvoError(f"{path} is a folder; expected the name of a file to write")
    _refuse_file_above(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(0o666 & ~_umask())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
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
