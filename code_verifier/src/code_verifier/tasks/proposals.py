"""The acceptance rule for proposed tasks of the three kinds."""

from collections.abc import Callable, Iterator, Sequence

from code_verifier.errors import LiteralError, ProgramError
from code_verifier.literals.literal import read_arguments, tidy_arguments
from code_verifier.program.leaks import leaks
from code_verifier.program.signature import Signature
from code_verifier.tasks.limits import Limits
from code_verifier.tasks.outcomes import Status, Validation, Verdict
from code_verifier.tasks.task import Proposal, Task

Check = Callable[[str, Sequence[str]], Iterator[Verdict]]
MIN_INPUTS = 2


def validate_proposal(proposal: Proposal, check: Check, limits: Limits) -> Validation:
    """Accept a proposal as a Task, or say why not.

    code_o, code_i: the pair must pass `check`. code_f: at least two inputs that make
    distinct calls (so that no hidden example is also a visible one), all passing `check`, not all
    giving the same output, and a message that does not leak the program; the first half of the
    pairs is visible.
    """
    if proposal.kind == "code_f":
        return _validate_function(proposal, check, limits)
    if proposal.input is None:
        return Validation(Status.INCOMPLETE, f"a {proposal.kind} proposal needs an input")
    verdict = next(check(proposal.program, [proposal.input]))
    if verdict.output is None:
        return Validation(verdict.status, verdict.reason)
    text = tidy_arguments(proposal.input, limits.input_chars)
    task = Task(proposal.kind, proposal.program, input=text, output=verdict.output)
    return Validation(Status.OK, "", task.with_id())


def _validate_function(proposal: Proposal, check: Check, limits: Limits) -> Validation:
    total = len(proposal.inputs)
    if total < MIN_INPUTS:
        reason = f"a code_f proposal needs at least {MIN_INPUTS} inputs, and has {total}"
        return Validation(Status.INCOMPLETE, reason)
    if len(proposal.message) > limits.output_chars:
        reason = f"the message is longer than {limits.output_chars} characters"
        return Validation(Status.TOO_LONG, reason)
    try:
        parsed = proposal.parsed
    except ProgramError:
        parsed = None
    signature = Signature(parsed)
    seen: dict[str, int] = {}
    tidy: list[str] = []
    for number, given in enumerate(proposal.inputs, 1):
        try:
            args, kwargs, laid_out = read_arguments(given, limits.input_chars)
            text = signature.call(args, kwargs, limits.input_chars)
            tidy.append(laid_out)
        except LiteralError as error:
            return Validation(error.status, f"input {number}: {error}")
        if text in seen:
            reason = f"inputs {seen[text]} and {number} make the same call"
            return Validation(Status.DUPLICATE_INPUT, reason)
        seen[text] = number
    leak = leaks(proposal.message, parsed or proposal.program)
    if leak is not None:
        return Validation(Status.LEAKING_MESSAGE, leak)
    outputs: list[str] = []
    for number, verdict in enumerate(check(proposal.program, tidy), 1):
        if verdict.output is None:
            return Validation(verdict.status, f"input {number}: {verdict.reason}")
        outputs.append(verdict.output)
    if len(set(outputs)) == 1:
        return Validation(Status.CONSTANT_OUTPUT, "all inputs give the same output")
    task = Task(
        "code_f",
        proposal.program,
        inputs=tuple(tidy),
        outputs=tuple(outputs),
        message=proposal.message,
        visible=total // 2,
    )
    return Validation(Status.OK, "", task.with_id())
