"""The problems of LiveCodeBench and their tests: rows of `code_generation_lite` as published.

On disk they are JSON Lines, one file or a folder of shards. A release holds gigabytes of hidden
tests, so one row is in memory at a time, and its hidden tests are read again when they are needed.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from evals.errors import EvalsError
from evals.sources import PARQUET, parse_object

_TEXTS = ("question_id", "question_content", "contest_date", "starter_code")

_Stored: TypeAlias = tuple[Mapping[str, Any], Callable[[], str]]
"""A row, and what reads its hidden tests."""


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


def row_of_tests(problem: Problem) -> dict[str, Any]:
    """Return the columns of all tests of a problem. Raises EvalsError when its file has changed."""
    row = {"public_test_cases": problem.public, "private_test_cases": problem.private()}
    return {**row, "metadata": {"func_name": problem.function}}


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
