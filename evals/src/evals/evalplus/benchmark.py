"""HumanEval+ and MBPP+ as benchmarks: functions to write, graded by evalplus' rules."""

from collections.abc import Iterator

from evals.benchmark import PASS, Benchmark, Data, Grading, Question, Sample, Verdict
from evals.evalplus.grader import FunctionGrader
from evals.evalplus.problems import HUMANEVAL, MBPP, FunctionProblem, read_problems
from evals.evalplus.programs import defines, extract_program, parse, sanitize
from evals.recipes import CHAT, Template, own_turn
from evals.sources import compared, fingerprint, load_source

DESCRIPTIONS = {
    HUMANEVAL: "HumanEval+: write a function from its docstring",
    MBPP: "MBPP+: write a function from a sentence and an assertion",
}


def load(name: str, data: Data) -> Benchmark:
    """Load one of `DESCRIPTIONS`. Raises EvalsError."""
    source = load_source(name, data.whole(name))
    questions = tuple(
        Question(problem.task_id, {"prompt": problem.prompt}, problem)
        for problem in read_problems(source.rows, name)
    )
    notes = (*source.notes, *compared(name, len(source.rows), fingerprint(source.rows)))
    return Benchmark(name, DESCRIPTIONS[name], questions, grade, CHAT, source.content_hash, notes)


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[Verdict]:
    """Grade programs; right is what passes the base tests and the plus tests.

    details: `base` and `plus`, each pass, fail or timeout, and the input that a program failed.
    """
    programs = [program_of(question.problem, sample, how.template) for question, sample in pairs]
    with FunctionGrader(
        how.workers,
        min_time_s=float(how.limits.get("min_time_s", 1.0)),
        time_factor=float(how.limits.get("time_factor", 4.0)),
        allow_weak=how.allow_weak,
    ) as grader:
        outcomes = grader.grade_many(
            (question.problem, program)
            for (question, _), program in zip(pairs, programs, strict=True)
        )
        for (question, sample), program, (base, plus) in zip(
            pairs, programs, outcomes, strict=True
        ):
            graded = base.status is not None and plus.status is not None
            worse = base if base.status != PASS else plus
            yield Verdict(
                id=question.id,
                sample=sample.sample,
                level=question.level,
                correct=base.status == plus.status == PASS if graded else None,
                reason=worse.reason,
                extracted=program if _defines(program, question.problem) else None,
                truncated=sample.truncated,
                details={
                    "task_id": question.id,
                    "base": base.status,
                    "plus": plus.status,
                    "failed_test": worse.failed_test,
                },
            )


def program_of(problem: FunctionProblem, sample: Sample, template: Template) -> str:
    """Return the program that a sample is graded by."""
    if sample.solution is not None:
        return sample.solution
    text = own_turn(
        sample.response,
        template,
        lambda part: _defines(extract_program(part, problem.entry_point), problem),
        code=True,
    )
    if template.tabs is not None:
        text = text.replace("\t", " " * template.tabs)
    return sanitize(problem.prompt + text if template.continues else text, problem.entry_point)


def _defines(program: str, problem: FunctionProblem) -> bool:
    tree = parse(program)
    return tree is not None and defines(tree, problem.entry_point)
