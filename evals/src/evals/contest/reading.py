"""Reading LiveCodeBench's problems: rows of `code_generation_lite` as published, or their file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from evals.contest.problem import ContestProblem, StoredRow
from evals.errors import EvalsError
from evals.sources.json_rows import parse_object

_TEXTS = ("question_id", "question_content", "platform", "contest_date", "starter_code")


def read_contest(source: str | Path | Iterable[Mapping[str, Any]]) -> list[ContestProblem]:
    """Problems of a JSON Lines file or of rows, in their order. Raises EvalsError.

    Of a file, hidden tests stay on disk until `read_tests` needs them: a release holds gigabytes.
    """
    rows = _stored_rows(Path(source)) if isinstance(source, str | Path) else _rows(source)
    problems: dict[str, ContestProblem] = {}
    for number, (row, private) in enumerate(rows, 1):
        problem = _problem(row, private, f"row {number}")
        if problem.question_id in problems:
            raise EvalsError(f"row {number} repeats the problem {problem.question_id!r}")
        problems[problem.question_id] = problem
    if not problems:
        raise EvalsError("no problems found; expected JSON Lines with a problem on each line")
    return list(problems.values())


def _rows(
    rows: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], str | StoredRow]]:
    for row in rows:
        yield row, str(row.get("private_test_cases") or "")


def _stored_rows(path: Path) -> Iterator[tuple[Mapping[str, Any], str | StoredRow]]:
    start = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    row = parse_object(line, f"{path}, line {number}")
                    hidden = row.get("private_test_cases")
                    yield row, StoredRow(path, start, len(line)) if hidden else ""
                start += len(line)
    except OSError as error:
        raise EvalsError(f"cannot read {path}: {error.strerror}") from None


def _problem(row: Mapping[str, Any], private: str | StoredRow, place: str) -> ContestProblem:
    missing = [name for name in _TEXTS if not isinstance(row.get(name), str)]
    if missing:
        raise EvalsError(f"{place} lacks the texts {', '.join(missing)}")
    try:
        date = datetime.fromisoformat(row["contest_date"])
    except ValueError:
        found = row["contest_date"]
        raise EvalsError(f"{place}: contest_date is {found!r}; expected YYYY-MM-DD") from None
    return ContestProblem(
        question_id=row["question_id"],
        title=str(row.get("question_title", "")),
        content=row["question_content"],
        platform=row["platform"],
        contest_id=str(row.get("contest_id", "")),
        contest_date=date,
        difficulty=str(row.get("difficulty", "")),
        starter_code=row["starter_code"],
        function=_function(row.get("metadata"), place),
        public=_text(row.get("public_test_cases")),
        private=private,
    )


def _text(tests: Any) -> str:
    return tests if isinstance(tests, str) else json.dumps(tests or [])


def _function(metadata: Any, place: str) -> str:
    if isinstance(metadata, str):
        metadata = parse_object((metadata or "{}").encode(), f"{place}: metadata")
    name = (metadata or {}).get("func_name") if isinstance(metadata, dict | None) else None
    return name if isinstance(name, str) else ""
