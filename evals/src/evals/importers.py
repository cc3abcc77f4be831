"""Saved samples as a benchmark grades them: our own, and those of evalplus and lm-eval."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evals.benchmark import Benchmark, Question, Sample
from evals.errors import EvalsError
from evals.records import read_samples
from evals.sources import Row, kind, parse_rows, read_bytes

_EXPECTED = (
    "expected samples of evals (id and response), of evalplus (task_id and solution or completion; "
    "TASK_ID/N.py; _eval_results.json) or of lm-eval --log_samples (doc_id and resps)"
)
_NAMES = ("task_id", "question_id", "unique_id", "problem_id", "id", "idx")


def saved_samples(path: Path, benchmark: Benchmark) -> tuple[list[Sample], list[str]]:
    """Read the samples of a file (gzip is fine) or folder, and notes on what was passed over.

    A file is recognised by its content. Raises EvalsError for what cannot be read, for a
    question that the benchmark lacks, and for no samples; of other harnesses' samples, those that
    this part of a benchmark lacks are passed over.
    """
    named = {question.id: question for question in benchmark.questions}
    harness, notes = "", []
    if path.is_dir():
        harness, samples = "evalplus", list(_programs(path))
    else:
        rows = parse_rows(read_bytes(path), str(path))
        if not rows:
            raise EvalsError(f"{path} holds no samples; {_EXPECTED}")
        if "response" in rows[0] and "task_id" not in rows[0]:
            samples = read_samples(path)
        elif len(rows) == 1 and isinstance(rows[0].get("eval"), dict):
            harness, samples = "evalplus", list(_results(rows[0]["eval"], str(path)))
        elif all("doc_id" in row and "resps" in row for row in rows):
            harness, samples = "lm-eval", list(_log(rows, str(path), benchmark, named))
        elif all("task_id" in row for row in rows):
            harness, samples = "evalplus", list(_samples(rows, str(path), named))
        else:
            raise EvalsError(f"{path}: found fields {', '.join(list(rows[0])[:8])}; {_EXPECTED}")
    known = [sample for sample in samples if sample.id in named]
    strange = next((sample.id for sample in samples if sample.id not in named), None)
    if strange is not None and not (harness and known):
        raise EvalsError(
            f"{path}: {benchmark.name} has no task {strange!r} (first: "
            f"{benchmark.questions[0].id!r})"
        )
    if not known:
        raise EvalsError(f"{path} holds no samples; {_EXPECTED}")
    if harness:
        notes.append(f"samples of {harness}")
    if strange is not None:
        count = len(samples) - len(known)
        notes.append(f"{count} samples passed over: not in this data, {strange!r} first")
    return known, notes


def _samples(rows: Sequence[Row], place: str, named: dict[str, Question]) -> Iterator[Sample]:
    """Rows {"task_id", "solution"} (whole programs) or {"task_id", "completion"}."""
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        problem, solution = str(row["task_id"]), row.get("solution")
        if solution is None and isinstance(row.get("completion"), str):
            prompt = named[problem].fields.get("prompt", "") if problem in named else ""
            solution = prompt + row["completion"]
        if not isinstance(solution, str):
            raise EvalsError(f"{here}: neither solution nor completion; found {', '.join(row)}")
        yield _program(problem, seen[problem], solution)
        seen[problem] += 1


def _results(found: dict[str, Any], place: str) -> Iterator[Sample]:
    """{task id: [{"solution", "base_status", "plus_status", ...}]} of `evalplus.evaluate`."""
    for problem, rows in found.items():
        for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
            solution = row.get("solution") if isinstance(row, dict) else None
            if not isinstance(solution, str):
                raise EvalsError(f"{place}, {problem}: sample {number} has no solution")
            yield _program(problem, number, solution)


def _programs(folder: Path) -> Iterator[Sample]:
    """TASK_ID/N.py, `_` for the `/` of an id."""
    for path in sorted(folder.glob("*/*.py"), key=lambda p: (p.parent.name, len(p.stem), p.stem)):
        if path.stem.isdecimal():
            try:
                solution = read_bytes(path).decode("utf-8")
            except UnicodeDecodeError:
                raise EvalsError(f"{path} is not UTF-8 text") from None
            yield _program(path.parent.name.replace("_", "/"), int(path.stem), solution)


def _program(problem: str, number: int, solution: str) -> Sample:
    return Sample(problem, number, solution, solution=solution)


def _log(
    rows: Sequence[Row], place: str, benchmark: Benchmark, named: dict[str, Question]
) -> Iterator[Sample]:
    """Rows {"doc_id", "doc", "resps", "filter"?, ...} of lm-eval's `--log_samples`.

    A task with several filters has a row for each; they are the same samples. The id is the
    document's own where it has one that the benchmark knows, else the question at its number.
    Raises EvalsError for a task without generated text (log-likelihoods).
    """
    found: dict[tuple[str, int], Sample] = {}
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        requests = row["resps"]
        texts = requests[0] if isinstance(requests, list) and len(requests) == 1 else None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise EvalsError(f"{here}: resps holds no generated text; this task is no generation")
        problem = _question(row, here, benchmark, named)
        for at, text in enumerate(texts):
            sample = found.setdefault((problem, at), Sample(problem, at, text))
            if sample.response != text:
                raise EvalsError(f"{here}: {problem!r} has other responses than before")
    yield from found.values()


def _question(row: Row, here: str, benchmark: Benchmark, named: dict[str, Question]) -> str:
    doc, index = row.get("doc"), row["doc_id"]
    own = (str(doc[name]) for name in _NAMES if name in doc) if isinstance(doc, dict) else ()
    known = next((name for name in own if name in named), None)
    if known is not None:
        return known
    if not isinstance(index, int):
        raise EvalsError(f"{here}: doc_id is {kind(index)}; expected a number")
    if index >= len(benchmark.questions):
        raise EvalsError(
            f"{here}: document {index}; {benchmark.name} has {len(benchmark.questions)} questions"
        )
    return benchmark.questions[index].id
