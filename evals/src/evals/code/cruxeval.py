"""CRUXEval: predict the output of a short function (cruxeval_o), or its input (cruxeval_i).

An answer is an assertion, or one side of it. As in the published script (facebookresearch/cruxeval
at 190faf1, evaluation), Python's `==` decides, and any arguments with the right result are right.
Unlike there, an answer must be a literal: expressions are wrong.
"""

from collections.abc import Iterator

from code_verifier import Comparison, Grade, Sandbox, Task
from evals.code.programs import find_answer
from evals.data import Record
from evals.errors import EvalsError
from evals.question import Grading, Pairs, Question, SampleVerdict

_KINDS = {"cruxeval_o": "code_o", "cruxeval_i": "code_i"}
_COLUMNS = ("id", "code", "input", "output")


def question(name: str, row: Record, number: int) -> Question:
    """Return the question of a row. number: of the row, from 1. Raises EvalsError."""
    fields = {key: value for key in _COLUMNS if isinstance(value := row.get(key), str)}
    if missing := [key for key in _COLUMNS if key not in fields]:
        columns = ", ".join(map(str, row)) or "none"
        raise EvalsError(
            f"{name}, row {number}: no text in {', '.join(missing)}; found the columns {columns}"
        )
    task = Task(_KINDS[name], fields["code"], fields["input"], fields["output"], id=fields["id"])
    return Question(fields.pop("id"), fields, task)


def grade(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
    """Grade answers. details: the expected output, or one right input."""
    answers = [find_answer(q.problem.kind, sample.response, how.template) for q, sample in pairs]
    comparison = Comparison(types=False)
    with Sandbox(how.workers, comparison=comparison, allow_weak=how.allow_weak) as sandbox:
        grades = sandbox.grade_many(
            (task, answer[2:-1] if task.kind == "code_i" else answer)
            for task, answer in zip((q.problem for q, _ in pairs), answers, strict=True)
            if answer is not None
        )
        for (question, sample), answer in zip(pairs, answers, strict=True):
            result = Grade(0.0, "ill-formed: no assertion") if answer is None else next(grades)
            task = question.problem
            gold = task.output if task.kind == "code_o" else f"f({task.input})"
            correct = result.score == 1.0 if result.judged else None
            yield SampleVerdict.on(question, sample, correct, result.reason, answer, gold=gold)
