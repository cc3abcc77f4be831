"""The problems of LiveCodeBench and their tests: rows of `code_generation_lite` as published.

On disk they are JSON Lines, one file or a folder of shards. A release holds gigabytes of hidden
tests, so one row is in memory at a time, and its hidden tests are read again when they are needed.
Public tests are JSON, hidden ones packed as base64(zlib(pickle(JSON))).
"""

import base64
import binascii
import hashlib
import io
import json
import os
import pickle
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

from evals.errors import EvalsError
from evals.sources import PARQUET, parse_object

STDIN, FUNCTIONAL = "stdin", "functional"
_TEXTS = ("question_id", "question_content", "contest_date", "starter_code")
_MOST_BYTES = 1 << 30
_UNPICKLING = (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)

_Stored: TypeAlias = tuple[Mapping[str, Any], Callable[[], str]]
"""A row, and what reads its hidden tests."""


@dataclass(frozen=True)
class Case:
    """One test: the text of a standard input, or a JSON argument on each line; and the output."""

    input: str
    output: str
    kind: str


@dataclass(frozen=True)
class Problem:
    """function: the method of `Solution`, or module function, that functional tests call; ""
    where the program is a script. public: tests as published; private: what reads the hidden ones.
    """

    question_id: str
    content: str
    contest_date: datetime
    difficulty: str
    starter_code: str
    function: str
    public: str
    private: Callable[[], str]


