"""Files of users: JSON Lines, one object a line, in and out, and the fields of a row; and Python
files in folders, which are read as texts, never imported or executed.

Memory is bounded for any file. Finished results are never lost: each row is written at once to
`OUT.PID.part`, which is renamed to `OUT` when the work ends, also by an error, an interrupt or a
full disk. Only a killed process leaves it behind.
"""

import gzip
import io
import json
import math
import os
import shlex
import stat
import sys
import tokenize
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from code_verifier.errors import CodeVerifierError, ProgramError
from code_verifier.syntax import MAX_PROGRAM

MAX_LINE = 8 * 2**20
"""Most bytes of a line; ten times as many as the default limits allow."""

Row = dict[str, Any]


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a JSON Lines file with their line numbers, from 1. Blank lines are
    skipped, `-` is standard input, gzip is recognised by content. Raises CodeVerifierError for a
    file or a line that cannot be read, OSError.
    """
    name = "standard input" if str(path) == "-" else str(path)
    if path.is_dir():
        raise CodeVerifierError(f"{path} is a folder; expected a JSON Lines file")
    opened: Any = nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb", 0)
    with opened as raw:
        number, reader = 0, io.BufferedReader(raw)
        try:
            packed = reader.peek(2).startswith(b"\x1f\x8b")
            file: Any = gzip.GzipFile(fileobj=reader, mode="rb") if packed else reader
            while line := file.readline(MAX_LINE + 1):
                number += 1
                row = _parse_line(line, f"{name}, line {number}")
                if row is not None:
                    yield number, row
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CodeVerifierError(
                f"{name}, line {number + 1}: broken gzip data ({error})"
            ) from None
        except OSError as error:
            error.filename = name  # a failed read names no file
            raise
        finally:
            reader.detach()  # standard input stays open


def _parse_line(line: bytes, place: str) -> Row | None:
    """The object of one line, None for a blank one. Raises CodeVerifierError."""
    why = f"longer than {MAX_LINE} bytes"
    try:
        if len(line) <= MAX_LINE:
            text = line.decode("utf-8-sig")
            row = json.loads(text, object_pairs_hook=_object) if text.strip() else None
            if isinstance(row, dict) or not text.strip():
                return row
            why = f"found {type(row).__name__}"
    except UnicodeDecodeError as error:
        why = f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
    except json.JSONDecodeError as error:
        why = f"not JSON ({error.msg}, column {error.colno})"
    except RecursionError:
        why = "nested too deep"
    except ValueError as error:
        why = f"not usable JSON ({error})"
    raise CodeVerifierError(f"{place}: {why}; expected one JSON object a line")


def _object(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {twice[:60]!r} appears twice")
    return row


def text_field(row: Mapping[str, Any], *names: str) -> str:
    """Return the first of the named fields that the row has; it must be a text."""
    for name in names:
        text = text_or_none(row, name)
        if text is not None:
            return text
    fields = ", ".join([repr(name[:40]) for name in row][:8]) or "nothing"
    raise CodeVerifierError(f"field {' or '.join(map(repr, names))} is missing; found {fields}")


def text_or_none(row: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text; missing is null."""
    text: str | None = typed_field(row, name, str, "a text")
    return text


