"""Read the tests of data sets from rows, and run them on programs in the jail.

There are four forms: assertions, a function that checks another, arguments of a function with the
values to return, and standard input with the text to print. The program's process never holds an
expected value, unless a test looks at more than data: it makes the calls or runs the script, and
the results are compared in another process or here.
"""

import ast
import base64
import builtins
import io
import json
import marshal
import pickle
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.literals import parse_arguments, parse_literal
from code_verifier.scripts.assertions import (
    ASK,
    CHECK,
    NUMPY,
    SHOWN,
    as_check,
    assertion,
    bound_in,
    check_of,
    contest_names,
    modules_in,
    split_condition,
)
from code_verifier.scripts.runner import Calls, ScriptRunner, Value
from code_verifier.tasks import Grade, text_field, text_list, text_or_none
from code_verifier.values import read_value, shown

_FEW_CHARS, _TEXT_CHARS = 1 << 14, 1 << 20
_LEAST_BYTES = 1 << 24
_MOST_BYTES = 1 << 30
_RECURSION = 50_000
_LIVECODEBENCH = ("public_test_cases", "private_test_cases")


@dataclass(frozen=True)
class Suite:
    """Tests of one program. Equal ones are equal, and hashable.

    inputs: without outputs, assertions, or a module that defines `check`; with `entry`, the
    arguments of each call, a marshalled tuple; else standard inputs. outputs: the values that each
    call may return, a marshalled list; else the text to print. setup: trusted code before the
    program and the assertions. draw: a returned iterator or view counts as a list.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...] = ()
    entry: str = ""
    setup: str = ""
    draw: bool = True

    @property
    def name(self) -> str:
        """The name that a program has to define, if the tests show it; "" for a script."""
        if self.outputs or self.entry:
            return self.entry if self.entry != "Solution" else ""
        calls = [node for node in ast.walk(assertion(self.inputs[0])) if isinstance(node, ast.Call)]
        names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
        names = [name for name in names if not hasattr(builtins, name)]
        return [*(name for name in names if name not in contest_names()), *names, ""][0]


def read_tests(row: Mapping[str, Any]) -> Suite:
    """Return the tests of a row. Raises CodeVerifierError for a row without tests.

    The first of these columns that the row has count: `test_list` (or `assert_case`), assertions,
    with `test_imports` and `test_setup_code`; `test`, which defines `check(candidate)` as in
    HumanEval, with `entry_point`; `entry_point` (or `fn_name`), `inputs` and `outputs`, where an
    input is a list of arguments and an output a value, or both are texts (JSON, an argument a line,
    or Python literals with commas); `inputs` and `outputs` alone, standard input and output, each a
    text or a list of lines. `input_output` may hold any of them as one JSON text. Or the columns of
    CodeContests (`public_tests`, `private_tests`, `generated_tests`, each with `input` and
    `output`) or of LiveCodeBench (`public_test_cases`, `private_test_cases`, as JSON or packed, and
    `metadata`).
    """
    if packed := row.get("input_output"):
        row = {**row, **_parsed("input_output", packed, Mapping)}
    imports = "\n".join(text_list(row, "test_imports"))
    setup = f"{imports}\n{text_or_none(row, 'test_setup_code') or ''}".strip()
    if asserts := text_list(row, "test_list") or text_list(row, "assert_case"):
        return _asserted(asserts, setup)
    if row.get("test") and row.get("entry_point"):
        entry = text_field(row, "entry_point")
        others, asserts = check_of(text_field(row, "test"), entry)
        return _asserted(asserts, others) if asserts else Suite((others,), entry=entry)
    row = _contest_row(row)
    inputs, outputs = row.get("inputs"), row.get("outputs")
    if not isinstance(inputs, list | tuple) or not isinstance(outputs, list | tuple) or not inputs:
        names = ", ".join(repr(name)[:SHOWN] for name in row)
        raise CodeVerifierError(
            f"no tests; found {names or 'nothing'}; expected 'test_list', or "
            "'inputs' and 'outputs' with or without 'entry_point'"
        )
    if len(inputs) != len(outputs):
        raise CodeVerifierError(
            f"{len(inputs)} inputs and {len(outputs)} outputs; expected as many"
        )
    if not row.get("entry_point") and not row.get("fn_name"):
        return Suite(_joined("inputs", inputs), _joined("outputs", outputs), setup=setup)
    boxed = row.get("entry_point") is None  # as APPS has them
    pairs = [_call(*pair, boxed) for pair in zip(inputs, outputs, strict=True)]
    entry = text_field(row, "entry_point", "fn_name")
    draw = not any(name in row for name in _LIVECODEBENCH)  # which compares what is returned
    return Suite(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), entry, setup, draw)


def _asserted(asserts: tuple[str, ...], setup: str) -> Suite:
    names = bound_in(setup)
    suite = Suite(asserts, setup=setup)
    splits = [split_condition(assertion(text), names) for text in asserts]
    if all(splits):
        return suite
    return Suite((as_check(asserts, setup),), entry=suite.name or "check")


def _contest_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with `inputs` and `outputs` from the columns of CodeContests and LiveCodeBench."""
    if row.get("inputs") is not None:
        return row
    cases: list[Any] = []
    for name in _LIVECODEBENCH:
        if row.get(name):
            cases += _parsed(name, row[name], list)
    for name in ("public_tests", "private_tests", "generated_tests"):
        if row.get(name):
            tests = _parsed(name, row[name], Mapping)
            pair = tests.get("input") or (), tests.get("output") or ()
            cases += [{"input": text, "output": output} for text, output in zip(*pair, strict=True)]
    if not all(isinstance(case, Mapping) for case in cases):
        raise CodeVerifierError("a test of the row is no object; expected 'input' and 'output'")
    kinds = {case.get("testtype") for case in cases} - {"stdin"}
    name = _parsed("metadata", row.get("metadata") or {}, Mapping).get("func_name") if kinds else ""
    if not name and "functional" in kinds:
        raise CodeVerifierError("a test calls a function that 'metadata' has no func_name for")
    columns = {f"{key}s": [case.get(key) for case in cases] for key in ("input", "output")}
    return {**row, **columns, **({"entry_point": name} if name else {})} if cases else row


