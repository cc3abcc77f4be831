"""Samples in evalplus' forms: JSON Lines with `solution` or `completion`, or folders of programs.

A `solution` is a whole program; a `completion` is appended to the prompt of its task, and counts
only where there is no solution. In a folder
the program number N of a task is `TASK_ID/N.py`, with `_` for the `/` of the id.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evals.errors import EvalsError
from evals.functions.problem import FunctionProblem
from evals.functions.reading import read_rows


@dataclass(frozen=True)
class FunctionSample:
    """A whole program for a problem."""

    problem: FunctionProblem
    program: str


def read_function_samples(
    source: Path, problems: Iterable[FunctionProblem]
) -> Iterator[FunctionSample]:
    """The samples of a file or a folder, in its order. Raises EvalsError for an unknown task."""
    known = {problem.task_id: problem for problem in problems}
    if source.is_dir():
        yield from _folder(source, known)
        return
    for number, row in enumerate(read_rows(source), 1):
        place = f"{source}, sample {number}"
        problem = known.get(str(row.get("task_id")))
        if problem is None:
            raise EvalsError(
                f"{place}: found the task {row.get('task_id')!r}; expected one of the {len(known)} "
                "tasks that were read"
            )
        yield FunctionSample(problem, whole_program(problem, row, place))


def whole_program(problem: FunctionProblem, row: Mapping[str, object], place: str) -> str:
    """The program of a row. Raises EvalsError when it has none."""
    solution, completion = row.get("solution"), row.get("completion")
    if isinstance(solution, str):
        return solution
    if solution is None and isinstance(completion, str):
        return problem.prompt + completion
    raise EvalsError(f"{place}: expected text as `solution` or `completion`")


def _folder(folder: Path, known: Mapping[str, FunctionProblem]) -> Iterator[FunctionSample]:
    for task_id, problem in known.items():
        own = folder / task_id.replace("/", "_")
        numbered = [path for path in own.glob("*.py") if path.stem.isdecimal()]
        for path in sorted(numbered, key=lambda path: int(path.stem)):
            try:
                yield FunctionSample(problem, path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise EvalsError(f"cannot read {path}: {error}") from None
