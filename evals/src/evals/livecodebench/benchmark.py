"""LiveCodeBench's code generation: programs for contest problems, graded by the hidden tests."""

import re
from collections.abc import Iterator
from pathlib import Path

from evals.benchmark import (
    FAIL,
    MAX_CHARS,
    PASS,
    Benchmark,
    Data,
    Grading,
    Outcome,
    Question,
    Sample,
    Verdict,
)
from evals.errors import EvalsError
from evals.livecodebench.grader import LiveCodeBenchGrader
from evals.livecodebench.problems import content_hash, read_problems, window
from evals.recipes import CHAT
from evals.sources import load_source, remarks
from evals.turns import own_turn

DESCRIPTIONS = {
    "livecodebench": "LiveCodeBench: programs for contest problems; levels are easy, medium, hard"
}
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_FENCE = "```"
_BLOCK = re.compile(r"```python\s*(.*?)```", re.S)
_PROGRAM = re.compile(
    r"</answer>|```(?:py\w*[ \t]*\n|[ \t]*\n[^`]*\b(?:def|class|import|print)\b)", re.I
)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.S)


def load(name: str, data: Data) -> Benchmark:
    """Load the problems of a file or a folder of shards, or of a release on the hub.

    Hidden tests stay on disk until they are needed. Raises EvalsError.
    """
    if data.file is not None and data.release is None:
        problems = read_problems(data.file)
        digest = content_hash(Path(data.file))
        notes: tuple[str, ...] = (remarks(name, len(problems)),)
    else:
        source = load_source(name, data.file, data.release)
        problems, digest, notes = read_problems(source.rows), source.content_hash, source.notes
    chosen = window(problems, data.since, data.until)
    if len(chosen) < len(problems):
        dates = f"{data.since or 'start'} to {data.until or 'end'}"
        if not chosen:
            raise EvalsError(f"{name}: none of {len(problems)} problems: {dates}")
        notes = (*notes, f"{len(chosen)} of {len(problems)} problems: {dates}")
        digest += f"; {dates}"
    questions = tuple(
        Question(
            problem.question_id,
            {"question": problem.content, "starter_code": problem.starter_code},
            problem,
            _LEVELS.get(problem.difficulty, 0),
        )
        for problem in chosen
    )
    return Benchmark(name, DESCRIPTIONS[name], questions, grade, CHAT, digest, notes)


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[Verdict]:
    """Grade programs. details: the test that a program failed."""
    extract = azr_program if how.limits.program == "azr" else official_program
    programs = [
        sample.solution
        if sample.solution is not None
        else extract(own_turn(sample.response, how.template, _PROGRAM.search, code=True))
        for _, sample in pairs
    ]
    with LiveCodeBenchGrader(how.workers, how.limits.timeout_s, how.allow_weak) as grader:
        outcomes = grader.grade_many(
            (question.problem, program)
            for (question, _), program in zip(pairs, programs, strict=True)
            if not _fault(program)
        )
        for (question, sample), program in zip(pairs, programs, strict=True):
            fault = _fault(program)
            outcome = Outcome(FAIL, fault) if fault else next(outcomes)
            yield Verdict.on(
                question,
                sample,
                None if outcome.status is None else outcome.status == PASS,
                outcome.reason,
                None if fault else program,
                question_id=question.id,
                status=outcome.status,
                failed_test=outcome.failed_test,
            )


def official_program(answer: str) -> str:
    """Return the lines between the last two that hold three backticks; "" for fewer.

    It is the rule of LiveCodeBench's own harness, and not that of code_verifier's rewards: a
    block of output behind the program is taken for it.
    """
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def azr_program(answer: str) -> str:
    """Return the last python block in the last answer tag; without one, the tag's or all text.

    It is Absolute Zero's own rule.
    """
    tagged = _ANSWER.findall(answer)
    text = tagged[-1] if tagged else answer
    blocks = _BLOCK.findall(text)
    return str(blocks[-1] if blocks else text).strip()


def _fault(program: str) -> str:
    """What is wrong with the form of a program; "" for one that is run."""
    if not program.strip():
        return "ill-formed: no program between fences"
    if len(program) > MAX_CHARS:
        return f"ill-formed: a program of {len(program)} characters, more than {MAX_CHARS}"
    return ""
