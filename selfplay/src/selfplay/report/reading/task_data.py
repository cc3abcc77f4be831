"""The proposals of chosen steps, read from tasks.jsonl as a stream."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from selfplay.report.reading.row_reader import Row, read_rows


@dataclass(frozen=True, slots=True)
class Attempt:
    """Equal answers of a student; `score` in [0, 1], `answer` None when none could be read."""

    thought: str
    answer: str | None
    score: float
    count: int

    @property
    def verdict(self) -> str:
        """`right`, `partly`, `wrong` or `ill-formed`."""
        if self.answer is None:
            return "ill-formed"
        if self.score >= 1.0:
            return "right"
        return "partly" if self.score > 0.0 else "wrong"


@dataclass(frozen=True, slots=True)
class Task:
    """One proposal, what the verifier said of it, and what the matched student made of it."""

    id: str
    step: int
    teacher: str
    student: str | None
    kind: str
    program: str
    input: str | None
    output: str | None
    examples: tuple[tuple[str, str], ...]
    message: str
    visible: int
    status: str
    reason: str
    text: str
    rho: float | None
    reward: float | None
    attempts: tuple[Attempt, ...]


def read_tasks(path: Path, steps: Collection[int]) -> list[Task]:
    """Return the tasks of these steps in file order; none when there is no file."""
    if not path.exists():
        return []
    return [_task(row) for row in read_rows(path) if row.count("step") in steps]


def _task(row: Row) -> Task:
    inputs, outputs = row.items("inputs"), row.items("outputs")
    return Task(
        id=row.text("id") or "",
        step=row.count("step"),
        teacher=row.text("teacher") or "?",
        student=row.text("student"),
        kind=row.text("kind") or "?",
        program=row.text("program") or "",
        input=row.text("input"),
        output=row.text("output"),
        examples=tuple((str(i), str(o)) for i, o in zip(inputs, outputs, strict=False)),
        message=row.text("message") or "",
        visible=row.count("visible"),
        status=row.text("status") or "?",
        reason=row.text("reason") or "",
        text=row.text("text") or "",
        rho=row.number("rho"),
        reward=row.number("reward"),
        attempts=tuple(
            Attempt(
                r.text("thought") or "",
                r.text("answer"),
                r.number("score") or 0.0,
                max(1, r.count("count")),
            )
            for r in row.rows("attempts")
        ),
    )