def _parsed(name: str, value: object, kind: Any) -> Any:
    """The object or list of a column, which may also hold its JSON, or packed JSON."""
    if isinstance(value, str):
        if name == "private_test_cases" and value.lstrip()[:1] != "[":
            value = _unpacked(value)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise CodeVerifierError(f"field {name!r} is not JSON: {error}") from None
    if not isinstance(value, kind):
        noun = "a list" if kind is list else "an object"
        raise CodeVerifierError(f"field {name!r} holds a {type(value).__name__}; expected {noun}")
    return value


class _PlainUnpickler(pickle.Unpickler):
    """Loads texts, numbers and containers; refuses to look up any class or function."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def _unpacked(text: str) -> str:
    """The JSON of hidden tests that are packed as base64(zlib(pickle(JSON)))."""
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        content = _PlainUnpickler(io.BytesIO(data)).load()
        content = content.decode() if isinstance(content, bytes) else content
    except Exception as error:  # the unpickler raises any exception for damaged data
        raise CodeVerifierError(f"the hidden tests cannot be unpacked: {error}") from None
    if not isinstance(content, str) or unzip.unconsumed_tail:
        kind = type(content).__name__
        raise CodeVerifierError(f"the hidden tests hold {kind}; expected JSON of at most 1 GiB")
    return content


def _joined(name: str, items: Iterable[Any]) -> tuple[str, ...]:
    """A column of texts, each of which may be a list of its lines."""
    texts = [
        "\n".join(item)
        if isinstance(item, list | tuple) and all(isinstance(line, str) for line in item)
        else item
        for item in items
    ]
    return text_list({name: texts}, name)


def _call(arguments: Any, output: object, boxed: bool) -> tuple[bytes, bytes]:
    """The arguments of one call, and the values that it may return, marshalled. boxed: the value
    may be the first item of a list, and keys of objects that look like numbers are numbers."""
    values: list[Any] = [output]
    if isinstance(arguments, str) and isinstance(output, str):
        arguments, values = _arguments(arguments), [_value(output)]
    elif not isinstance(arguments, Sequence) or isinstance(arguments, str):
        raise CodeVerifierError(
            f"an input is {str(arguments)[:SHOWN]!r}, its output of type {type(output).__name__}; "
            "expected a list of arguments and a value, or two texts"
        )
    elif boxed:
        arguments = [_numbered(item) for item in arguments]
        values = [_numbered(output)]
        values += [_numbered(output[0])] if isinstance(output, list) and output else []
        lists = [v for v in values if isinstance(v, list) and all(isinstance(i, list) for i in v)]
        values += [list(map(tuple, rows)) for rows in lists]  # JSON has no tuples
    try:
        return marshal.dumps(tuple(arguments), 2), marshal.dumps(values, 2)
    except ValueError as error:
        raise CodeVerifierError(f"a test holds a value that is no data: {error}") from None


def _numbered(value: Any) -> Any:
    """An object of JSON with its keys as numbers, if they are."""
    try:
        return {int(key): item for key, item in value.items()} if isinstance(value, dict) else value
    except ValueError:
        return value


def _arguments(text: str) -> Sequence[Any]:
    try:
        return [json.loads(line) for line in text.split("\n")]
    except (ValueError, RecursionError):
        args, kwargs = parse_arguments(text)
    if kwargs:
        raise CodeVerifierError(f"the input {text[:SHOWN]!r} has names; expected positions")
    return args


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return parse_literal(text)


def run_tests(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Grade a program by its tests, up to the first that fails. cpu_s: processor seconds for each
    test."""
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
            return _failed(tests, number, run.reason, run.status)
        printed = run.output.decode("utf-8", "replace")
        if not equal_output(printed, expected):
            return _failed(tests, number, f"printed {_cut(printed)}; expected {_cut(expected)}")
    return _passed(tests)


