"""Reading HumanEval+ and MBPP+ as they are published: JSON Lines, plain or gzipped.

With `json`, not with `datasets`: the files hold integers of more than 64 bits and lists of mixed
types, which Arrow cannot hold ("Value is too big!").
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evals.errors import EvalsError
from evals.functions.mbpp_inputs import python_arguments
from evals.functions.problem import HUMANEVAL, MBPP, Arguments, FunctionProblem
from evals.sources.json_rows import parse_object

_TEXTS = ("task_id", "prompt", "entry_point", "canonical_solution")
_LISTS = ("base_input", "plus_input")


def read_functions(
    source: str | Path | Iterable[Mapping[str, Any]], benchmark: str
) -> list[FunctionProblem]:
    """Problems of a published file (`.jsonl`, `.jsonl.gz`) or of its rows, in their order.

    benchmark: `humaneval_plus` or `mbpp_plus`. Raises EvalsError.
    """
    if benchmark not in (HUMANEVAL, MBPP):
        raise EvalsError(f"unknown benchmark {benchmark!r}; expected {HUMANEVAL} or {MBPP}")
    if isinstance(source, str | Path):
        rows: Iterable[Mapping[str, Any]] = read_rows(Path(source))
    else:
        rows = source
    problems: dict[str, FunctionProblem] = {}
    for number, row in enumerate(rows, 1):
        problem = _problem(row, benchmark, f"row {number}")
        if problem.task_id in problems:
            raise EvalsError(f"row {number} repeats the task {problem.task_id!r}; expected it once")
        problems[problem.task_id] = problem
    if not problems:
        raise EvalsError("no problems found; expected JSON Lines with a problem on each line")
    return list(problems.values())


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, gzipped or not. Raises EvalsError."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield parse_object(line, f"{path}, line {number}")
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EvalsError(f"cannot read {path}: {reason}") from None


def _problem(row: Mapping[str, Any], benchmark: str, place: str) -> FunctionProblem:
    missing = [name for name in (*_TEXTS, *_LISTS, "atol") if name not in row]
    if missing:
        hint = ""
        if "test" in row or "test_list" in row:
            hint = "; this is the OriginFmt file, take the one without that word in its name"
        raise EvalsError(f"{place} lacks {', '.join(missing)}{hint}")
    for name in _TEXTS:
        if not isinstance(row[name], str):
            raise EvalsError(f"{place}: {name} is {row[name]!r}; expected text")
    for name in _LISTS:
        inputs = row[name] or []  # Mbpp/793 has an empty object for no inputs
        if not isinstance(inputs, list) or not all(isinstance(item, list) for item in inputs):
            raise EvalsError(f"{place}: {name} is not a list of lists of arguments")
    if not isinstance(row["atol"], int | float):
        raise EvalsError(f"{place}: atol is {row['atol']!r}; expected a number")
    texts = {name: str(row[name]) for name in _TEXTS}
    try:
        base, plus = (_arguments(row["task_id"], row[name] or [], benchmark) for name in _LISTS)
    except (TypeError, ValueError, AttributeError) as error:
        raise EvalsError(f"{place}: inputs do not fit {row['task_id']}: {error}") from None
    atol = float(row["atol"])
    return FunctionProblem(benchmark, **texts, base_input=base, plus_input=plus, atol=atol)


def _arguments(task_id: str, inputs: list[list[Any]], benchmark: str) -> tuple[Arguments, ...]:
    if benchmark == MBPP:
        return tuple(python_arguments(task_id, item) for item in inputs)
    return tuple(map(tuple, inputs))
