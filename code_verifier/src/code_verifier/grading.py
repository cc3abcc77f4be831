"""The acceptance rule for proposals, and grades of answers.

Programs run in the sandbox; answers, inputs and outputs are read as data. code_o: the answer is the
output; nothing is executed. code_i: the answer is an input; the task's program runs on it, and its
output is compared outside. code_f: the answer is a program; it runs on every judged input.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, ProgramError, Status
from code_verifier.literals import Comparison, parse_literal, read_arguments
from code_verifier.syntax import strip_comments
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict, check_kind
from code_verifier.user_files import require_type

Run = Callable[[str, str], Verdict]
"""The verdict of a program on an input."""
MIN_INPUTS = 2
_FINAL = (Status.SYNTAX_ERROR, Status.BANNED, Status.TIMEOUT, Status.MEMORY, Status.VIOLATION)


def grade_answer(
    task: Task, answer: str, run: Run, comparison: Comparison, limits: Limits, fail_fast: bool
) -> Grade:
    """Return the grade of `answer`; a fault of the sandbox gives one that is not `judged`.
    fail_fast: as in `Sandbox.grade`. Raises CodeVerifierError when the task lacks what its kind
    needs."""
    require_type(answer, str, "the answer", "a text")
    check_kind(task.kind)
    if task.kind == "code_f":
        return _grade_program(task, answer, run, comparison, fail_fast)
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
        verdict = run(task.program, answer)
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


def _grade_program(
    task: Task, answer: str, run: Run, comparison: Comparison, fail_fast: bool
) -> Grade:
    golds = [gold_value(output) for output in task.outputs[task.visible :]]
    if not golds:
        raise CodeVerifierError("a code_f task needs at least one hidden example to be graded")
    passed = 0
    fault: Grade | None = None  # the first one
    for gold, input in zip(golds, task.inputs[task.visible :], strict=True):
        verdict = run(answer, input)
        if verdict.status == Status.SANDBOX_ERROR:
            return _refused(verdict.status, verdict.reason)
        if verdict.output is None:
            fault = fault or _refused(verdict.status, verdict.reason)
            if verdict.status in _FINAL:
                break  # the same for every input, or too costly to repeat
        elif comparison.same(gold_value(verdict.output), gold):
            passed += 1
        else:
            fault = fault or Grade(0.0, "wrong output on a hidden example")
        if fault and fail_fast:
            break
    return replace(fault or Grade(1.0, "right"), passed=passed, total=len(golds))


def _refused(status: str, reason: str) -> Grade:
    return Grade(0.0, f"{status}: {reason}", status=status)


def validate_proposal(proposal: Proposal, check: Run, limits: Limits) -> Verdict:
    """Accept a proposal as a Task, or say why not.

    code_o, code_i: the pair must pass `check`. code_f: at least two inputs without keywords must
    pass `check`; no input may begin with another one, because the rest may be defaults, and a
    hidden example would be a visible one; neither all outputs nor all hidden ones may be the same;
    and the message must leak neither the program nor hidden examples. The first half of the pairs
    is visible.
    """
    check_kind(proposal.kind)
    if proposal.kind == "code_f":
        return _validate_function(proposal, check, limits)
    if proposal.input is None:
        return Verdict(Status.INCOMPLETE, reason=f"a {proposal.kind} proposal needs an input")
    verdict = check(proposal.program, proposal.input)
    if verdict.output is None:
        return Verdict(verdict.status, reason=verdict.reason)
    _, _, laid_out = read_arguments(proposal.input, limits.input_chars)
    task = Task(proposal.kind, proposal.program, input=laid_out, output=verdict.output)
    return Verdict(Status.OK, task=task.with_id())


def _validate_function(proposal: Proposal, check: Run, limits: Limits) -> Verdict:
    total, message = len(proposal.inputs), proposal.message
    if total < MIN_INPUTS:
        reason = f"a code_f proposal needs at least {MIN_INPUTS} inputs, and has {total}"
        return Verdict(Status.INCOMPLETE, reason=reason)
    if len(message) > limits.output_chars:
        reason = f"the message is longer than {limits.output_chars} characters"
        return Verdict(Status.TOO_LONG, reason=reason)
    tidy = _lay_out(proposal.inputs, limits.input_chars)
    if isinstance(tidy, Verdict):
        return tidy
    leak = leaks(message, proposal.program)
    if leak is not None:
        return Verdict(Status.LEAKING_MESSAGE, reason=leak)
    outputs: list[str] = []
    for number, input in enumerate(tidy, 1):
        verdict = check(proposal.program, input)
        if verdict.output is None:
            return Verdict(verdict.status, reason=f"input {number}: {verdict.reason}")
        outputs.append(verdict.output)
    hidden = outputs[total // 2 :]
    if len(set(outputs)) == 1 or len(set(hidden)) == 1 < len(hidden):
        which = "all" if len(set(outputs)) == 1 else "the hidden"
        return Verdict(Status.CONSTANT_OUTPUT, reason=f"{which} inputs give the same output")
    if tells(message, list(zip(tidy, outputs, strict=True))[total // 2 :]):
        return Verdict(Status.LEAKING_MESSAGE, reason="the message lists hidden examples")
    task = Task(
        "code_f", proposal.program, None, None, tuple(tidy), tuple(outputs), message, total // 2
    )
    return Verdict(Status.OK, task=task.with_id())


def _lay_out(inputs: Sequence[str], chars: int) -> list[str] | Verdict:
    """The inputs as Python lays them out; or a verdict that refuses one."""
    calls: list[str] = []
    tidy: list[str] = []
    for number, input in enumerate(inputs, 1):
        try:
            args, kwargs, laid_out = read_arguments(input, chars)
            call = "".join(canonical(value, chars) + ", " for value in args)
        except LiteralError as error:
            return Verdict(error.status, reason=f"input {number}: {error}")
        if kwargs:
            reason = f"input {number} has keywords; expected values alone, to tell calls apart"
            return Verdict(Status.DUPLICATE_INPUT, reason=reason)
        for earlier, other in enumerate(calls, 1):
            if call.startswith(other) or other.startswith(call):  # the rest may be defaults
                reason = f"inputs {earlier} and {number} make the same call, or may do so"
                return Verdict(Status.DUPLICATE_INPUT, reason=reason)
        calls.append(call)
        tidy.append(laid_out)
    return tidy


_MIN_LINE = 10
_SHARE = 0.5
_WORD = re.compile(r"-?\w[\w.]*\w|-?\w")
_DEFINES = re.compile(r"\bdef\s+f\s*\(|\bf\s*=\s*lambda\b")


def leaks(message: str, program: str) -> str | None:
    """Return why the message leaks the program, or None.

    It leaks when it defines a function `f`, holds the program, or quotes at least half of the
    program's lines of 10 characters or more (white space and comments never count).
    """
    if not message.strip():
        return None
    try:
        clean = strip_comments(program)
    except ProgramError:
        clean = program
    programs = {squeezed for source in (program, clean) if (squeezed := _squeeze(source))}
    lines = {
        squeezed
        for line in [*clean.splitlines(), *program.splitlines()]
        if len(squeezed := _squeeze(line)) >= _MIN_LINE and not squeezed.startswith(("def", "#"))
    }
    if _DEFINES.search(message):
        return "the message defines a function f"
    squeezed = _squeeze(message)
    if any(program in squeezed for program in programs):
        return "the message contains the program"
    starts = {squeezed[at : at + _MIN_LINE] for at in range(len(squeezed))}
    quoted = sum(line[:_MIN_LINE] in starts and line in squeezed for line in lines)
    if lines and quoted >= max(1.0, _SHARE * len(lines)):
        return f"the message quotes {quoted} of the program's {len(lines)} longer lines"
    return None


def tells(message: str, pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether the message holds at least half of the pairs, inputs and outputs as separate
    words, or all outputs in a row."""
    squeezed = f" {_squeeze(message)} "
    words = set(_WORD.findall(message))

    def holds(text: str) -> bool:
        text = _squeeze(text)
        return text in words if _WORD.fullmatch(text) else text in squeezed

    count = sum(holds(input) and holds(output) for input, output in pairs)
    in_a_row = len(pairs) > 1 and _squeeze(",".join(output for _, output in pairs)) in squeezed
    return in_a_row or 2 * count >= len(pairs)


def _squeeze(text: str) -> str:
    return "".join(text.split())
