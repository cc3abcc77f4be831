"""LiveCodeBench's code generation: programs for contest problems, judged by the hidden tests."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.data import Data
from evals.contest.extraction import azr_program, official_program
from evals.contest.grader import PASS, ContestGrader, ContestVerdict
from evals.contest.problem import ContestProblem
from evals.contest.reading import read_contest
from evals.contest.releases import erratum, window
from evals.errors import EvalsError
from evals.functions.extraction import MAX_CHARS
from evals.recipes.chat import CHAT
from evals.sources.load import load_source
from evals.sources.official import remarks

NAME = "livecodebench"
DESCRIPTION = "LiveCodeBench: programs for contest problems; levels are easy, medium, hard"
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_CHUNK = 1 << 20


def load(data: Data) -> Benchmark:
    """Read the problems of a file, or of a release on the hub. Raises EvalsError.

    Of a file in JSON Lines, hidden tests stay on disk until they are needed.
    """
    path = None if data.file is None else Path(data.file)
    if path is not None and _json_lines(path):
        problems, digest = read_contest(path), _sha256(path)
        found, notes = f"sha256 of the file: {digest}", remarks(NAME, len(problems), digest)
    else:
        source = load_source(NAME, path, data.release if path is None else None)
        problems = read_contest(source.rows)
        found, notes = source.content_hash, source.notes
    release = data.release if path is not None else None
    chosen = window(problems, release=release, start=data.since, end=data.until)
    if len(chosen) < len(problems):
        asked = f"release {release or 'any'}, {data.since or 'start'} to {data.until or 'end'}"
        notes = (*notes, f"{len(chosen)} of {len(problems)} problems: {asked}")
        found += f"; {asked}"
        if not chosen:
            raise EvalsError(f"{NAME}: none of {len(problems)} problems: {asked}")
    wrong = [problem.question_id for problem in chosen if erratum(problem)]
    if wrong:
        notes = (
            *notes,
            f"{len(wrong)} problems have known faults in their tests and count all the same",
        )
    return Benchmark(NAME, DESCRIPTION, _questions(chosen), judge, CHAT, found, notes)


def judge(pairs: Iterable[tuple[Question, Sample]], how: Judging) -> Iterator[Judgement]:
    """Judge programs. details: the test that a program failed, and faults known of the tests."""
    listed = list(pairs)
    extract = azr_program if how.limits.get("program") == "azr" else official_program
    programs = [
        sample.solution if sample.solution is not None else extract(sample.response)
        for _, sample in listed
    ]
    seconds = float(how.limits.get("timeout_s", 6.0))
    with ContestGrader(how.workers, seconds, how.compat, allow_weak=how.allow_weak) as grader:
        verdicts = grader.grade_many(
            (question.problem, program)
            for (question, _), program in zip(listed, programs, strict=True)
            if not _fault(program)
        )
        for (question, sample), program in zip(listed, programs, strict=True):
            fault = _fault(program)
            verdict = ContestVerdict("fail", fault, None) if fault else next(verdicts)
            yield Judgement(
                id=question.id,
                sample=sample.sample,
                level=question.level,
                correct=None if verdict.status is None else verdict.status == PASS,
                reason=verdict.reason,
                extracted=None if fault else program,
                truncated=sample.truncated,
                details={
                    "question_id": question.id,
                    "status": verdict.status,
                    "failed_test": verdict.failed_test,
                    "erratum": erratum(question.problem),
                },
            )


def _fault(program: str) -> str:
    """What is wrong with the form of a program; "" for one that is run."""
    if not program.strip():
        return "ill-formed: no program between fences"
    if len(program) > MAX_CHARS:
        return f"ill-formed: a program of {len(program)} characters, more than {MAX_CHARS}"
    return ""


def _questions(problems: Sequence[ContestProblem]) -> tuple[Question, ...]:
    return tuple(
        Question(
            problem.question_id,
            {"question": problem.content, "starter_code": problem.starter_code},
            problem,
            _LEVELS.get(problem.difficulty, 0),
        )
        for problem in problems
    )


def _json_lines(path: Path) -> bool:
    """Whether a file can be read row by row; what cannot be opened is for the usual reader."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
