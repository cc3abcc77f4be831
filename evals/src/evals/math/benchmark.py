"""The seven math benchmarks: the final answer of a response against a gold."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from evals.benchmark import Benchmark, Data, Grading, Question, Sample, Verdict
from evals.errors import EvalsError
from evals.math import grader
from evals.math.extraction import extract
from evals.math.golds import canonical_gold
from evals.recipes import CHAT
from evals.sources import load_source

DESCRIPTIONS = {
    "aime24": "AIME 2024: competition answers from 0 to 999",
    "aime25": "AIME 2025: competition answers from 0 to 999",
    "amc23": "AMC 12 of 2023: competition answers, numbers",
    "math500": "MATH-500: competition problems of five levels",
    "olympiadbench": "OlympiadBench, English mathematics, final answers",
    "minerva_math": "Minerva's OCW courses: undergraduate science",
    "gsm8k": "GSM8K test: word problems of grade school",
}


def _boxed(solution: object) -> object:
    """What the last box of a worked solution holds."""
    found = extract(str(solution))
    return found.text if found.rule == "box" else ""


def _hashed(solution: object) -> object:
    _, mark, answer = str(solution).rpartition("####")
    return answer.strip() if mark else ""


def _first(listed: object) -> object:
    return listed[0] if isinstance(listed, list) and listed else ""


_ANSWERS: dict[str, tuple[str, Callable[[object], object], str]] = {
    "minerva_math": ("solution", _boxed, "a solution with \\boxed{...}"),
    "gsm8k": ("answer", _hashed, "a solution that ends in #### 18"),
    "olympiadbench": ("final_answer", _first, "a list with one text"),
}
"""Name -> the column of the right answer, what reads it, and what it looks like."""
_PLAIN = ("answer", lambda answer: answer, "a text or a number")


def load(name: str, data: Data) -> Benchmark:
    """Load one of `DESCRIPTIONS`. Raises EvalsError."""
    source = load_source(name, data.whole(name))
    return Benchmark(
        name,
        DESCRIPTIONS[name],
        questions(name, source.rows),
        grade,
        CHAT,
        source.content_hash,
        source.notes,
    )


def questions(name: str, rows: Iterable[Mapping[str, object]]) -> tuple[Question, ...]:
    """The questions of a benchmark, in the order of the rows.

    Raises EvalsError in one line for a missing column, an id that is missing or comes twice, and a
    row without a right answer.
    """
    found: dict[str, Question] = {}
    for number, row in enumerate(rows):
        place = f"{name}, row {number + 1}"
        question = _question(name, row, number, place)
        if question.id in found:
            first = list(found).index(question.id) + 1
            raise EvalsError(f"{place}: id {question.id!r} is in row {first} too; expected it once")
        found[question.id] = question
    if not found:
        raise EvalsError(f"{name}: no rows; expected at least one")
    return tuple(found.values())


def _question(name: str, row: Mapping[str, object], number: int, place: str) -> Question:
    if not isinstance(row, Mapping):
        raise EvalsError(f"{place}: found {type(row).__name__}, expected an object")
    column, read, hint = _ANSWERS.get(name, _PLAIN)
    ids = (row[key] for key in ("unique_id", "id", "idx") if row.get(key) not in (None, ""))
    needed = {
        "problem or question": row.get("problem") or row.get("question"),
        "id": str(next(ids, number if name == "gsm8k" else "")),
        column: str(row.get(column, "")),
    }
    if missing := [key for key, there in needed.items() if not there]:
        columns = ", ".join(sorted(map(str, row))) or "none"
        raise EvalsError(f"{place}: no {', '.join(missing)}; found the columns {columns}")
    asked, answer = str(needed["problem or question"]), read(row[column])
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or answer == "":
        raise EvalsError(f"{place}: no answer in {column}; expected {hint}")
    level, unit = row.get("level"), row.get("unit")
    gold = canonical_gold(
        answer, asked, unit if isinstance(unit, str) else "", measured=name == "minerva_math"
    )
    return Question(
        str(needed["id"]), {"question": asked}, gold, level if isinstance(level, int) else 0
    )


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[Verdict]:
    """Grade answers. details: the gold that an answer was compared with."""
    for question, sample in pairs:
        found = grader.grade(question.problem, sample.response)
        yield Verdict(
            id=question.id,
            sample=sample.sample,
            level=question.level,
            correct=found.correct,
            reason=found.reason,
            extracted=found.extracted,
            truncated=sample.truncated,
            details={"gold": found.gold},
        )