def text_list(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that is a list of texts; missing is empty."""
    texts = tuple(typed_field(row, name, list | tuple, "a list of texts") or ())
    for place, item in enumerate(texts, 1):
        if not isinstance(item, str):
            kind = type(item).__name__
            raise CodeVerifierError(f"field {name!r} has a {kind} as item {place}; expected texts")
    return texts


def typed_field(row: Mapping[str, Any], name: str, kind: Any, expected: str) -> Any:
    """Return a field of this type; missing is null."""
    value = row.get(name)
    if value is not None:
        require_type(value, kind if type(value) is not bool else (), f"field {name!r}", expected)
    return value


def require_type(value: object, kind: Any, name: str, expected: str) -> None:
    """Raise CodeVerifierError for a value of another type. name: of the value, for the message."""
    if not isinstance(value, kind):
        raise CodeVerifierError(f"{name} is of type {type(value).__name__}; expected {expected}")


def program_of(row: Mapping[str, Any], required: bool = True) -> str:
    """Return the program of a row: `program`, or AZR's `snippet` behind its `imports`."""
    program = text_or_none(row, "program")
    if program is not None:
        return program
    if not required and row.get("snippet") is None:
        return ""
    snippet = text_field(row, "program", "snippet")
    lines = {line.strip() for line in snippet.splitlines()}
    imports = [line for line in text_list(row, "imports") if line.strip() not in lines]
    return "\n".join([*imports, snippet])


def id_of(row: Mapping[str, Any], place: str | int | None = None) -> str | int | float | None:
    """Return the row's `id`, or its place. An id is a text, a finite number or null."""
    name: Any = row.get("id", place)
    finite = not isinstance(name, float) or math.isfinite(name)
    if not finite or not isinstance(name, str | int | float | None):
        raise CodeVerifierError(f"field 'id' is {str(name)[:60]}; expected a text or a number")
    return name


def name_of(row: Mapping[str, Any], place: str | int) -> Any:
    """Return the row's `id` or `task_id`, which may be 0, for a message; else its place."""
    names = (row.get("id"), row.get("task_id"))
    return next((name for name in names if name not in (None, "")), place)


@contextmanager
def open_results(path: Path, sources: Sequence[Path]) -> Iterator[Callable[[Row], None]]:
    """Open the results of reading `sources`, and yield the function that writes one row, whole.

    `-` is standard output; a device is written directly, and a link's target is what is written.
    Raises CodeVerifierError, OSError.
    """
    if str(path) == "-" and sys.stdout.name == os.devnull:
        raise CodeVerifierError("standard output is closed; name a file to write with --out")
    if str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        with nullcontext(sys.stdout.buffer) if str(path) == "-" else path.open("wb", 0) as file:
            yield lambda row: _write(cast(BinaryIO, file), row, path)
        return
    check_output(path, sources)
    target, part = draft_of(path)
    with part.open("wb", 0) as file:
        try:
            yield lambda row: _write(cast(BinaryIO, file), row, part)
        finally:
            if size := file.tell():
                os.fsync(file.fileno())
            file.close()
            if size:
                os.replace(part, target)
            else:
                part.unlink()


def draft_of(path: Path) -> tuple[Path, Path]:
    """Return the file that a path, which may be a link, leads to; and one next to it to write
    first, and then rename. A name has at most 255 bytes."""
    target, end = Path(os.path.realpath(path)), f".{os.getpid()}.part"
    start = os.fsdecode(os.fsencode(target.name)[: 255 - len(end)])
    return target, target.with_name(start + end)


def check_output(path: Path, sources: Iterable[Path] = ()) -> None:
    """Raise CodeVerifierError if no file can be written at `path`, or if it would overwrite one of
    `sources`."""
    home = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if path.is_dir() or not home.is_dir():
        reason = f"there is no folder {home}; type: mkdir -p {shlex.quote(str(home))}"
        reason = "it is a folder; name a file" if path.is_dir() else reason
        raise CodeVerifierError(f"cannot write {path}: {reason}")
    for source in sources if path.exists() else ():
        with suppress(OSError):  # a missing source cannot be overwritten
            if path.samefile(source):
                raise CodeVerifierError(f"{path} is the input itself; name another file to write")


def _write(file: BinaryIO, row: Row, path: Path) -> None:
    data, sent = (json.dumps(row) + "\n").encode(), 0
    end = file.tell() if file.seekable() else None
    try:
        while sent < len(data):
            sent += file.write(data[sent:]) or 0
        file.flush()
    except BaseException as error:
        with suppress(OSError):
            if end is not None and file.tell() < end + len(data):  # no part of a row stays
                file.seek(end)
                file.truncate()
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def is_python(path: Path) -> bool:
    """Return whether a file has the name of a Python file."""
    return path.suffix.lower() in (".py", ".pyw")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files of paths, each once; of a folder, the Python files in it. Raises
    CodeVerifierError for a folder without any, OSError."""
    sources: dict[str, Path] = {}
    for path in paths:
        files = list(python_files(path)) if path.is_dir() else [path]
        if not files:
            raise CodeVerifierError(f"{path} holds no Python file (.py), nor do folders below it")
        if str(path) != "-":
            path.stat()  # raises if it is missing
        for file in files:
            sources.setdefault(os.path.abspath(file), file)
    return list(sources.values())


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files in a folder and all folders below, by name.

    Skipped are hidden folders, `__pycache__`, virtual environments (they hold a `pyvenv.cfg`), and
    links to folders, which may form circles. A folder that cannot be listed is yielded itself, so
    that `read_program` says why.
    """
    closed: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name != "__pycache__"
            and not os.path.lexists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from filter(is_python, (Path(place, name) for name in sorted(files)))
    yield from (Path(os.fsdecode(error.filename)) for error in closed)


def read_program(path: Path) -> str:
    """Return the text of a Python file, decoded by its byte order mark or coding cookie (PEP 263),
    else as UTF-8. Raises ProgramError that says why it cannot be read."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe or a device may never end
            raise ProgramError("cannot be read: it is not a regular file")
        # Some codecs warn, and warnings may be errors here.
        with warnings.catch_warnings(action="ignore"), tokenize.open(str(path)) as file:
            return file.read(MAX_PROGRAM + 1)
    except OSError as error:
        raise ProgramError(f"cannot be read: {error.strerror}") from None
    except (SyntaxError, LookupError, UnicodeError) as error:
        why = str(error).replace(f" for {str(path)!r}", "").partition(";")[0]
        raise ProgramError(f"the file cannot be decoded: {why}") from None
