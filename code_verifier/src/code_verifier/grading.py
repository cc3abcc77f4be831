"""Judging what models write: the acceptance rule for proposals, and grades of answers.

Nothing of it runs in the caller: a program runs in the sandbox, and answers, inputs and outputs are
read as data. code_o: the answer is the output; nothing is executed. code_i: the answer is an input;
the task's program runs on it, and its output is compared outside. code_f: the answer is a program;
it runs on every judged input.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, ProgramError, Status
from code_verifier.literals import Comparison, canonical_arguments, parse_literal, read_arguments
from code_verifier.syntax import ParsedProgram, strip_comments
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict, check_kind

Run = Callable[[str, Sequence[str]], Iterator[Verdict]]
"""Verdicts of a program on inputs, when asked for."""
MIN_INPUTS = 2
_FINAL = (Status.SYNTAX_ERROR, Status.BANNED, Status.TIMEOUT, Status.MEMORY, Status.VIOLATION)


def grade_answer(
    task: Task, answer: str, run: Run, comparison: Comparison, limits: Limits
) -> Grade:
    """Return the grade of `answer`; a fault of the sandbox gives one that is not `judged`. Raises
    CodeVerifierError when the task lacks what its kind needs."""
    if not isinstance(answer, str):
        raise CodeVerifierError(f"the answer is of type {type(answer).__name__}; expected a text")
    check_kind(task.kind)
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


def validate_proposal(proposal: Proposal, check: Run, limits: Limits) -> Verdict:
    """Accept a proposal as a Task, or say why not.

    code_o, code_i: the pair must pass `check`. code_f: at least two inputs that make
    distinct calls (so that no hidden example is also a visible one), all passing `check`, not all
    giving the same output, and a message that does not leak the program; the first half of the
    pairs is visible.
    """
    check_kind(proposal.kind)
    if proposal.kind == "code_f":
        return _validate_function(proposal, check, limits)
    if proposal.input is None:
        return Verdict(Status.INCOMPLETE, reason=f"a {proposal.kind} proposal needs an input")
    verdict = next(check(proposal.program, [proposal.input]))
    if verdict.output is None:
        return Verdict(verdict.status, reason=verdict.reason)
    _, _, laid_out = read_arguments(proposal.input, limits.input_chars)
    task = Task(proposal.kind, proposal.program, input=laid_out, output=verdict.output)
    return Verdict(Status.OK, task=task.with_id())


def _validate_function(proposal: Proposal, check: Run, limits: Limits) -> Verdict:
    total = len(proposal.inputs)
    if total < MIN_INPUTS:
        reason = f"a code_f proposal needs at least {MIN_INPUTS} inputs, and has {total}"
        return Verdict(Status.INCOMPLETE, reason=reason)
    if len(proposal.message) > limits.output_chars:
        reason = f"the message is longer than {limits.output_chars} characters"
        return Verdict(Status.TOO_LONG, reason=reason)
    try:
        parsed = proposal.parsed
    except ProgramError:
        parsed = None
    signature = Signature(parsed)
    seen: dict[str, int] = {}
    tidy: list[str] = []
    for number, input in enumerate(proposal.inputs, 1):
        try:
            args, kwargs, laid_out = read_arguments(input, limits.input_chars)
            text = signature.call(args, kwargs, limits.input_chars)
            tidy.append(laid_out)
        except LiteralError as error:
            return Verdict(error.status, reason=f"input {number}: {error}")
        if text in seen:
            reason = f"inputs {seen[text]} and {number} make the same call"
            return Verdict(Status.DUPLICATE_INPUT, reason=reason)
        seen[text] = number
    leak = leaks(proposal.message, parsed or proposal.program)
    if leak is not None:
        return Verdict(Status.LEAKING_MESSAGE, reason=leak)
    outputs: list[str] = []
    for number, verdict in enumerate(check(proposal.program, tidy), 1):
        if verdict.output is None:
            return Verdict(verdict.status, reason=f"input {number}: {verdict.reason}")
        outputs.append(verdict.output)
    if len(set(outputs)) == 1:
        return Verdict(Status.CONSTANT_OUTPUT, reason="all inputs give the same output")
    task = Task(
        "code_f",
        proposal.program,
        inputs=tuple(tidy),
        outputs=tuple(outputs),
        message=proposal.message,
        visible=total // 2,
    )
    return Verdict(Status.OK, task=task.with_id())


class Signature:
    """The parameters of the program's last plain `def f`, read without executing it. Where there is
    no such function, or nothing that parses, every argument list counts for itself."""

    def __init__(self, program: ParsedProgram | None) -> None:
        self._positional: list[str] = []
        self._by_name: set[str] = set()
        self._defaults: dict[str, str] = {}
        for node in program.tree.body if program is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == "f" and not node.decorator_list:
                self._read(node.args)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], max_chars: int) -> str:
        """One text for all argument lists that make the same call. Raises LiteralError. Keywords
        are put in their places, and defaults that are literals are filled in."""
        named = dict(zip(self._positional, args, strict=False))
        if len(named) < len(args) or any(n in named or n not in self._by_name for n in kwargs):
            return canonical_arguments(args, kwargs, max_chars)
        texts = {name: canonical(value, max_chars) for name, value in (named | kwargs).items()}
        filled = sorted((self._defaults | texts).items())
        return ", ".join(f"{name}={text}" for name, text in filled)

    def _read(self, arguments: ast.arguments) -> None:
        plain = [*arguments.posonlyargs, *arguments.args]
        self._positional = [item.arg for item in plain]
        self._by_name = {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}
        self._defaults = {}
        late = plain[len(plain) - len(arguments.defaults) :]
        items = [*late, *arguments.kwonlyargs]
        for item, default in zip(items, [*arguments.defaults, *arguments.kw_defaults], strict=True):
            if default is not None:
                try:
                    self._defaults[item.arg] = canonical(parse_literal(ast.unparse(default)))
                except LiteralError:
                    continue


_MIN_LINE = 10
_SHARE = 0.5
_DEFINES = re.compile(r"\bdef\s+f\s*\(|\bf\s*=\s*lambda\b")


def leaks(message: str, program: str | ParsedProgram) -> str | None:
    """Why the message leaks the program, or None.

    It leaks when it defines a function `f`, holds the program, or quotes at least half of the
    program's lines of 10 characters or more (white space and comments never count).
    """
    if not message.strip():
        return None
    text = program if isinstance(program, str) else program.text
    try:
        clean = strip_comments(program)
    except ProgramError:
        clean = text
    wholes = {squeezed for source in (text, clean) if (squeezed := _squeeze(source))}
    lines = {
        squeezed
        for line in [*clean.splitlines(), *text.splitlines()]
        if len(squeezed := _squeeze(line)) >= _MIN_LINE and not squeezed.startswith(("def", "#"))
    }
    if _DEFINES.search(message):
        return "the message defines a function f"
    squeezed = _squeeze(message)
    if any(whole in squeezed for whole in wholes):
        return "the message contains the program"
    starts = {squeezed[at : at + _MIN_LINE] for at in range(len(squeezed))}
    quoted = sum(line[:_MIN_LINE] in starts and line in squeezed for line in lines)
    if lines and quoted >= max(1.0, _SHARE * len(lines)):
        return f"the message quotes {quoted} of the program's {len(lines)} longer lines"
    return None


def _squeeze(text: str) -> str:
    return "".join(text.split())