def read_problems(source: str | Path | Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return the problems of files or of rows, in order. Raises EvalsError."""
    rows: Iterable[_Stored]
    if isinstance(source, str | Path):
        rows = stored_rows(Path(source))
    else:
        rows = ((row, partial(_hidden, source, n)) for n, row in enumerate(source))
    return [_problem(row, private, f"row {n}") for n, (row, private) in enumerate(rows, 1)]


def _hidden(rows: Sequence[Mapping[str, Any]], number: int) -> str:
    return str(rows[number].get(HIDDEN) or "")


def _problem(row: Mapping[str, Any], private: Callable[[], str], place: str) -> Problem:
    missing = [name for name in _TEXTS if not isinstance(row.get(name), str)]
    if missing:
        raise EvalsError(f"{place} lacks the texts {', '.join(missing)}")
    public = row.get("public_test_cases")
    return Problem(
        question_id=row["question_id"],
        content=row["question_content"],
        contest_date=_date(row["contest_date"], f"{place}: contest_date"),
        difficulty=str(row.get("difficulty", "")),
        starter_code=row["starter_code"],
        function=_function(row.get("metadata"), place),
        public=public if isinstance(public, str) else json.dumps(public or []),
        private=private,
    )


def _function(metadata: Any, place: str) -> str:
    if isinstance(metadata, str):
        metadata = parse_object((metadata or "{}").encode(), f"{place}: metadata")
    name = (metadata or {}).get("func_name") if isinstance(metadata, dict | None) else None
    return name if isinstance(name, str) else ""


def read_tests(problem: Problem) -> tuple[Case, ...]:
    """Return the public tests, then the hidden ones. Raises EvalsError."""
    place = f"problem {problem.question_id}"
    private = unpack_tests(problem.private(), place)
    return (*_parsed(problem.public, place), *_parsed(private, place))


class PlainUnpickler(pickle.Unpickler):
    """Loads texts, numbers and containers; refuses to look up any class or function."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def unpack_tests(packed: str, place: str) -> str:
    """Return the JSON text of hidden tests, packed or not. Raises EvalsError."""
    if not packed or packed.lstrip()[:1] == "[":
        return packed
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        if unzip.unconsumed_tail:
            raise EvalsError(f"{place}: hidden tests of more than {_MOST_BYTES >> 20} MiB")
        text = PlainUnpickler(io.BytesIO(data)).load()
    except EvalsError:
        raise
    except (binascii.Error, zlib.error, pickle.UnpicklingError, *_UNPICKLING) as error:
        raise EvalsError(f"{place}: hidden tests cannot be unpacked: {error}") from None
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise EvalsError(f"{place}: hidden tests hold {type(text).__name__}; expected JSON text")
    return text


def _parsed(text: str, place: str) -> list[Case]:
    try:
        rows: Any = json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{place}: tests are not JSON ({error})") from None
    if not isinstance(rows, list):
        raise EvalsError(f"{place}: tests are {type(rows).__name__}; expected a list")
    return [_test(row, place) for row in rows]


def _test(row: Any, place: str) -> Case:
    if not isinstance(row, dict):
        raise EvalsError(f"{place}: a test is {type(row).__name__}; expected an object")
    fields = row.get("input"), row.get("output"), row.get("testtype")
    if not all(isinstance(field, str) for field in fields) or fields[2] not in (STDIN, FUNCTIONAL):
        raise EvalsError(f"{place}: a test lacks the texts input, output or testtype")
    return Case(*map(str, fields))


def window(
    problems: Iterable[Problem], start: str | None = None, end: str | None = None
) -> list[Problem]:
    """Return the problems of contest dates from `start` to `end`, both inclusive.

    Dates are YYYY-MM-DD and mean midnight, so contests later on the day `end` are left out, as
    LiveCodeBench does. Raises EvalsError.
    """
    first = _date(start, "the first date") if start is not None else datetime.min
    last = _date(end, "the last date") if end is not None else datetime.max
    return [problem for problem in problems if first <= problem.contest_date <= last]


def _date(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise EvalsError(f"{name} is {text!r}; expected YYYY-MM-DD") from None


HIDDEN = "private_test_cases"
_SHARD = re.compile(r"-\d+-of-(\d+)$")


@dataclass(frozen=True)
class StoredRow:
    """Where a line of JSON with hidden tests lies, in bytes."""

    place: Path
    start: int
    length: int

    def __call__(self) -> str:
        """Return the hidden tests. Raises EvalsError when the file has changed."""
        try:
            with self.place.open("rb") as file:
                data = os.pread(file.fileno(), self.length, self.start)
            return str(json.loads(data).get(HIDDEN) or "")
        except (OSError, ValueError, AttributeError) as error:
            raise EvalsError(f"{self.place} has changed since it was read: {error}") from None


def shards(path: Path) -> list[Path]:
    """Return the files of a folder in their order, or the file. Raises EvalsError."""
    if not path.is_dir():
        return [path]
    files = list(path.glob("*.jsonl"))
    if not files:
        raise EvalsError(f"{path} holds no *.jsonl; give the folder of one release")
    totals = {int(match[1]) for file in files if (match := _SHARD.search(file.stem))}
    if totals and totals != {len(files)}:
        wanted = " and ".join(map(str, sorted(totals)))
        raise EvalsError(f"{path} holds {len(files)} shards of {wanted}; fetch the whole release")
    return sorted(files, key=lambda file: (len(file.name), file.name))


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and SHA-256 of a folder's shards."""
    digests = {}
    for shard in shards(path):
        with shard.open("rb") as file:
            digests[shard.name] = hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return f"sha256 of the file: {digests[path.name]}"
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    return f"sha256 of {len(digests)} files: {hashlib.sha256(lines.encode()).hexdigest()}"


def stored_rows(path: Path) -> Iterator[_Stored]:
    """Yield each row, and where its hidden tests are. Raises EvalsError."""
    for shard in shards(path):
        try:
            with shard.open("rb") as file:
                if file.read(4) == PARQUET:
                    raise EvalsError(
                        f"{shard} is parquet; give JSON Lines, or a release on the hub: "
                        "--data release_v5"
                    )
                file.seek(0)
                yield from _lines(file, shard)
        except OSError as error:
            raise EvalsError(f"cannot read {shard}: {error.strerror or error}") from None


def _lines(file: BinaryIO, shard: Path) -> Iterator[_Stored]:
    start = 0
    for number, line in enumerate(file, 1):
        if line.strip():
            row = parse_object(line, f"{shard}, line {number}")
            yield row, StoredRow(shard, start, len(line))
        start += len(line)
