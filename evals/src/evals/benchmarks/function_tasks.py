"""HumanEval+ and MBPP+: functions to write, judged by evalplus' rules."""

from collections.abc import Iterable, Iterator
from functools import partial

from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.data import Data, undated
from evals.functions.extraction import defines, parse
from evals.functions.grader import PASS, FunctionGrader
from evals.functions.problem import HUMANEVAL, MBPP, FunctionProblem
from evals.functions.reading import read_functions
from evals.functions.sanitising import sanitise
from evals.recipes.chat import CHAT
from evals.recipes.recipe import Template
from evals.sources.load import load_source

DESCRIPTIONS = {
    HUMANEVAL: "HumanEval+: write a function from its docstring",
    MBPP: "MBPP+: write a function from a sentence and an assertion",
}


def load(name: str, data: Data) -> Benchmark:
    """Read one of `DESCRIPTIONS`. Raises EvalsError."""
    source = load_source(name, undated(data, name).file)
    questions = tuple(
        Question(problem.task_id, {"prompt": problem.prompt}, problem)
        for problem in read_functions(source.rows, name)
    )
    return Benchmark(
        name, DESCRIPTIONS[name], questions, judge, CHAT, source.content_hash, source.notes
    )


LOADERS = {name: partial(load, name) for name in DESCRIPTIONS}


def judge(pairs: Iterable[tuple[Question, Sample]], how: Judging) -> Iterator[Judgement]:
    """Judge programs; right is what passes the base tests and the plus tests.

    details: `base` and `plus`, each pass, fail or timeout, and the input that a program failed.
    """
    listed = list(pairs)
    programs = [program_of(question.problem, sample, how.template) for question, sample in listed]
    with FunctionGrader(
        how.workers,
        "0.3.1" if how.compat else None,
        min_time_s=float(how.limits.get("min_time_s", 1.0)),
        time_factor=float(how.limits.get("time_factor", 4.0)),
        allow_weak=how.allow_weak,
    ) as grader:
        verdicts = grader.grade_many(
            (question.problem, program)
            for (question, _), program in zip(listed, programs, strict=True)
        )
        for (question, sample), program, verdict in zip(listed, programs, verdicts, strict=True):
            faulty = verdict.base is None or verdict.plus is None
            yield Judgement(
                id=question.id,
                sample=sample.sample,
                level=question.level,
                correct=None if faulty else verdict.base == verdict.plus == PASS,
                reason=verdict.reason,
                extracted=program if _defines(program, question.problem) else None,
                truncated=sample.truncated,
                details={
                    "task_id": question.id,
                    "base": verdict.base,
                    "plus": verdict.plus,
                    "failed_test": verdict.failed_test,
                },
            )


def program_of(problem: FunctionProblem, sample: Sample, template: Template) -> str:
    """The program that a sample is judged by."""
    if sample.solution is not None:
        return sample.solution
    text = sample.response
    if template.tabs is not None:
        text = text.replace("\t", " " * template.tabs)
    return sanitise(problem.prompt + text if template.continues else text, problem.entry_point)


def _defines(program: str, problem: FunctionProblem) -> bool:
    tree = parse(program)
    return tree is not None and defines(tree, problem.entry_point)
