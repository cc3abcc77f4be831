"""The nano benchmarks: held-out tasks of the language that the built-in model speaks.

The answer of a response is what follows its one `<|answer|>` marker; what comes before is the
solver's own affair. A response is ill-formed when the token limit cut it, when it has no or several
`<|answer|>`, any other marker, or nothing after it; it then counts as wrong.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.resources import files

from code_verifier import CodeVerifierError, Grade, Sandbox, Task
from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.data import Data, undated
from evals.errors import EvalsError
from evals.recipes.plain import plain

MAX_TOKENS = 192
_END, _ANSWER, _MARKER = "<|end|>", "<|answer|>", "<|"

DESCRIPTIONS = {
    "nano_code_o": "held-out nano programs: predict the output",
    "nano_code_i": "held-out nano programs: find an input that gives the output",
    "nano_code_f": "held-out nano programs: write the program from three examples and a message",
    "nano_long": "nano programs longer than any that the model was taught, all three kinds",
}


def load(name: str, data: Data) -> Benchmark:
    """Read one of `DESCRIPTIONS` from the package's own data. Raises EvalsError."""
    if undated(data, name).file is not None:
        raise EvalsError(f"{name} comes with the package; leave out --data")
    file = files("evals").joinpath("data", f"{name}.jsonl")
    text = file.read_bytes()
    questions = []
    for number, line in enumerate(text.decode().splitlines(), start=1):
        try:
            questions.append(_question(json.loads(line)))
        except (ValueError, KeyError, TypeError, CodeVerifierError) as error:
            raise EvalsError(
                f"data/{name}.jsonl, line {number}: {error!r}; install populab-evals again"
            ) from error
    return Benchmark(
        name=name,
        description=DESCRIPTIONS[name],
        questions=tuple(questions),
        judge=judge,
        recipe=plain(name, MAX_TOKENS),
        content_hash=f"blake2b:{hashlib.blake2b(text, digest_size=16).hexdigest()}",
        sorted=True,
    )


LOADERS = {name: partial(load, name) for name in DESCRIPTIONS}


def answer_of(sample: Sample) -> tuple[str | None, str]:
    """The answer and "", or None and what is wrong with the form."""
    if sample.truncated:
        return None, "ill-formed: cut by the token limit"
    fields = sample.response.removesuffix(_END).split(_ANSWER)
    if len(fields) != 2:
        return None, f"ill-formed: {len(fields) - 1} {_ANSWER} markers, expected one"
    if any(_MARKER in field for field in fields):
        return None, f"ill-formed: a marker other than {_ANSWER}"
    if not fields[1].strip():
        return None, f"ill-formed: nothing after {_ANSWER}"
    return fields[1], ""


def judge(pairs: Iterable[tuple[Question, Sample]], how: Judging) -> Iterator[Judgement]:
    """Judge responses in order; those of ill form are not run."""
    listed = list(pairs)
    answers = [answer_of(sample) for _, sample in listed]
    with ExitStack() as stack:
        sandbox = how.sandbox or stack.enter_context(Sandbox(allow_weak=how.allow_weak))
        grades = sandbox.grade_many(
            (question.problem, answer)
            for (question, _), (answer, _) in zip(listed, answers, strict=True)
            if answer is not None
        )
        for (question, sample), (answer, fault) in zip(listed, answers, strict=True):
            grade = Grade(0.0, fault) if answer is None else next(grades)
            yield Judgement(
                id=question.id,
                sample=sample.sample,
                level=question.level,
                correct=grade.score == 1.0 if grade.judged else None,
                reason=grade.reason,
                extracted=answer,
                truncated=sample.truncated,
            )


def _question(row: dict[str, object]) -> Question:
    task = Task.from_row(row, complete=True)
    return Question(task.id, {"prompt": str(row["prompt"])}, task, _whole(row["level"]))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
