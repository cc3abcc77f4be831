"""What a benchmark is: questions with prompts, and a way to judge responses."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from code_verifier import Sandbox, Task


@dataclass(frozen=True)
class Question:
    """One prompt of a benchmark, with the task that judges its answers. Level 1 is the easiest."""

    id: str
    prompt: str
    level: int
    task: Task


@dataclass(frozen=True)
class Sample:
    """One response to a question; `sample` counts from 0. tokens: how many were written.

    truncated: the response was cut by the token limit.
    """

    id: str
    sample: int
    response: str
    truncated: bool = False
    tokens: int | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict on one sample. correct is None when the sandbox, not the answer, failed.

    extracted: the answer found in the response; None when the response is ill-formed.
    """

    id: str
    sample: int
    level: int
    correct: bool | None
    reason: str
    extracted: str | None
    truncated: bool

    @property
    def well_formed(self) -> bool:
        return self.extracted is not None


Judge: TypeAlias = Callable[[Iterable[tuple[Question, Sample]], Sandbox], Iterator[Judgement]]


@dataclass(frozen=True)
class Benchmark:
    """A frozen set of questions. max_tokens: default length of a response.

    content_hash: hash of the data file, part of a run's settings.
    """

    name: str
    description: str
    questions: tuple[Question, ...]
    max_tokens: int
    content_hash: str
    judge: Judge

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that occur, easiest first."""
        return tuple(sorted({question.level for question in self.questions}))
