"""LiveCodeBench's code generation: programs for contest problems, graded by the hidden tests.

Rows are those of `code_generation_lite` as published; on disk they are JSON Lines, one file or a
folder of shards. A release holds gigabytes of hidden tests, so one row is in memory at a time, and
its hidden tests are read again when they are needed.

Scripts run as child processes, functions as calls, until the first test that fails. Limits are of
processor time, 6 s a test; the official harness measures real time, so that a busy machine fails
programs that pass here. A program has the names that the harness gives it, without those of
built-in functions, and reads its standard input from a file.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import code_verifier
from evals.code.programs import azr_program, official_program
from evals.data import PARQUET, Record, load_source, parse_object
from evals.errors import EvalsError
from evals.question import MAX_CHARS, Data, Grading, Pairs, ProgramOutcome, Question, SampleVerdict
from evals.recipes import own_turn

_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_PROGRAM = re.compile(
    r"</answer>|```(?:py\w*[ \t]*\n|[ \t]*\n[^`]*\b(?:def|class|import|print)\b)", re.I
)
_AHEAD = 32  # one program may take as long as hundreds of others
_SHARD = re.compile(r"-\d+-of-(\d+)$")
_TEXTS = ("question_id", "question_content", "starter_code")


def read_questions(source: str | Path | Sequence[Record]) -> list[Question]:
    """Return the questions of files or of rows, in order. The problem of each is a function that
    reads its row again, with the hidden tests, or raises EvalsError when the file has changed.
    Raises EvalsError."""
    rows: Iterable[tuple[Record, Callable[[], Record]]]
    if isinstance(source, str | Path):
        rows = stored_rows(Path(source))
    else:
        rows = ((row, partial(source.__getitem__, n)) for n, row in enumerate(source))
    return [_question(row, again, f"row {n}") for n, (row, again) in enumerate(rows, 1)]


def _question(row: Record, again: Callable[[], Record], place: str) -> Question:
    missing = [name for name in _TEXTS if not isinstance(row.get(name), str)]
    if missing:
        raise EvalsError(f"{place} lacks the texts {', '.join(missing)}")
    if isinstance(metadata := row.get("metadata"), str):
        parse_object(metadata or "{}", f"{place}: metadata")
    id, level = row["question_id"], _LEVELS.get(str(row.get("difficulty")), 0)
    fields = {"question": row["question_content"], "starter_code": row["starter_code"]}
    return Question(id, fields, again, level)


def _read_again(shard: Path, start: int, length: int) -> dict[str, Any]:
    """The row of a line of a shard, by its place in bytes."""
    try:
        with shard.open("rb") as file:
            return dict(json.loads(os.pread(file.fileno(), length, start)))
    except (OSError, ValueError, TypeError) as error:
        raise EvalsError(f"{shard} has changed since it was read: {error}") from None


def shards(path: Path) -> list[Path]:
    """Return the files of a folder in their order, or the file. Raises EvalsError."""
    if not path.is_dir():
        return [path]
    files = list(path.glob("*.jsonl"))
    if not files:
        raise EvalsError(f"{path} holds no *.jsonl; give the folder of one release")
    totals = {int(match[1]) for file in files if (match := _SHARD.search(file.stem))}
    if totals and totals != {len(files)}:
        total = " and ".join(map(str, sorted(totals)))
        raise EvalsError(f"{path} holds {len(files)} shards of {total}; fetch the whole release")
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


def stored_rows(path: Path) -> Iterator[tuple[Record, Callable[[], Record]]]:
    """Yield each row with a function that reads it again. Raises EvalsError, OSError."""
    for shard in shards(path):
        with shard.open("rb") as file:
            if file.read(4) == PARQUET:
                hint = "give JSON Lines, or a release on the hub: --data release_v5"
                raise EvalsError(f"{shard} is parquet; {hint}")
            end = file.seek(0)
            for number, line in enumerate(file, 1):
                start, end = end, end + len(line)
                if line.strip():
                    row = parse_object(line, f"{shard}, line {number}")
                    yield row, partial(_read_again, shard, start, len(line))


def load(name: str, data: Data) -> tuple[tuple[Question, ...], str]:
    """Return the questions of a file, a folder of shards or a release on the hub, and their hash.
    Hidden tests stay on disk until they are needed. Raises EvalsError."""
    if data.file is not None and data.release is None and _is_read_by_line(Path(data.file)):
        return tuple(read_questions(data.file)), content_hash(Path(data.file))
    source = load_source(name, data.file, data.release)
    return tuple(read_questions(source.rows)), source.content_hash


def _is_read_by_line(path: Path) -> bool:
    """Whether a path is a folder or a file of JSON Lines, not a JSON array, gzip or parquet."""
    if path.is_dir():
        return True
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] in (b"{", b"")


def grade(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
    """Grade programs. details: status, and the index of the failed test."""
    extract = azr_program if how.limits.program == "azr" else official_program
    programs = [
        sample.solution
        if sample.solution is not None
        else extract(own_turn(sample.response, how.template, _PROGRAM.search, code=True))
        for _, sample in pairs
    ]
    with code_verifier.ScriptRunner(how.allow_weak, threading.Semaphore(how.workers)) as runner:
        outcomes = code_verifier.ordered_map(
            lambda pair: _fault(pair[1]) or grade_program(runner, *pair, how.limits.timeout_s),
            ((question, text) for (question, _), text in zip(pairs, programs, strict=True)),
            how.workers,
            ahead=_AHEAD,
        )
        for (question, sample), program, outcome in zip(pairs, programs, outcomes, strict=True):
            answer = None if _fault(program) else program
            details: dict[str, Any] = {"question_id": question.id, "status": outcome.status}
            details["failed_test"] = outcome.failed_test
            verdict = outcome.passed, outcome.reason, answer
            yield SampleVerdict.on(question, sample, *verdict, **details)


def _fault(program: str) -> ProgramOutcome | None:
    """The outcome of an ill-formed program, which is not run; None for others."""
    reason = "no program between fences" if not program.strip() else ""
    if len(program) > MAX_CHARS:
        reason = f"a program of {len(program)} characters, more than {MAX_CHARS}"
    return ProgramOutcome(ProgramOutcome.FAIL, f"ill-formed: {reason}") if reason else None


def grade_program(
    runner: code_verifier.ScriptRunner, question: Question, program: str, timeout_s: float
) -> ProgramOutcome:
    """Return the outcome of one program on the tests of a question. timeout_s: processor seconds of
    a test. Raises SandboxUnavailable."""
    try:
        tests = code_verifier.read_tests(dict(question.problem()))
    except (code_verifier.CodeVerifierError, EvalsError) as error:
        return ProgramOutcome(None, f"problem {question.id}: {error}")
    grade = code_verifier.run_tests(runner, program, tests, timeout_s)
    if not grade.judged:
        return ProgramOutcome(None, grade.reason)
    status = ProgramOutcome.PASS if grade.score else ProgramOutcome.FAIL
    if grade.status == code_verifier.Status.TIMEOUT:
        status = ProgramOutcome.TIMEOUT
    return ProgramOutcome(status, grade.reason, None if grade.score else grade.passed)
