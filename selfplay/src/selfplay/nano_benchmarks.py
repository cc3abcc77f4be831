"""The held-out tasks of the nano model as benchmarks of `evals`, which finds them by entry point.

The answer of a response is the text after its only `<|answer|>` marker. A response is ill-formed,
and counts as wrong, if it ended at the token limit, has no or several such markers or any other
marker, or has no text after it.
"""

import hashlib
from collections.abc import Iterator
from functools import partial

from code_verifier import Grade, Sandbox
from evals import Benchmark, Data, EvalsError, Grading, Question, Sample, SampleVerdict, plain
from selfplay.tasks.held_out import DATA, tasks_of
from selfplay.tasks.nano import END
from selfplay.tasks.template import NANO

MAX_TOKENS = 192
DESCRIPTIONS = {
    "nano_code_o": "held-out nano programs: predict the output",
    "nano_code_i": "held-out nano programs: find an input that gives the output",
    "nano_code_f": "held-out nano programs: write the program from three examples and a message",
    "nano_long": "nano programs longer than any in its training, all three kinds",
}


def load(name: str, data: Data) -> Benchmark:
    """Load one of `DESCRIPTIONS`. Raises EvalsError for data of the user's own."""
    if data.whole(name) is not None:
        raise EvalsError(f"{name} comes with populab-selfplay; leave out --data")
    questions = tuple(
        Question(task.id, {"prompt": NANO.solve_prompt(task)}, task, level)
        for task, level in tasks_of(name)
    )
    digest = hashlib.blake2b((DATA / f"{name}.jsonl").read_bytes(), digest_size=16)
    return Benchmark(
        name=name,
        description=DESCRIPTIONS[name],
        questions=questions,
        grade=grade,
        recipe=plain(name, MAX_TOKENS),
        content_hash=f"blake2b:{digest.hexdigest()}",
        sorted=True,
        sandbox=None if name == "nano_code_o" else Sandbox,  # its answers are values
    )


nano_code_o = partial(load, "nano_code_o")
nano_code_i = partial(load, "nano_code_i")
nano_code_f = partial(load, "nano_code_f")
nano_long = partial(load, "nano_long")


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[SampleVerdict]:
    """Grade responses in order; ill-formed ones are not run."""
    answers = [
        None
        if s.truncated
        else NANO.kind(q.problem.kind).parse_answer(q.problem, s.response.removesuffix(END))
        for q, s in pairs
    ]
    with Sandbox(how.workers, allow_weak=how.allow_weak) as sandbox:
        both = list(zip(pairs, answers, strict=True))
        answered = [(question.problem, a) for (question, _), a in both if a is not None]
        grades = sandbox.grade_many(answered, fail_fast=True)
        for (question, sample), answer in both:
            result = Grade(0.0, "ill-formed: no single answer") if answer is None else next(grades)
            correct = result.score == 1.0 if result.judged else None
            yield SampleVerdict.on(question, sample, correct, result.reason, answer)
