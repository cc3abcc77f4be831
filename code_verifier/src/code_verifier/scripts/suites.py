"""Read the tests of data sets from rows."""

import ast
import base64
import builtins
import io
import json
import marshal
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from code_verifier.errors import CodeVerifierError, LiteralError
from code_verifier.literals import parse_arguments, parse_literal
from code_verifier.scripts import assertions
from code_verifier.scripts.assertions import SHOWN, assertion, bound_in, split_condition
from code_verifier.user_files import text_field, text_list, text_or_none

_MOST_BYTES = 1 << 30
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
        return [*(n for n in names if n not in assertions.contest_names()), *names, ""][0]


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
        row = {**row, **_parse_column("input_output", packed, Mapping)}
    imports = "\n".join(text_list(row, "test_imports"))
    setup = f"{imports}\n{text_or_none(row, 'test_setup_code') or ''}".strip()
    if asserts := text_list(row, "test_list") or text_list(row, "assert_case"):
        return _read_asserts(asserts, setup)
    if row.get("test") and row.get("entry_point"):
        entry = text_field(row, "entry_point")
        preamble, asserts = assertions.check_of(text_field(row, "test"), entry)
        return _read_asserts(asserts, preamble) if asserts else Suite((preamble,), entry=entry)
    row = _contest_row(row)
    inputs, outputs = row.get("inputs"), row.get("outputs")
    if not isinstance(inputs, list | tuple) or not isinstance(outputs, list | tuple) or not inputs:
        names = ", ".join(repr(name)[:SHOWN] for name in row)
        raise CodeVerifierError(
            f"no tests; found {names or 'nothing'}; expected 'test_list', or "
            "'inputs' and 'outputs' with or without 'entry_point'"
        )
    if (total := len(inputs)) != len(outputs):
        raise CodeVerifierError(f"{total} inputs and {len(outputs)} outputs; expected as many")
    if not row.get("entry_point") and not row.get("fn_name"):
        return Suite(_join_lines("inputs", inputs), _join_lines("outputs", outputs), setup=setup)
    boxed = row.get("entry_point") is None  # as APPS has them
    single = boxed and all(isinstance(x, list | tuple) and len(x) == 1 for x in outputs)
    pairs = [_call(*pair, boxed, single) for pair in zip(inputs, outputs, strict=True)]
    entry = text_field(row, "entry_point", "fn_name")
    draw = not any(name in row for name in _LIVECODEBENCH)  # which compares what is returned
    return Suite(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), entry, setup, draw)


def _read_asserts(asserts: tuple[str, ...], setup: str) -> Suite:
    names = bound_in(setup)
    suite = Suite(asserts, setup=setup)
    splits = [split_condition(assertion(text), names) for text in asserts]
    if all(splits):
        return suite
    return Suite((assertions.as_check(asserts, setup),), entry=suite.name or "check")


def _contest_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with `inputs` and `outputs` from the columns of CodeContests and LiveCodeBench."""
    if row.get("inputs") is not None:
        return row
    cases: list[Any] = []
    for name in _LIVECODEBENCH:
        if row.get(name):
            cases += _parse_column(name, row[name], list)
    for name in ("public_tests", "private_tests", "generated_tests"):
        if row.get(name):
            tests = _parse_column(name, row[name], Mapping)
            pair = tests.get("input") or (), tests.get("output") or ()
            cases += [{"input": text, "output": output} for text, output in zip(*pair, strict=True)]
    if not all(isinstance(case, Mapping) for case in cases):
        raise CodeVerifierError("a test of the row is no object; expected 'input' and 'output'")
    kinds = {case.get("testtype") for case in cases} - {"stdin"}
    metadata = _parse_column("metadata", row.get("metadata") or {}, Mapping) if kinds else {}
    entry = metadata.get("func_name")
    if not entry and "functional" in kinds:
        raise CodeVerifierError("a test calls a function that 'metadata' has no func_name for")
    columns = {f"{key}s": [case.get(key) for case in cases] for key in ("input", "output")}
    return {**row, **columns, **({"entry_point": entry} if entry else {})} if cases else row


def _parse_column(name: str, value: object, kind: Any) -> Any:
    """The object or list of a column, which may also hold its JSON, or packed JSON."""
    if isinstance(value, str):
        if name == "private_test_cases" and value.lstrip()[:1] != "[":
            value = _unpack(value)
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


def _unpack(text: str) -> str:
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


def _join_lines(name: str, items: Sequence[Any]) -> tuple[str, ...]:
    """A column of texts, each of which may be a list of its lines."""
    lined = [isinstance(x, list | tuple) and all(isinstance(y, str) for y in x) for x in items]
    texts = ["\n".join(x) if is_lined else x for x, is_lined in zip(items, lined, strict=True)]
    return text_list({name: texts}, name)


def _call(arguments: Any, output: Any, boxed: bool, single: bool) -> tuple[bytes, bytes]:
    """The arguments of one call, and the values that it may return, marshalled. boxed: keys of
    objects that look like numbers are numbers. single: the value may be the list's only item."""
    values: list[Any] = [output]
    if isinstance(arguments, str) and isinstance(output, str):
        try:
            arguments, values = _arguments(arguments), [_value(output)]
        except LiteralError as error:
            names = f"the input {arguments[:SHOWN]!r} or its output {output[:SHOWN]!r}"
            raise CodeVerifierError(f"{names} is neither JSON nor Python: {error}") from None
    elif not isinstance(arguments, Sequence) or isinstance(arguments, str):
        raise CodeVerifierError(
            f"an input is {str(arguments)[:SHOWN]!r}, its output of type {type(output).__name__}; "
            "expected a list of arguments and a value, or two texts"
        )
    elif boxed:
        arguments = [_number_keys(item) for item in arguments]
        values = list(map(_number_keys, [output, *(output if single else ())]))
        lists = [v for v in values if isinstance(v, list) and all(isinstance(i, list) for i in v)]
        values += [list(map(tuple, rows)) for rows in lists]  # JSON has no tuples
    try:
        return marshal.dumps(tuple(arguments), 2), marshal.dumps(values, 2)
    except ValueError as error:
        raise CodeVerifierError(f"a test holds a value that is no data: {error}") from None


def _number_keys(value: Any) -> Any:
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
