"""Judging an answer to a task of one of the three kinds.

code_o: the answer is the output; nothing is executed. code_i: the answer is an input; the
task's program runs on it, and its output is compared outside. code_f: the answer is a program;
it runs on every judged input. Answers are data or run in the sandbox, never in the caller.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.literals import Comparison, parse_literal
from code_verifier.tasks import Grade, Limits, Task, Verdict

Run = Callable[[str, Sequence[str]], Iterator[Verdict]]


def grade_answer(
    task: Task, answer: str, run: Run, comparison: Comparison, limits: Limits
) -> Grade:
    """Return the grade of `answer`; a fault of the sandbox gives one that is not `judged`. Raises
    CodeVerifierError when the task lacks what its kind needs."""
    if not isinstance(answer, str):
        raise CodeVerifierError(f"the answer is of type {type(answer).__name__}; expected a text")
    if task.kind == "code_f":
        return _grade_program(task, answer, run, comparison)
    if task.output is None:
        raise CodeVerifierError(f"a {task.kind} task needs an output to be graded")
    gold = gold_value(task.output)
    if task.kind == "code_o":
        try:
            value = parse_literal(answer, max(limits.output_chars, 2 * len(task.output)))
        except LiteralError as error:
            return _refused(error.status, str(error))
        wrong = "wrong output"
    else:
        verdict = next(run(task.program, [answer]))
        if verdict.output is None:
            return _refused(verdict.status, verdict.reason)
        value, wrong = gold_value(verdict.output), "the input gives another output"
    return Grade(1.0, "right") if comparison.same(value, gold) else Grade(0.0, wrong)


def gold_value(text: str) -> object:
    """The value of a task's output. Raises CodeVerifierError when it is no literal."""
    try:
        return parse_literal(text, len(text))
    except LiteralError as error:
        raise CodeVerifierError(
            f"the task's output {text[:60]!r} is not a literal: {error}"
        ) from None


def _grade_program(task: Task, answer: str, run: Run, comparison: Comparison) -> Grade:
    golds = [gold_value(output) for output in task.outputs[task.visible :]]
    if not golds:
        raise CodeVerifierError("a code_f task needs at least one hidden example to be graded")
    passed = 0
    first: Grade | None = None  # what went wrong first
    for gold, verdict in zip(golds, run(answer, task.inputs[task.visible :]), strict=False):
        if verdict.status == Status.SANDBOX_ERROR:
            return _refused(verdict.status, verdict.reason)
        if verdict.output is None:
            first = first or _refused(verdict.status, verdict.reason)
            if verdict.status in _FINAL:
                break  # the same for every input, or too costly to repeat
        elif comparison.same(gold_value(verdict.output), gold):
            passed += 1
        else:
            first = first or Grade(0.0, "wrong output on a hidden example")
    return replace(first or Grade(1.0, "right"), passed=passed, total=len(golds))


def _refused(status: str, reason: str) -> Grade:
    return Grade(0.0, f"{status}: {reason}", status=status)


_FINAL = (Status.SYNTAX_ERROR, Status.BANNED, Status.TIMEOUT, Status.MEMORY, Status.VIOLATION)
