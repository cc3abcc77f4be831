"""Tests as data sets have them: read from a row, and run on a program under the jail's walls.

Three forms are known: assertions, arguments of a function with what it must return, and standard
input with what must be printed. What is expected is never in the program's process: there only
calls are made or the script is run, and what comes back is compared in another one or here.
"""

import ast
import builtins
import json
import symtable
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.literals import parse_arguments
from code_verifier.scripts.runner import CONTEST_MODULES, Calls, ScriptRunner, Value
from code_verifier.scripts.values import read_value, shown
from code_verifier.tasks import Grade, text_field, text_list, text_or_none

_SHOWN = 80
_TEXT_CHARS = 1 << 20
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_ASK = """

def _ask_(expression):
    return eval(expression, globals())
"""
_CHECK = """
_known_ = {"nan": float("nan"), "inf": float("inf"), "nanj": complex(0, float("nan")),
           "infj": complex(0, float("inf"))}
def _check_(expression, texts):
    values = {f"_{place}_": eval(text, dict(_known_)) for place, text in enumerate(texts)}
    return bool(eval(expression, globals() | values))
"""


@dataclass(frozen=True)
class Suite:
    """Tests of one program. Equal ones are equal, and hashable.

    inputs: assertions where there are no outputs; the arguments of each call of `entry` as the
    text of a tuple; else standard inputs. outputs: the text of a value of each call, or what is
    printed. setup: trusted code in front of the program and of the assertions.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    entry: str = ""
    setup: str = ""

    @property
    def name(self) -> str:
        """The name that a program has to define, as far as one can see; "" for a script."""
        if self.outputs:
            return self.entry if self.entry != "Solution" else ""
        for node in ast.walk(_assertion(self.inputs[0])):
            match node:
                case ast.Call(ast.Name(name)) if not hasattr(builtins, name):
                    return name
        return ""


def read_tests(row: Mapping[str, Any]) -> Suite:
    """Return the tests of a row. Raises CodeVerifierError for a row that holds none.

    Columns, the first that are there: `test_list` (or `assert_case`), each one assertion, with
    `test_imports` and `test_setup_code`; `test`, which defines `check(candidate)` as HumanEval's
    does, of assertions alone, with `entry_point`; `entry_point` (or `fn_name`), `inputs` and
    `outputs`, where an input is a list of arguments and an output a value, or both are texts (JSON,
    an argument a line, or Python literals with commas); `inputs` and `outputs` alone, standard
    input and output, each a text or a list of lines. `input_output` may hold any of them as one
    JSON text. Or the columns of CodeContests (`public_tests`, `private_tests`, `generated_tests`,
    each with `input` and `output`) or of LiveCodeBench (`public_test_cases`, `private_test_cases`
    as JSON, and `metadata`).
    """
    if (packed := row.get("input_output")) is not None:
        row = {**row, **_object("input_output", packed)}
    imports = "\n".join(text_list(row, "test_imports"))
    setup = f"{imports}\n{text_or_none(row, 'test_setup_code') or ''}".strip()
    asserts = text_list(row, "test_list") or text_list(row, "assert_case")
    if not asserts and row.get("test") and row.get("entry_point"):
        setup, asserts = _checks(text_field(row, "test"), text_field(row, "entry_point"))
    if asserts:
        _bound(setup)  # which raises, as does the next, when it is not Python
        for text in asserts:
            _assertion(text)
        return Suite(asserts, setup=setup)
    row = _contest_row(row)
    inputs, outputs = row.get("inputs"), row.get("outputs")
    if not isinstance(inputs, list | tuple) or not isinstance(outputs, list | tuple) or not inputs:
        names = ", ".join(repr(name)[:_SHOWN] for name in row)
        raise CodeVerifierError(
            f"no tests; found {names or 'nothing'}; expected 'test_list', or "
            "'inputs' and 'outputs' with or without 'entry_point'"
        )
    if len(inputs) != len(outputs):
        raise CodeVerifierError(
            f"{len(inputs)} inputs and {len(outputs)} outputs; expected as many"
        )
    if not row.get("entry_point") and not row.get("fn_name"):
        return Suite(_joined(row, "inputs"), _joined(row, "outputs"), setup=setup)
    return _calls(row, inputs, outputs, setup)


def _calls(
    row: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any], setup: str
) -> Suite:
    """The tests of a function: its arguments, and what it must return."""
    boxed = row.get("entry_point") is None  # as APPS has them
    try:
        pairs = [_call(*pair, boxed) for pair in zip(inputs, outputs, strict=True)]
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]
        raise (
            error
            if isinstance(error, CodeVerifierError)
            else CodeVerifierError(f"a test cannot be written down: {reason}")
        ) from None
    entry = text_field(row, "entry_point", "fn_name")
    return Suite(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), entry, setup)


def _contest_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with `inputs` and `outputs` of what CodeContests and LiveCodeBench call otherwise."""
    if row.get("inputs") is not None:
        return row
    cases: list[Any] = []
    for name in ("public_test_cases", "private_test_cases"):
        if row.get(name):
            cases += _parsed(name, row[name], list)
    for name in ("public_tests", "private_tests", "generated_tests"):
        if row.get(name):
            tests = _object(name, row[name])
            cases += [
                {"input": text, "output": output}
                for text, output in zip(
                    tests.get("input", ()), tests.get("output", ()), strict=False
                )
            ]
    if not all(isinstance(case, Mapping) for case in cases):
        raise CodeVerifierError("a test of the row is no object; expected 'input' and 'output'")
    metadata = _object("metadata", row["metadata"]) if cases and row.get("metadata") else {}
    more = {"entry_point": metadata["func_name"]} if metadata.get("func_name") else {}
    columns = {f"{key}s": [case.get(key) for case in cases] for key in ("input", "output")}
    return {**row, **more, **columns} if cases else row


