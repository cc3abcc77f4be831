"""The seven math benchmarks: the final answer of a response against a gold."""

from collections.abc import Iterable, Iterator, Mapping

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


_ANSWERS = {
    "minerva_math": ("solution", "a solution with \\boxed{...}"),
    "gsm8k": ("answer", "a solution that ends in #### 18"),
    "olympiadbench": ("final_answer", "a list with one text"),
}
"""Name -> the column of the right answer, and what it looks like."""
_PLAIN = ("answer", "a text or a number")


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
    for number, row in enumerate(rows, 1):
        question = _question(name, row, number)
        if question.id in found:
            raise EvalsError(f"{name}, row {number}: id {question.id!r} came before")
        found[question.id] = question
    return tuple(found.values())


def _question(name: str, row: Mapping[str, object], number: int) -> Question:
    column, hint = _ANSWERS.get(name, _PLAIN)
    ids = (row[key] for key in ("unique_id", "id", "idx") if row.get(key) not in (None, ""))
    asked = str(row.get("problem") or row.get("question") or "")
    own = str(next(ids, number - 1 if name == "gsm8k" else ""))
    needed = {"problem or question": asked, "id": own, column: str(row.get(column, ""))}
    if missing := [key for key, there in needed.items() if not there]:
        columns = ", ".join(sorted(map(str, row))) or "none"
        raise EvalsError(
            f"{name}, row {number}: no {', '.join(missing)}; found the columns {columns}"
        )
    answer = _answer(name, row[column])
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or answer == "":
        raise EvalsError(f"{name}, row {number}: no answer in {column}; expected {hint}")
    level, unit = row.get("level"), row.get("unit")
    gold = canonical_gold(
        answer, asked, unit if isinstance(unit, str) else "", measured=name == "minerva_math"
    )
    return Question(own, {"question": asked}, gold, level if isinstance(level, int) else 0)


def _answer(name: str, value: object) -> object:
    """What a row's column says is right: the last box, what follows ####, the first of a list."""
    if name == "minerva_math":
        found = extract(str(value))
        return found.text if found.rule == "box" else None
    if name == "gsm8k":
        _, mark, answer = str(value).rpartition("####")
        return answer.strip() if mark else None
    if name == "olympiadbench":
        return value[0] if isinstance(value, list) and value else None
    return value


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[Verdict]:
    """Grade answers. details: the gold that an answer was compared with."""
    for question, sample in pairs:
        found = grader.grade(question.problem, sample.response, how.template)
        yield Verdict(
            id=question.id,
            sample=sample.sample,
            level=question.level,
            correct=found.correct,
            reason=found.reason,
            extracted=found.extracted,
            truncated=sample.truncated,
            details={"gold": question.problem.text},
        )
