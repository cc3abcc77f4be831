"""What a benchmark is: questions, the way they are asked, and a judge of responses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from code_verifier import Sandbox
from evals.recipes.recipe import Recipe, Template


@dataclass(frozen=True)
class Question:
    """One problem. fields: what a recipe's template may put into the prompt, by name.

    problem: what the benchmark's own judge compares answers with. level: 1 is the easiest; 0 in
    a benchmark that has no levels.
    """

    id: str
    fields: Mapping[str, str]
    problem: Any
    level: int = 0


@dataclass(frozen=True)
class Sample:
    """One response to a question; `sample` counts from 0. tokens: how many were written.

    truncated: the response was cut by the token limit. solution: a whole program that another
    harness took from the response; it is judged as it is.
    """

    id: str
    sample: int
    response: str
    truncated: bool = False
    tokens: int | None = None
    solution: str | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict on one sample. correct is None when the sandbox, not the answer, failed.

    extracted: the answer found in the response; None when the response is ill-formed. details:
    what else the benchmark tells of a sample, as JSON knows it.
    """

    id: str
    sample: int
    level: int
    correct: bool | None
    reason: str
    extracted: str | None
    truncated: bool
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def well_formed(self) -> bool:
        return self.extracted is not None


@dataclass(frozen=True)
class Judging:
    """How samples are judged. template: what they answer.

    sandbox: for what runs in one; a judge that needs one and is given none opens its own.
    workers: programs that run at a time. compat: repeat the known errors of the official harness.
    limits: those of the recipe's published scripts. allow_weak: judge without a system-call
    filter, where there is none.
    """

    template: Template
    sandbox: Sandbox | None = None
    workers: int = 1
    compat: bool = False
    limits: Mapping[str, float | str] = field(default_factory=dict)
    allow_weak: bool = False


Judge: TypeAlias = Callable[[Iterable[tuple[Question, Sample]], Judging], Iterator[Judgement]]
"""Verdicts on samples in their order."""


@dataclass(frozen=True)
class Benchmark:
    """A frozen set of questions. recipe: how they are asked where nobody says otherwise.

    content_hash: of the data, part of a run's settings. notes: what a reader should know of the
    data. sorted: easy questions stand first, so that a part of the benchmark is taken level by
    level, not from the beginning.
    """

    name: str
    description: str
    questions: tuple[Question, ...]
    judge: Judge
    recipe: Recipe
    content_hash: str
    notes: tuple[str, ...] = ()
    sorted: bool = False

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that occur, easiest first; none in a benchmark without levels."""
        return tuple(sorted({question.level for question in self.questions} - {0}))