def _object(name: str, value: object) -> Mapping[str, Any]:
    content: Mapping[str, Any] = _parsed(name, value, Mapping)
    return content


def _parsed(name: str, value: object, kind: Any) -> Any:
    """A column that holds an object or a list, or its JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise CodeVerifierError(f"field {name!r} is not JSON: {error}") from None
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "an object"
        raise CodeVerifierError(f"field {name!r} holds a {type(value).__name__}; expected {wanted}")
    return value


def _joined(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A column of texts, each of which may be a list of its lines."""
    items = [
        "\n".join(item) if isinstance(item, list | tuple) and all(map(_is_text, item)) else item
        for item in row[name]
    ]
    return text_list({name: items}, name)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _assertion(text: str) -> ast.expr:
    """The condition of one assert statement."""
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []
    if len(body) != 1 or not isinstance(body[0], ast.Assert):
        raise CodeVerifierError(f"a test is {text[:_SHOWN]!r}; expected one assert statement")
    return body[0].test


def _checks(test: str, entry: str) -> tuple[str, tuple[str, ...]]:
    """What surrounds the assertions of `check(candidate)`, and these, about the entry point.

    Raises CodeVerifierError for a check that does more with the candidate: it would have to run
    where the program does, which could then answer in its place.
    """
    try:
        outside = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeVerifierError(f"'test' is no Python: {error}") from None
    check = next((s for s in outside if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or [argument.arg for argument in check.args.args] != ["candidate"]:
        raise CodeVerifierError(f"'test' is {test[:_SHOWN]!r}; expected def check(candidate)")
    setup, texts = [statement for statement in outside if statement is not check], []
    for statement in check.body:
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == "candidate"]
        for name in names:
            name.id = entry
        if names and not isinstance(statement, ast.Assert):
            raise CodeVerifierError(
                f"check(candidate) holds {ast.unparse(statement)[:_SHOWN]!r}; expected assertions "
                "alone; write them out in 'test_list'"
            )
        if names:
            texts.append(ast.unparse(statement))
        elif not isinstance(statement, ast.Assert):
            setup.append(statement)
    return "\n".join(map(ast.unparse, setup)), tuple(texts)


def _call(arguments: object, output: object, boxed: bool) -> tuple[str, str]:
    """The texts of the arguments and of the values of one call. boxed: the value may be the first
    item of a list, and the keys of an object that look like numbers are numbers."""
    if isinstance(arguments, str) and isinstance(output, str):
        return repr(_arguments(arguments)), repr([_value(output)])
    if not isinstance(arguments, Sequence) or isinstance(arguments, str):
        raise CodeVerifierError(
            f"an input is {str(arguments)[:_SHOWN]!r}, its output of type {type(output).__name__}; "
            "expected a list of arguments and a value, or two texts"
        )
    values = [output]
    if boxed:
        arguments = [_numbered(item) for item in arguments]
        values = [_numbered(output)]
        values += [_numbered(output[0])] if isinstance(output, list) and output else []
    return repr(tuple(arguments)), repr(values)


def _numbered(value: Any) -> Any:
    """An object whose keys JSON made texts, with the numbers that they were."""
    try:
        return {int(key): item for key, item in value.items()} if isinstance(value, dict) else value
    except ValueError:
        return value


def _arguments(text: str) -> tuple[object, ...]:
    try:
        return tuple(json.loads(line) for line in text.split("\n"))
    except (ValueError, RecursionError):
        positional, named = parse_arguments(text)
        if named:
            raise CodeVerifierError(
                f"the input {text[:_SHOWN]!r} has names; expected positions"
            ) from None
        return tuple(positional)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return read_value(text)


def run_tests(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Return whether the program passes all tests, run until the first that fails. cpu_s:
    processor seconds that it may take for each."""
    if not tests.outputs:
        return _run_asserts(runner, program, tests, cpu_s)
    if tests.entry:
        return _run_calls(runner, program, tests, cpu_s)
    for number, (stdin, expected) in enumerate(zip(tests.inputs, tests.outputs, strict=True), 1):
        run = runner.run(
            program, stdin, cpu_s=cpu_s, prelude=ScriptRunner.CONTEST_NAMES + tests.setup
        )
        if run.status != Status.OK:
            return _failed(number, run.status, run.reason)
        printed = run.output.decode("utf-8", "replace")
        if not equal_output(printed, expected):
            return _failed(number, Status.OK, f"printed {_cut(printed)}; expected {_cut(expected)}")
    return Grade(1.0, "")


def _run_calls(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    inputs = [read_value(text) for text in tests.inputs]
    calls = _ask(runner, program, tests.entry, inputs, cpu_s, tests.setup, "Solution")
    for number, (value, expected) in enumerate(zip(calls.values, tests.outputs, strict=False), 1):
        accepted = read_value(expected)
        if not any(equal_value(value, item) for item in accepted):
            expected = repr(accepted[0])
            text = value.text if value.text is not None else f"a {value.type_name}"
            return _failed(number, Status.OK, f"returned {_cut(text)}; expected {_cut(expected)}")
    if calls.status != Status.OK:
        return _failed(len(calls.values) + 1, calls.status, calls.reason)
    return Grade(1.0, "")


def _run_asserts(runner: ScriptRunner, program: str, tests: Suite, cpu_s: float) -> Grade:
    """Ask the program for the values of its calls, then judge the assertions without it."""
    known = _bound(tests.setup) | set(dir(builtins))
    splits = [_split(_assertion(text), known) for text in tests.inputs]
    expressions = [(text,) for _, texts in splits for text in texts]
    calls = _ask(runner, program + _ASK, "_ask_", expressions, cpu_s, tests.setup)
    if calls.status != Status.OK:
        return _failed(None, calls.status, calls.reason)
    returned = []
    for value in calls.values:
        try:
            returned.append(shown(read_value(value.text or "")))  # which is safe to evaluate
        except LiteralError:
            reason = f"returned a {value.type_name}, which cannot be compared"
            return _failed(None, Status.OK, reason)
    left = iter(returned)
    checks = [(condition, [next(left) for _ in texts]) for condition, texts in splits]
    checked = _ask(runner, _CHECK, "_check_", checks, cpu_s, tests.setup)
    for number, value in enumerate(checked.values, 1):
        if value.text != "True":
            return _failed(number, Status.OK, f"not true: {_cut(tests.inputs[number - 1])}")
    if checked.status != Status.OK:
        return _failed(len(checked.values) + 1, checked.status, checked.reason)
    return Grade(1.0, "")


def _ask(
    runner: ScriptRunner,
    program: str,
    entry: str,
    inputs: Sequence[Any],
    cpu_s: float,
    setup: str,
    owner: str = "",
) -> Calls:
    return runner.call(
        program,
        entry,
        inputs,
        [cpu_s] * len(inputs),
        module_s=cpu_s,
        total_s=cpu_s * (len(inputs) + 1),
        prelude=ScriptRunner.CONTEST_NAMES + setup,
        owner=owner,
        text_chars=_TEXT_CHARS,
    )


def _failed(number: int | None, status: str, reason: str) -> Grade:
    """The grade of a test that failed. status: of its process."""
    if status == Status.SANDBOX_ERROR:
        return Grade(0.0, reason, status=Status.SANDBOX_ERROR)
    where = "" if number is None else f"test {number}: "
    return Grade(0.0, f"{where}{reason or status}")


def _split(condition: ast.expr, known: set[str]) -> tuple[str, list[str]]:
    """A condition with `_0_`, `_1_` ... for what it asks of the program, and what that is.

    Names that are neither built in nor of the setup are the program's; where there are none, those
    of the functions that are called are. A call that depends on a variable of the assertion itself
    takes the whole condition along.
    """
    used = [node.id for node in _names(condition) if isinstance(node.ctx, ast.Load)]
    known = known | _modules_in(condition, used)
    unknown = set(used)
    unknown -= known | {node.id for node in _names(condition) if isinstance(node.ctx, ast.Store)}
    unknown -= {node.arg for node in ast.walk(condition) if isinstance(node, ast.arg)}
    called = [node.func for node in ast.walk(condition) if isinstance(node, ast.Call)]
    unknown = unknown or {node.id for node in called if isinstance(node, ast.Name)}
    if any(isinstance(node, _SCOPES) and _uses(node, unknown) for node in ast.walk(condition)):
        return "_0_", [ast.unparse(condition)]
    places = _Places(unknown)
    judged = ast.unparse(places.visit(condition))
    if judged in ("_0_", "not _0_"):  # whatever it is, only its truth is asked for
        places.texts = [f"bool({text})" for text in places.texts]
    return judged, places.texts


def _modules_in(condition: ast.expr, used: list[str]) -> set[str]:
    """The usual modules that a condition uses as such: they are the real ones, and not what the
    program calls so."""
    modules = [
        node.value.id
        for node in ast.walk(condition)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    return {name for name in CONTEST_MODULES if used.count(name) == modules.count(name)}


class _Places(ast.NodeTransformer):
    """Puts a place for each part of an expression whose value only the program knows."""

    def __init__(self, unknown: set[str]) -> None:
        self.unknown = unknown
        self.texts: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Call(func=head) | ast.Attribute(value=head) | (ast.Name() as head):
                if _uses(head, self.unknown):
                    self.texts.append(ast.unparse(node))
                    return ast.Name(f"_{len(self.texts) - 1}_", ast.Load())
        return self.generic_visit(node)


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _uses(tree: ast.AST, names: set[str]) -> bool:
    return any(node.id in names for node in _names(tree))


def _bound(code: str) -> set[str]:
    """The names that a trusted module binds."""
    try:
        symbols = symtable.symtable(code, "<setup>", "exec").get_symbols()
    except SyntaxError as error:
        raise CodeVerifierError(f"the set-up of a test is no Python: {error}") from None
    return {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}


def equal_output(printed: str, expected: str) -> bool:
    """Compare the lines, without space around them: the same text, or the same numbers.

    Numbers are compared as decimals, exactly: 1.50 is 1.5, and 1.5000001 is not.
    """
    lines, wanted = _lines(printed), _lines(expected)
    return len(lines) == len(wanted) and all(map(_equal_line, lines, wanted))


def equal_value(value: Value, expected: object) -> bool:
    """Compare a returned value with another under Python's `==`; a tuple at the top is as good as
    a list."""
    accepted = [Value.of(expected).digest]
    if isinstance(expected, list):
        accepted.append(Value.of(tuple(expected)).digest)
    return value.digest != "" and value.digest in accepted


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _equal_line(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    try:
        numbers = [Decimal(word) for word in printed.split()]
        return numbers == [Decimal(word) for word in expected.split()]
    except (InvalidOperation, ValueError):
        return False


def _cut(text: str) -> str:
    text = text.strip()
    return repr(
        text if len(text) <= _SHOWN else f"{text[: _SHOWN - 20]}... ({len(text)} characters)"
    )
