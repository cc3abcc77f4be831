"""Run the tests of a row on a program in the jail, and grade it.

The program's process never holds an expected value, unless a test looks at more than data: it makes
the calls or runs the script, and the results are compared in another process or here.
"""

import marshal
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from code_verifier.errors import LiteralError, Status
from code_verifier.scripts import assertions
from code_verifier.scripts.assertions import ASK, SHOWN, assertion, modules_in, split_condition
from code_verifier.scripts.runner import Calls, ScriptRunner, Value
from code_verifier.scripts.suites import Suite
from code_verifier.tasks import Grade
from code_verifier.values import read_value, shown

_FEW_CHARS, _TEXT_CHARS = 1 << 14, 1 << 20
_LEAST_BYTES = 1 << 24
_RECURSION = 50_000
_CHECK_FACTOR = 5
"""A `check` may make a thousand calls; HumanEval+'s own solutions take up to 13 seconds."""


def run_tests(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Grade a program by its tests, up to the first that fails. cpu_s: processor seconds for each
    test; a whole `check` may take five times as many."""
    if tests.outputs:
        run = _run_calls if tests.entry else _run_script
    else:
        run = _run_check if tests.entry else _run_asserts
    return run(runner, program, tests, cpu_s)


def _run_script(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    prelude = ScriptRunner.CONTEST_NAMES + tests.setup
    for number, (stdin, expected) in enumerate(zip(tests.inputs, tests.outputs, strict=True)):
        # A program can find this number in its memory, so it reveals little about the output.
        room = max(_LEAST_BYTES, 1 << (8 * len(expected)).bit_length())
        run = runner.run(
            program, stdin, cpu_s=cpu_s, prelude=prelude, recursion=_RECURSION, output_bytes=room
        )
        if run.status != Status.OK:
            return _fail(tests, number, run.reason, run.status)
        printed = run.output.decode("utf-8", "replace")
        if not equal_output(printed, expected):
            return _fail(tests, number, f"printed {_cut(printed)}; expected {_cut(expected)}")
    return _pass(tests)


def _run_calls(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    inputs = [marshal.loads(data) for data in tests.inputs]
    more = {"owner": "Solution", "text_chars": _FEW_CHARS, "draw": tests.draw}
    calls = _call_all(runner, program, tests.entry, inputs, cpu_s, setup=tests.setup, **more)
    for number, (value, data) in enumerate(zip(calls.values, tests.outputs, strict=False)):
        accepted = marshal.loads(data)
        if not any(equal_value(value, item) for item in accepted):
            reason = f"returned {_quote(value)}; expected {_cut(shown(accepted[0]))}"
            return _fail(tests, number, reason)
    return _grade_end(tests, calls)


def _run_asserts(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Let the program compute the values of its calls, then judge the assertions without it."""
    names = assertions.bound_in(tests.setup)
    splits = [split_condition(assertion(text), names) or ("", []) for text in tests.inputs]
    expressions = [(text,) for _, texts in splits for text in texts]
    calls = _call_all(runner, program + ASK, "_ask_", expressions, cpu_s, setup=tests.setup)
    if calls.status != Status.OK:
        return _fail(tests, None, calls.reason, calls.status)
    returned = []
    for value in calls.values:
        try:
            returned.append(read_value(value.data or ""))
        except LiteralError:
            return _fail(tests, None, f"returned {_quote(value)}, which cannot be compared")
    values = iter(returned)
    checks = [(condition, [next(values) for _ in texts]) for condition, texts in splits]
    numpy = any(modules_in(assertion(text)) & set(assertions.NUMPY) for text in tests.inputs)
    setup = f"{tests.setup}\nimport numpy, numpy as np" if numpy else tests.setup
    verdicts = _call_all(runner, assertions.CHECK, "_check_", checks, cpu_s, setup=setup)
    for number, value in enumerate(verdicts.values):
        if value.data != "true":
            return _fail(tests, number, f"not true: {_cut(tests.inputs[number])}")
    return _grade_end(tests, verdicts)


def _run_check(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Run `check` in the program's process, see `jail.in_process`."""
    (test,) = tests.inputs
    limit_s = _CHECK_FACTOR * cpu_s
    calls = _call_all(runner, program, tests.entry, [], limit_s, owner="Solution", test=test)
    return _grade_end(tests, replace(calls, call=0))


def _call_all(
    runner: ScriptRunner, program: str, entry: str, inputs: Sequence[Any], cpu_s: float, **more: Any
) -> Calls:
    setup: str = more.pop("setup", "")
    return runner.call(
        program,
        entry,
        inputs,
        [cpu_s] * len(inputs),
        module_s=cpu_s,
        total_s=cpu_s * (len(inputs) + 1),
        prelude=ScriptRunner.CONTEST_NAMES + setup,
        recursion=_RECURSION,
        **{"text_chars": _TEXT_CHARS, "draw": True} | more,
    )


def _pass(tests: Suite) -> Grade:
    return Grade(1.0, "", len(tests.inputs), len(tests.inputs))


def _grade_end(tests: Suite, calls: Calls) -> Grade:
    """The grade of calls whose returned values were all right."""
    if calls.status == Status.OK:
        return _pass(tests)
    return _fail(tests, len(calls.values) if calls.call else None, calls.reason, calls.status)


def _fail(tests: Suite, place: int | None, reason: str, status: str = Status.OK) -> Grade:
    """The grade of a program that fails. place: index of the failed test, None if it did not fail
    at a test. status: of its process."""
    where = "" if place is None else f"test {place + 1}: "
    return Grade(0.0, f"{where}{reason or status}", place, len(tests.inputs), status)


def equal_output(printed: str, expected: str) -> bool:
    """Return whether the lines, without space around them, have the same text or the same numbers.

    Numbers are compared as decimals, exactly: 1.50 is 1.5, and 1.5000001 is not.
    """
    texts = (printed.strip(), expected.strip())
    lines, expected_lines = ([line.strip() for line in text.split("\n")] for text in texts)
    return len(lines) == len(expected_lines) and all(map(_equal_line, lines, expected_lines))


def equal_value(value: Value, expected: object) -> bool:
    """Return whether a returned value equals another under Python's `==`; an outer tuple counts as
    a list."""
    accepted = [Value.of(expected).digest]
    if isinstance(expected, list):
        accepted.append(Value.of(tuple(expected)).digest)
    return value.digest != "" and value.digest in accepted


def _equal_line(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    try:
        numbers = [Decimal(word) for word in printed.split()]
        return numbers == [Decimal(word) for word in expected.split()]
    except (InvalidOperation, ValueError):
        return False


def _quote(value: Value) -> str:
    return _cut(value.text) if value.text is not None else f"a {value.type_name}"


def _cut(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 20]}... ({len(text)} characters)")
