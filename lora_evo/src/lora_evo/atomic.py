"""Directories that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
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


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Raise `LoraEvoError` when writing to `target` would clobber something."""
    if target.exists() and not target.is_dir():
        raise LoraEvoError(f"{target} exists and is not a folder; choose another output")
    if target.exists() and not overwrite:
        raise LoraEvoError(
            f"{target} exists already; choose another output, remove it, or ask for overwriting"
        )
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