def _run_calls(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    inputs = [marshal.loads(data) for data in tests.inputs]
    more = {"owner": "Solution", "text_chars": _FEW_CHARS, "draw": tests.draw}
    calls = _call_all(runner, program, tests.entry, inputs, cpu_s, tests.setup, **more)
    for number, (value, data) in enumerate(zip(calls.values, tests.outputs, strict=False)):
        accepted = marshal.loads(data)
        if not any(equal_value(value, item) for item in accepted):
            reason = f"returned {_quoted(value)}; expected {_cut(shown(accepted[0]))}"
            return _failed(tests, number, reason)
    return _ended(tests, calls)


def _run_asserts(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Let the program compute the values of its calls, then judge the assertions without it."""
    names = bound_in(tests.setup)
    splits = [split_condition(assertion(text), names) or ("", []) for text in tests.inputs]
    expressions = [(text,) for _, texts in splits for text in texts]
    calls = _call_all(runner, program + ASK, "_ask_", expressions, cpu_s, tests.setup)
    returned = _returned(tests, calls)
    if isinstance(returned, Grade):
        return returned
    values = iter(returned)
    checks = [(condition, [next(values) for _ in texts]) for condition, texts in splits]
    numpy = any(name in modules_in(assertion(text)) for text in tests.inputs for name in NUMPY)
    setup = f"{tests.setup}\nimport numpy, numpy as np" if numpy else tests.setup
    verdicts = _call_all(runner, CHECK, "_check_", checks, cpu_s, setup)
    for number, value in enumerate(verdicts.values):
        if value.data != "true":
            return _failed(tests, number, f"not true: {_cut(tests.inputs[number])}")
    return _ended(tests, verdicts)


def _run_check(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Run `check` in the program's process, see `jail.in_process`."""
    (test,) = tests.inputs
    calls = _call_all(runner, program, tests.entry, [], cpu_s, owner="Solution", test=test)
    if calls.status == Status.OK:
        return _passed(tests)
    return _failed(tests, None, calls.reason, calls.status)


def _returned(tests: Suite, calls: Calls) -> list[Any] | Grade:
    """The values of calls; or the grade of a failed one."""
    if calls.status != Status.OK:
        return _failed(tests, None, calls.reason, calls.status)
    values = []
    for value in calls.values:
        try:
            values.append(read_value(value.data or ""))
        except LiteralError:
            return _failed(tests, None, f"returned {_quoted(value)}, which cannot be compared")
    return values


def _call_all(
    runner: ScriptRunner,
    program: str,
    entry: str,
    inputs: Sequence[Any],
    cpu_s: float,
    setup: str = "",
    **more: Any,
) -> Calls:
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


def _passed(tests: Suite) -> Grade:
    return Grade(1.0, "", len(tests.inputs), len(tests.inputs))


def _ended(tests: Suite, calls: Calls) -> Grade:
    """The grade of calls whose returned values were all right."""
    if calls.status == Status.OK:
        return _passed(tests)
    return _failed(tests, len(calls.values) if calls.call else None, calls.reason, calls.status)


def _failed(tests: Suite, place: int | None, reason: str, status: str = Status.OK) -> Grade:
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


def _quoted(value: Value) -> str:
    return _cut(value.text) if value.text is not None else f"a {value.type_name}"


def _cut(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 20]}... ({len(text)} characters)")
