"""One problem of LiveCodeBench, and its tests."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

STDIN, FUNCTIONAL = "stdin", "functional"


@dataclass(frozen=True)
class ContestTest:
    """One test: the text of a standard input, or a JSON argument on each line; and the output."""

    input: str
    output: str
    kind: str


@dataclass(frozen=True)
class StoredRow:
    """Where a row lies in a file, in bytes: hidden tests are too large to keep them in memory."""

    path: Path
    start: int
    length: int


@dataclass(frozen=True)
class ContestProblem:
    """function: the method of `Solution`, or module function, that functional tests call; ""
    where the program is a script. public, private: tests as published, see `tests.read_tests`.
    """

    question_id: str
    title: str
    content: str
    platform: str
    contest_id: str
    contest_date: datetime
    difficulty: str
    starter_code: str
    function: str
    public: str
    private: str | StoredRow
