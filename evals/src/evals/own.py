"""A benchmark of the user's own: rows of a file, and the grader that judges their answers.

math   question or problem, answer: as the math benchmarks
exact  question or problem, answer: the marked final answer, or the whole response, is the text
tests  question or prompt, and tests of a program, see `code_verifier.read_tests`
stdio  the same, with inputs and outputs of scripts
"""

import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from code_verifier import CodeVerifierError, ScriptRunner, read_tests
from evals.code import livecodebench
from evals.data import OFFICIAL, Record, read_file, row_id
from evals.errors import EvalsError, did_you_mean
from evals.math import problems as math
from evals.math.final_answers import TEXT, extract, trim
from evals.question import Benchmark, Grading, Pairs, Question, SampleVerdict
from evals.recipes import CHAT, own_turn

Grader: TypeAlias = Literal["math", "exact", "tests", "stdio"]
_QUESTIONS = ("question", "problem", "prompt", "question_content", "text")


def load_own(name: str, path: Path, grader: str | None = None) -> Benchmark:
    """Load the benchmark called `name` from a file of rows, or from a TOML file with `file`,
    `grader` and `description`. Raises EvalsError in one line for what cannot be used."""
    if name in (*OFFICIAL, "code", "math", "total") or not name.isidentifier():
        fault = "it is published, or an average's, or no word"
        raise EvalsError(f"{name!r} cannot be a benchmark's name: {fault}")
    description = f"rows of {path.name}"
    if path.suffix == ".toml":
        try:
            row = tomllib.loads(path.read_text(encoding="utf-8"))
            path, grader = path.parent / row["file"], grader or row["grader"]
        except (ValueError, KeyError, TypeError) as error:
            raise EvalsError(f"{path}: {error!r}; expected `file` and `grader`") from None
        description = str(row.get("description", description))
    if grader is None or grader not in get_args(Grader):
        hint = did_you_mean(grader or "", get_args(Grader))
        raise EvalsError(f"{name}: no grader {grader!r}; add --grader: {hint}")
    source = read_file(path)
    runs_programs = grader in ("tests", "stdio")
    rows = enumerate(source.rows, 1)
    if grader == "math":
        questions, grade = tuple(math.question(name, row, n) for n, row in rows), math.grade
    else:
        questions = tuple(_question(f"{path}, row {n}", row, n - 1, grader) for n, row in rows)
        grade = livecodebench.grade if runs_programs else _grade_exact
    like = "livecodebench" if runs_programs else "math500"
    return Benchmark(
        name, description, questions, grade, CHAT.covering(name, like),
        f"{source.content_hash}, graded by {grader}", (f"{len(questions)} rows",),
        sandbox=ScriptRunner if runs_programs else None, like=like,
    )  # fmt: skip


def _question(place: str, row: Record, number: int, grader: str) -> Question:
    id = row_id(row, ("id", "task_id", *math.IDS), number)
    text = next((row[key] for key in _QUESTIONS if isinstance(row.get(key), str)), "")
    if not text:
        columns = ", ".join(map(str, row)) or "none"
        raise EvalsError(f"{place}: no question; found the columns {columns}")
    if grader == "exact":
        answer = row.get("answer")
        gold = _spaced(str(answer)) if type(answer) in (str, int) else ""
        if not gold:
            raise EvalsError(f"{place}: no text in answer")
        return Question(id, {"question": text, "answer": str(answer)}, gold)
    try:
        tests = read_tests(row)
    except CodeVerifierError as error:
        raise EvalsError(f"{place}: {error}") from None
    is_script = bool(tests.outputs) and not tests.entry
    if is_script != (grader == "stdio"):
        kind, other = ("standard input", "stdio") if is_script else ("functions", "tests")
        raise EvalsError(f"{place}: the tests are of {kind}; choose the grader {other}")
    fields = {"question": text, "starter_code": str(row.get("starter_code") or "")}
    return Question(id, fields, lambda: row)


def _grade_exact(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
    for question, sample in pairs:
        gold, marked = question.problem, extract(sample.response, how.template).text or ""
        words, whole = TEXT.fullmatch(marked), own_turn(sample.response, how.template, str.strip)
        texts = map(_spaced, (marked, words[1] if words else "", whole))
        answers = list(filter(None, texts))
        right = gold in answers or _spaced(trim(gold)) in answers  # a marked one has no full stop
        text = gold if right else next(iter(answers), None)
        reason = "same text" if right else "another text"
        yield SampleVerdict.on(question, sample, right, reason, text, gold=gold)


def _spaced(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
