"""The problems of LiveCodeBench and their tests: rows of `code_generation_lite` as published.

Public tests are JSON, hidden ones packed as base64(zlib(pickle(JSON))). Hidden tests stay on disk
until they are needed: a release holds gigabytes.
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from evals.errors import EvalsError
from evals.livecodebench.stored import HIDDEN, stored_rows
from evals.sources import HubRows, parse_object

STDIN, FUNCTIONAL = "stdin", "functional"
_TEXTS = ("question_id", "question_content", "contest_date", "starter_code")
_MOST_BYTES = 1 << 30
_UNPICKLING = (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)

ERRATA: dict[str, str] = {
    name: fault
    for fault, names in (
        (
            "several outputs are right, and the tests know one",
            "abc311_c abc326_d abc327_b abc333_e abc343_e abc362_c abc343_a arc185_c "
            "find-words-containing-character find-the-peaks "
            "generate-binary-strings-without-adjacent-zeros",
        ),
        ("interactive: nothing can pass", "abc337_e abc355_e"),
        (
            "a test is wrong",
            "abc350_c apply-operations-to-make-string-empty most-frequent-ids arc189_a",
        ),
    )
    for name in names.split()
}
"""By question id, or title on LeetCode (LiveCodeBench, ERRATA.md). They count like all others, as
in published results, and are to be named with the result."""


@dataclass(frozen=True)
class Case:
    """One test: the text of a standard input, or a JSON argument on each line; and the output."""

    input: str
    output: str
    kind: str


@dataclass(frozen=True)
class Problem:
    """function: the method of `Solution`, or module function, that functional tests call; ""
    where the program is a script. public, private: tests as published, or what reads them, see
    `read_tests`.
    """

    question_id: str
    title: str
    content: str
    contest_date: datetime
    difficulty: str
    starter_code: str
    function: str
    public: str
    private: str | Callable[[], str]


def read_problems(source: str | Path | Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Return the problems of files (see `stored`) or of rows, in order. Raises EvalsError."""
    rows: Iterable[tuple[Mapping[str, Any], str | Callable[[], str]]]
    if isinstance(source, str | Path):
        rows = stored_rows(Path(source))
    elif isinstance(source, HubRows):
        rows = ((row, partial(_hidden, source, n)) for n, row in enumerate(source))
    else:
        rows = ((row, str(row.get(HIDDEN) or "")) for row in source)
    problems: dict[str, Problem] = {}
    for number, (row, private) in enumerate(rows, 1):
        problem = _problem(row, private, f"row {number}")
        if problem.question_id in problems:
            raise EvalsError(f"row {number} repeats the problem {problem.question_id!r}")
        problems[problem.question_id] = problem
    return list(problems.values())


def _hidden(rows: HubRows, number: int) -> str:
    return str(rows[number].get(HIDDEN) or "")


def _problem(row: Mapping[str, Any], private: str | Callable[[], str], place: str) -> Problem:
    missing = [name for name in _TEXTS if not isinstance(row.get(name), str)]
    if missing:
        raise EvalsError(f"{place} lacks the texts {', '.join(missing)}")
    public = row.get("public_test_cases")
    return Problem(
        question_id=row["question_id"],
        title=str(row.get("question_title", "")),
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
    private = problem.private if isinstance(problem.private, str) else problem.private()
    place = f"problem {problem.question_id}"
    return (*_parsed(problem.public, place), *_parsed(unpack_tests(private, place), place))


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


def erratum(problem: Problem) -> str | None:
    """Return what is wrong with the tests of a problem, if anything is known."""
    return ERRATA.get(problem.question_id) or ERRATA.get(problem.title)


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
