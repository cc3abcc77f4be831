"""A benchmark: questions, how they are asked, and a grader of responses."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from code_verifier import Sandbox, ScriptRunner, cores
from evals.errors import EvalsError
from evals.recipes import Limits, Recipe, Template


@dataclass(frozen=True)
class Data:
    """The data that a benchmark is loaded from. file: the user's; None is where the benchmark is
    published. release: of LiveCodeBench on the hub."""

    file: Path | str | None = None
    release: str | None = None

    def whole(self, benchmark: str) -> Path | str | None:
        """Return the file. Raises EvalsError for a release, which only LiveCodeBench has."""
        if self.release:
            raise EvalsError(f"{benchmark} has no releases; livecodebench has")
        return self.file


@dataclass(frozen=True)
class Question:
    """One problem. fields: texts by name, which a recipe's template puts into the prompt. problem:
    what the grader needs to judge an answer. level: 1 is the easiest; 0 if there is none."""

    id: str
    fields: Mapping[str, str]
    problem: Any
    level: int = 0


@dataclass(frozen=True)
class Sample:
    """One response to a question; `sample` counts from 0. tokens: number of generated tokens.
    truncated: it reached the token limit; with 0 tokens, the prompt does not fit. solution: a whole
    program that another harness extracted from the response, graded as it is."""

    id: str
    sample: int
    response: str
    truncated: bool = False
    tokens: int | None = None
    solution: str | None = None


Pairs: TypeAlias = list[tuple[Question, Sample]]


@dataclass(frozen=True)
class SampleVerdict:
    """The verdict on one sample. correct: None when the sandbox failed, not the answer, or when the
    question's own data cannot be used. extracted: the answer found in the response; None when that
    is ill-formed. details: more fields of the row in `verdicts.jsonl`, as JSON knows them.
    """

    id: str
    sample: int
    level: int
    correct: bool | None
    reason: str
    extracted: str | None
    truncated: bool
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def on(
        cls,
        question: Question,
        sample: Sample,
        correct: bool | None,
        reason: str,
        extracted: str | None,
        **details: Any,
    ) -> "SampleVerdict":
        """Return the verdict on a sample of a question."""
        place = question.id, sample.sample, question.level
        return cls(*place, correct, reason, extracted, sample.truncated, details)

    @property
    def well_formed(self) -> bool:
        """Whether an answer was found."""
        return self.extracted is not None


NO_ROOM = "the prompt does not fit"
"""The reason of a verdict on a question that could not be asked; it counts as wrong."""
MAX_CHARS = 1_000_000
"""Characters of an answer or a program; a longer one is ill-formed."""


@dataclass(frozen=True)
class ProgramOutcome:
    """The result of a program on a set of tests. status: PASS, FAIL or TIMEOUT; None when the
    sandbox, not the program, failed. reason: why it does not pass. failed_test: index of the failed
    test, from 0; None if it did not fail at a test."""

    PASS: ClassVar = "pass"
    FAIL: ClassVar = "fail"
    TIMEOUT: ClassVar = "timeout"

    status: str | None
    reason: str = ""
    failed_test: int | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the program passes; None when the sandbox failed."""
        return None if self.status is None else self.status == self.PASS


@dataclass(frozen=True)
class Grading:
    """How samples are graded. template: of the prompts that they answer. workers: programs that run
    at a time. limits: of the recipe's published scripts. allow_weak: grade even where the sandbox
    has no system-call filter."""

    template: Template
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    allow_weak: bool = False

    @classmethod
    def of(
        cls, recipe: Recipe, benchmark: str, workers: int | None = None, allow_weak: bool = False
    ) -> "Grading":
        """Return how samples of a recipe are graded. workers: None is one for each core."""
        limits = recipe.grading.get(benchmark, Limits())
        return cls(recipe.template(benchmark), workers or cores(), limits, allow_weak)


@dataclass(frozen=True)
class Benchmark:
    """A frozen set of questions. grade: gives verdicts on samples in their order. recipe: how the
    questions are asked by default. content_hash: of the data, part of a run's settings. notes:
    remarks on the data. sorted: easy questions come first, so that a limit takes the first of every
    level. sandbox: what runs programs of responses; None where none is run. like: the published
    benchmark asked in the same way. published: whether the rows may be the published ones."""

    name: str
    description: str
    questions: tuple[Question, ...]
    grade: Callable[[Pairs, Grading], Iterable[SampleVerdict]]
    recipe: Recipe
    content_hash: str
    notes: tuple[str, ...] = ()
    sorted: bool = False
    sandbox: type[Sandbox] | type[ScriptRunner] | None = None
    like: str = ""
    published: bool = True

    def __post_init__(self) -> None:
        counts = Counter(question.id for question in self.questions)
        if twice := [name for name, times in counts.items() if times > 1]:
            raise EvalsError(f"{self.name}: several rows have the id {twice[0]!r}; expected one")

    def try_sandbox(self, allow_weak: bool = False) -> None:
        """Judge programs whose verdicts are known. Raises SandboxUnavailable if that fails."""
        if self.sandbox is not None:
            with self.sandbox(allow_weak=allow_weak) as sandbox:
                sandbox.self_test()

    def part(self, limit: int | None) -> list[Question]:
        """Return the first `limit` questions; of a sorted benchmark, the first of every level."""
        places: dict[int, Iterator[int]] = defaultdict(count)
        levels = [question.level if self.sorted else 0 for question in self.questions]
        order = sorted((next(places[level]), level, number) for number, level in enumerate(levels))
        return [self.questions[number] for number in sorted(number for *_, number in order[:limit])]
