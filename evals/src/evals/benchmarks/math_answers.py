"""The seven math benchmarks: the final answer of a response against a gold."""

from collections.abc import Iterable, Iterator
from functools import partial

from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.data import Data, undated
from evals.math import symbolic
from evals.math.grader import MathGrader
from evals.math.problems import load_math
from evals.recipes.chat import CHAT
from evals.sources.load import load_source

DESCRIPTIONS = {
    "aime24": "AIME 2024: competition answers from 0 to 999",
    "aime25": "AIME 2025: competition answers from 0 to 999",
    "amc23": "AMC 12 of 2023: competition answers, numbers",
    "math500": "MATH-500: competition problems of five levels",
    "olympiadbench": "OlympiadBench, English mathematics, final answers",
    "minerva_math": "Minerva's OCW courses: undergraduate science",
    "gsm8k": "GSM8K test: word problems of grade school",
}


def load(name: str, data: Data) -> Benchmark:
    """Read one of `DESCRIPTIONS`. Raises EvalsError, also when Math-Verify is not installed."""
    file = undated(data, name).file
    symbolic.require()
    source = load_source(name, file)
    questions = tuple(
        Question(problem.id, {"question": problem.question}, problem, problem.level or 0)
        for problem in load_math(name, source.rows)
    )
    return Benchmark(
        name, DESCRIPTIONS[name], questions, judge, CHAT, source.content_hash, source.notes
    )


LOADERS = {name: partial(load, name) for name in DESCRIPTIONS}


def judge(pairs: Iterable[tuple[Question, Sample]], how: Judging) -> Iterator[Judgement]:
    """Judge answers. details: the gold that an answer was compared with."""
    listed = list(pairs)
    with MathGrader(how.workers) as grader:
        verdicts = grader.grade_many(
            (question.problem.gold, sample.response) for question, sample in listed
        )
        for (question, sample), verdict in zip(listed, verdicts, strict=True):
            yield Judgement(
                id=question.id,
                sample=sample.sample,
                level=question.level,
                correct=verdict.correct,
                reason=verdict.reason,
                extracted=verdict.extracted,
                truncated=sample.truncated,
                details={"gold": verdict.gold},
            )
