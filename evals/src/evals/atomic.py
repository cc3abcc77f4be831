"""Files and directories that appear whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a path to write a file or a directory at; it takes the name `path` when all went well.

    What was written is on disk before it is renamed. After an error nothing is left of it; after a
    kill a hidden `.tmp` is.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        for written in (draft, *draft.rglob("*")):
            if written.is_file():
                with written.open("rb") as file:
                    os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed writes left in a folder that nobody writes in now."""
    for draft in folder.glob(".*.tmp"):
        shutil.rmtree(draft) if draft.is_dir() else draft.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a whole file of UTF-8 text."""
    with appearing(path) as draft:
        draft.write_text(text, encoding="utf-8")
