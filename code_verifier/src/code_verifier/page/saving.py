"""A text file that is whole or absent."""

import os
import tempfile
from pathlib import Path

from code_verifier.errors import RecordError


def save(text: str, path: Path) -> None:
    """Write `text` to `path`: a temporary file takes its name when it is complete.

    Raises RecordError when the path is a folder or its folder is missing, OSError as it comes.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise RecordError(f"cannot write {path}: {what}; name a file in a folder that exists")
    data = text.encode("utf-8", "backslashreplace")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0o022)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
