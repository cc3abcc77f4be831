"""The seven math benchmarks, from plain rows to problems with golds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evals.errors import EvalsError, did_you_mean
from evals.math.extraction import extract
from evals.math.golds import Gold, canonical_gold


@dataclass(frozen=True)
class MathProblem:
    """level: difficulty where the benchmark gives one; 1 is the easiest."""

    id: str
    question: str
    gold: Gold
    level: int | None = None


Row = Mapping[str, object]


@dataclass(frozen=True)
class Schema:
    """Where a benchmark keeps its parts. id: column; None numbers the rows from 0.

    question: columns, the first that is there. gold: reads the text of the gold, "" for none.
    needs: the columns that `gold` reads. measured: its decimals are rounded amounts.
    """

    id: str | None
    question: tuple[str, ...]
    gold: Callable[[Row], object]
    needs: tuple[str, ...]
    level: str | None = None
    measured: bool = False


def _boxed(row: Row) -> object:
    """What the last box of the worked solution holds."""
    found = extract(str(row["solution"]))
    return found.text if found.rule == "box" else ""


def _hashed(row: Row) -> object:
    return str(row["answer"]).rpartition("####")[2].strip() if "####" in str(row["answer"]) else ""


def _first_final(row: Row) -> object:
    listed = row["final_answer"]
    return listed[0] if isinstance(listed, list) and listed else ""


_PLAIN = Schema("id", ("problem", "question"), lambda row: row["answer"], ("answer",))
SCHEMAS: dict[str, Schema] = {
    "aime24": _PLAIN,
    "aime25": _PLAIN,
    "amc23": _PLAIN,
    "math500": Schema("unique_id", ("problem",), lambda row: row["answer"], ("answer",), "level"),
    "minerva_math": Schema("idx", ("problem",), _boxed, ("solution",), measured=True),
    "gsm8k": Schema(None, ("question",), _hashed, ("answer",)),
    "olympiadbench": Schema("id", ("question",), _first_final, ("final_answer",)),
}
"""Name -> the columns of its rows."""


def load_math(name: str, rows: Iterable[Row]) -> list[MathProblem]:
    """The problems of a benchmark, in the order of the rows.

    Raises EvalsError in one line for an unknown name, a missing column, an id that is missing or
    comes twice, and a row without a gold.
    """
    schema = SCHEMAS.get(name)
    if schema is None:
        raise EvalsError(f"unknown math benchmark {name!r}; {did_you_mean(name, SCHEMAS)}")
    problems: list[MathProblem] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        place = f"{name}, row {number + 1}"
        problem = _problem(schema, row, number, place)
        if problem.id in seen:
            raise EvalsError(
                f"{place}: id {problem.id!r} stands in row {seen[problem.id]} too; expected each "
                "once"
            )
        seen[problem.id] = number + 1
        problems.append(problem)
    if not problems:
        raise EvalsError(f"{name}: no rows; expected at least one")
    return problems


def _problem(schema: Schema, row: Row, number: int, place: str) -> MathProblem:
    if not isinstance(row, Mapping):
        raise EvalsError(f"{place}: found {type(row).__name__}, expected an object")
    asked = next((row[column] for column in schema.question if column in row), None)
    missing = [column for column in schema.needs if column not in row]
    if schema.id is not None and row.get(schema.id) in (None, ""):
        missing.append(schema.id)
    if not isinstance(asked, str) or not asked.strip():
        missing.append(" or ".join(schema.question))
    if missing:
        columns = ", ".join(sorted(map(str, row))) or "none"
        raise EvalsError(f"{place}: no {', '.join(missing)}; found the columns {columns}")
    raw = schema.gold(row)
    if isinstance(raw, bool) or not isinstance(raw, str | int | float) or not str(raw).strip():
        raise EvalsError(
            f"{place}: no answer in {', '.join(schema.needs)}; expected {schema_hint(schema)}"
        )
    unit, level = row.get("unit"), row.get(schema.level) if schema.level else None
    return MathProblem(
        id=str(row.get("idx", number) if schema.id is None else row[schema.id]),
        question=str(asked),
        gold=canonical_gold(
            raw, str(asked), unit if isinstance(unit, str) else "", schema.measured
        ),
        level=level if isinstance(level, int) and not isinstance(level, bool) else None,
    )


def schema_hint(schema: Schema) -> str:
    """What a gold looks like in a row of this schema."""
    if schema.gold is _boxed:
        return "a solution with \\boxed{...}"
    if schema.gold is _hashed:
        return "a solution that ends in #### 18"
    return "a text or a number" if schema.gold is not _first_final else "a list with one text"
