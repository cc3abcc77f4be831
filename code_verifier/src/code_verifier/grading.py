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

from code_verifier.canonical import MAX_DEPTH, canonical
from code_verifier.errors import CodeVerifierError, LiteralError, ProgramError, Status
from code_verifier.literals import (
    Arguments,
    Comparison,
    literal_value,
    parse_literal,
    read_arguments,
)
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
    of them and not all hidden ones giving the same output, and a message that leaks neither the
    program nor hidden examples; the first half of the pairs is visible.
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
    calls: list[Arguments] = []
    tidy: list[str] = []
    for number, input in enumerate(proposal.inputs, 1):
        try:
            args, kwargs, laid_out = read_arguments(input, limits.input_chars)
            calls.append((args, kwargs))
            tidy.append(laid_out)
        except LiteralError as error:
            return Verdict(error.status, reason=f"input {number}: {error}")
    try:
        parameters = _parameters(parsed.tree) if parsed else None
        texts = _distinct(calls, parameters, limits.input_chars)
    except LiteralError as error:
        return Verdict(error.status, reason=f"the inputs: {error}")
    for number, text in enumerate(texts, 1):
        if (first := texts.index(text) + 1) < number:
            reason = f"inputs {first} and {number} make the same call, or may do so"
            return Verdict(Status.DUPLICATE_INPUT, reason=reason)
    leak = leaks(proposal.message, parsed or proposal.program)
    if leak is not None:
        return Verdict(Status.LEAKING_MESSAGE, reason=leak)
    outputs: list[str] = []
    for number, verdict in enumerate(check(proposal.program, tidy), 1):
        if verdict.output is None:
            return Verdict(verdict.status, reason=f"input {number}: {verdict.reason}")
        outputs.append(verdict.output)
    hidden = outputs[total // 2 :]
    if len(set(outputs)) == 1 or len(set(hidden)) == 1 < len(hidden):
        which = "all" if len(set(outputs)) == 1 else "the hidden"
        return Verdict(Status.CONSTANT_OUTPUT, reason=f"{which} inputs give the same output")
    if tells(proposal.message, list(zip(tidy, outputs, strict=True))[total // 2 :]):
        reason = "the message lists hidden examples"
        return Verdict(Status.LEAKING_MESSAGE, reason=reason)
    task = Task(
        "code_f",
        proposal.program,
        inputs=tuple(tidy),
        outputs=tuple(outputs),
        message=proposal.message,
        visible=total // 2,
    )
    return Verdict(Status.OK, task=task.with_id())


def _parameters(tree: ast.Module) -> ast.arguments | None:
    """The parameters of the program's function `f`, read without executing it; None where `f` is
    anything but one plain `def` at the top of the program, or is changed later."""
    plain = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "f" and not node.decorator_list
    ]
    return plain[0].args if len(plain) == 1 == sum(map(_binds_f, ast.walk(tree))) else None


def _distinct(
    calls: Sequence[Arguments], parameters: ast.arguments | None, max_chars: int
) -> list[str]:
    """A text for each call; two calls that may be the same have the same text. Raises LiteralError.

    Keywords are put in their places, and defaults that are literals filled in. A parameter with
    another default does not tell calls apart, if one of them leaves it to its default. Without
    parameters that are known, calls by keywords or with other numbers of values are the same.
    """
    if parameters is None:
        known = {(len(args), bool(named)) for args, named in calls} == {(len(calls[0][0]), False)}
        return [canonical(args, max_chars, MAX_DEPTH + 1) if known else "" for args, _ in calls]
    plain = [item.arg for item in (*parameters.posonlyargs, *parameters.args)]
    only = {item.arg for item in parameters.posonlyargs}
    defaults = _defaults(parameters)
    texts = []
    for args, kwargs in calls:
        named = dict(zip(plain, args, strict=False))
        extra = [canonical(value, max_chars) for value in args[len(named) :]]
        named |= {f"*{n}" if n in only or n in named else n: x for n, x in kwargs.items()}
        texts.append(({n: canonical(x, max_chars) for n, x in named.items()}, extra))
    left = set[str]().union(*(defaults.keys() - named.keys() for named, _ in texts))
    unknown = {name for name in left if defaults[name] is None}
    filled = [(sorted((defaults | named).items()), extra) for named, extra in texts]
    return [
        ", ".join([*(f"{name}={x}" for name, x in items if name not in unknown), *extra])
        for items, extra in filled
    ]


def _defaults(parameters: ast.arguments) -> dict[str, str | None]:
    """The texts of the defaults; None for one that is no literal."""
    plain = [*parameters.posonlyargs, *parameters.args]
    items = [*plain[len(plain) - len(parameters.defaults) :], *parameters.kwonlyargs]
    defaults: dict[str, str | None] = {}
    for item, default in zip(items, [*parameters.defaults, *parameters.kw_defaults], strict=True):
        if default is not None:
            try:
                defaults[item.arg] = canonical(literal_value(default))
            except LiteralError:
                defaults[item.arg] = None
    return defaults


def _binds_f(node: ast.AST) -> bool:
    """Whether a node may give the name `f`, or the defaults of a function, another value."""
    match node:
        case ast.Name("globals" | "vars" | "locals" | "setattr"):
            return True
        case ast.Attribute(attr=name):
            return name in ("__defaults__", "__kwdefaults__", "__dict__")
        case ast.alias(name, other):
            return (other or name) in ("f", "*")
        case ast.Name("f", ast.Load()) | ast.Nonlocal():
            return False
    names = (getattr(node, "id", None), getattr(node, "name", None), *getattr(node, "names", ()))
    return "f" in names


_MIN_LINE = 10
_SHARE = 0.5
_WORD = re.compile(r"-?\w[\w.]*\w|-?\w")
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


def tells(message: str, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the message holds at least half of the pairs, each with its input and its output as
    words of their own, or all of the outputs one behind the other."""
    squeezed = f" {_squeeze(message)} "
    words = set(_WORD.findall(message))

    def holds(text: str) -> bool:
        text = _squeeze(text)
        return text in words if _WORD.fullmatch(text) else text in squeezed

    told = sum(holds(input) and holds(output) for input, output in pairs)
    listed = len(pairs) > 1 and _squeeze(",".join(output for _, output in pairs)) in squeezed
    return listed or 2 * told >= len(pairs)


def _squeeze(text: str) -> str:
    return "".join(text.split())
