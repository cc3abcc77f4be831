"""Saved samples as a benchmark judges them, whatever harness wrote them."""

import json
from pathlib import Path

from evals.benchmarks.benchmark import Benchmark, Question, Sample
from evals.errors import EvalsError
from evals.foreign.read import read_foreign
from evals.foreign.sample import ForeignSample
from evals.runs.records import read_samples

_MOST = 1 << 16


def saved_samples(path: Path, benchmark: Benchmark) -> tuple[list[Sample], tuple[str, ...]]:
    """The samples of a file or folder, and notes on what was passed over.

    Rows {"id", "response"} are our own; other forms are told apart by `read_foreign`. Raises
    EvalsError for what cannot be read, for a question that the benchmark lacks, and for none; of
    other harnesses' samples, those that this part of a benchmark lacks are passed over.
    """
    notes: tuple[str, ...] = ()
    named = {question.id: question for question in benchmark.questions}
    own = _own(path)
    if own:
        samples = read_samples(path)
    else:
        found = read_foreign(path)
        samples = [_sample(one, benchmark, named, path) for one in found.samples]
        notes = (f"samples of {found.harness}", *found.notes)
    if not samples:
        raise EvalsError(f"{path} holds no samples")
    known = [sample for sample in samples if sample.id in named]
    strange = next((sample.id for sample in samples if sample.id not in named), None)
    if strange is not None and (own or not known):
        raise EvalsError(
            f"{path}: {benchmark.name} has no task {strange!r} (first: "
            f"{benchmark.questions[0].id!r})"
        )
    if strange is not None:
        count = len(samples) - len(known)
        notes = (*notes, f"{count} samples passed over: not in this data, {strange!r} first")
    return known, notes


def _own(path: Path) -> bool:
    """Whether the first row of a file has our two fields."""
    if path.is_dir():
        return False
    try:
        with path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
    except OSError:
        return False
    if not line:
        return True
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return len(line) > _MOST or b'"response"' in line
    return isinstance(row, dict) and "response" in row and "task_id" not in row


def _sample(
    found: ForeignSample, benchmark: Benchmark, named: dict[str, Question], path: Path
) -> Sample:
    """A harness numbers the rows of data without ids, and so finds the question at that place."""
    numbered = found.index is not None and found.id == str(found.index)
    problem = found.id
    if found.index is not None and (numbered or problem not in named):
        if found.index >= len(benchmark.questions):
            raise EvalsError(
                f"{path}: document {found.index}; {benchmark.name} has "
                f"{len(benchmark.questions)} questions"
            )
        problem = benchmark.questions[found.index].id
    solution = found.solution
    if solution is None and found.completion is not None:
        prompt = named[problem].fields.get("prompt", "") if problem in named else ""
        solution = prompt + found.completion
    response = found.response if found.response is not None else solution or ""
    return Sample(problem, found.sample, response, bool(found.truncated), None, solution)
