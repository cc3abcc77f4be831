"""Python files as they lie in folders, read as texts: nothing is imported or executed."""

import io
import os
import stat
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from code_verifier.errors import CodeVerifierError, ProgramError
from code_verifier.syntax import MAX_PROGRAM

_MOST_BYTES = 4 * MAX_PROGRAM
"""No encoding of Python programs takes more for a character."""


def is_python(path: Path) -> bool:
    """Whether a file is a Python file by its name."""
    return path.suffix.lower() in (".py", ".pyw")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files that paths name, a folder the Python files in it; each once. Raises
    CodeVerifierError where there are none, OSError."""
    sources: dict[str, Path] = {}
    for path in paths:
        files = list(python_files(path)) if path.is_dir() else [path]
        if not files:
            raise CodeVerifierError(f"{path} holds no Python file (.py), nor do folders below it")
        if str(path) != "-":
            path.stat()  # to find out here whether it exists
        for file in files:
            sources.setdefault(os.path.abspath(file), file)
    return list(sources.values())


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files in a folder and all folders below, by name.

    Passed over are hidden folders and `__pycache__`, virtual environments (they hold a
    `pyvenv.cfg`), and links to folders, which may lead in circles. A folder that cannot be listed
    is yielded itself, so that `read_program` says why.
    """
    closed: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=lambda error: closed.append(_of(error))):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name != "__pycache__"
            and not os.path.lexists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from filter(is_python, (Path(place, name) for name in sorted(files)))
    yield from closed


def _of(error: OSError) -> Path:
    return Path(os.fsdecode(error.filename))


def read_program(path: Path) -> str:
    """The text of a Python file, decoded as Python does: by its byte order mark or coding cookie
    (PEP 263), else as UTF-8. Raises ProgramError that says why it cannot be read."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe or a device may never end
            raise ProgramError("cannot be read: it is not a regular file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ProgramError(f"cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ProgramError(
            f"the file has more than {_MOST_BYTES} bytes; expected at most {MAX_PROGRAM} characters"
        )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some codecs warn, and they may be errors here
            return data.decode(encoding)
    except UnicodeDecodeError as error:
        bad = error.object[error.start : error.start + 1].hex()
        raise ProgramError(f"the file is not {encoding} (it holds the byte 0x{bad})") from None
    except SyntaxError as error:
        why = str(error.msg)
        if why.startswith("invalid or missing"):
            why = "it is not UTF-8 and names no other encoding"
        raise ProgramError(f"the file cannot be decoded: {why}") from None
    except (LookupError, ValueError) as error:
        raise ProgramError(f"the file cannot be decoded: {str(error).partition(';')[0]}") from None
