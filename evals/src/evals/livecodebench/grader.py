"""Grading of LiveCodeBench samples: scripts as child processes with a pipe, functions as calls.

Tests run until the first that fails. Limits are of processor time, 6 s a test as in the official
harness; its clock is the wall's, so on a busy machine it fails programs that pass here. A program
has the names that the harness gives it, but these never hide a built-in function, and the standard
input is a file.
"""

import ast
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial

from code_verifier import (
    ProgramError,
    ScriptRunner,
    Status,
    equal_output,
    equal_value,
    ordered_map,
    parse_program,
)
from evals.benchmark import FAIL, PASS, TIMEOUT, Outcome
from evals.errors import EvalsError
from evals.livecodebench.problems import FUNCTIONAL, Case, Problem, read_tests

_LEAST_BYTES = 1 << 24
_AHEAD = 32  # one program may take as long as hundreds of others
_RECURSION = 50_000


class LiveCodeBenchGrader(AbstractContextManager["LiveCodeBenchGrader"]):
    """A context manager that grades programs against problems.

    workers: programs that run at a time. timeout_s: processor seconds of a test. Raises
    SandboxUnavailable when it starts to grade on a machine without the protection it needs, unless
    `allow_weak`.
    """

    def __init__(
        self,
        workers: int = 1,
        timeout_s: float = 6.0,
        allow_weak: bool = False,
    ) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._runner = ScriptRunner(allow_weak=allow_weak, slots=threading.Semaphore(workers))

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        self._runner.close()

    def grade(self, problem: Problem, program: str) -> Outcome:
        """Return what one program does on the tests of a problem."""
        try:
            tests = read_tests(problem)
            if not tests:
                return Outcome(None, f"problem {problem.question_id} has no tests")
            if tests[0].kind == FUNCTIONAL:
                return self._functional(problem, program, tests)
            return self._script(program, tests)
        except EvalsError as error:
            return Outcome(None, str(error))

    def grade_many(self, samples: Iterable[tuple[Problem, str]]) -> Iterator[Outcome]:
        """Yield outcomes in the order of the samples; lazy, as parallel as there are workers."""
        return ordered_map(lambda sample: self.grade(*sample), samples, self._workers, ahead=_AHEAD)

    def _script(self, program: str, tests: Sequence[Case]) -> Outcome:
        run_program = partial(
            self._runner.run,
            cpu_s=self._timeout_s,
            prelude=ScriptRunner.CONTEST_NAMES,
            recursion=_RECURSION,
        )
        for number, test in enumerate(tests):
            room = _room(test.output)
            run = run_program(program, test.input, output_bytes=room)
            if number == 0 and run.reason == "SyntaxError":
                program = _inside_function(program)  # for `return` and `nonlocal` at the top
                run = run_program(program, test.input, output_bytes=room)
            if run.status == Status.SANDBOX_ERROR:
                return Outcome(None, run.reason)
            if run.status != Status.OK:
                return Outcome(_status(run.status), run.reason, number)
            output = run.output.decode("utf-8", "replace")
            if not equal_output(output, test.output):
                reason = f"printed {_shown(output)}; expected {_shown(test.output)}"
                return Outcome(FAIL, reason, number)
        return Outcome(PASS)

    def _functional(self, problem: Problem, program: str, tests: Sequence[Case]) -> Outcome:
        if not problem.function:
            raise EvalsError(f"problem {problem.question_id} lacks func_name in its metadata")
        inputs = [_arguments(test, problem) for test in tests]
        calls = self._runner.call(
            program,
            problem.function,
            inputs,
            [self._timeout_s] * len(inputs),
            module_s=self._timeout_s,
            total_s=(self._timeout_s + 1) * len(inputs) + 5,
            prelude=ScriptRunner.CONTEST_NAMES,
            owner="Solution",
            recursion=_RECURSION,
        )
        for number, (value, test) in enumerate(zip(calls.values, tests, strict=False)):
            try:
                right = equal_value(value, json.loads(test.output))
            except (ValueError, RecursionError):
                raise EvalsError(
                    f"problem {problem.question_id}: an expected output is not JSON"
                ) from None
            if not right:
                returned = value.text if value.text is not None else f"a {value.type_name}"
                reason = f"returned {_shown(returned)}; expected {_shown(test.output)}"
                return Outcome(FAIL, reason, number)
        if calls.status == Status.OK:
            return Outcome(PASS)
        if calls.status == Status.SANDBOX_ERROR:
            return Outcome(None, calls.reason)
        failed = len(calls.values) if calls.call else None
        return Outcome(_status(calls.status), calls.reason, failed)


def _inside_function(program: str) -> str:
    """The program as the body of a function that is called, behind its imports."""
    try:
        tree = parse_program(program).tree
    except ProgramError:
        return program
    body = list(tree.body) if isinstance(tree, ast.Module) else []
    last = body[-1] if body else None
    if isinstance(last, ast.If) and ast.unparse(last.test).strip() == "__name__ == '__main__'":
        body[-1:] = last.body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    if not others:
        return program
    inner = "\n".join("    " + line for node in others for line in ast.unparse(node).split("\n"))
    head = "\n".join(ast.unparse(node) for node in imports)
    return f"{head}\ndef wrapped_function():\n{inner}\nwrapped_function()\n"


def _room(expected: str) -> int:
    """Bytes that a script may write. The program can find this number in its memory, so it tells
    nothing about the length of an expected output, and little about that of a huge one."""
    return max(_LEAST_BYTES, 1 << (2 * len(expected.encode())).bit_length())


def _arguments(test: Case, problem: Problem) -> tuple[object, ...]:
    try:
        return tuple(json.loads(line) for line in test.input.split("\n"))
    except (ValueError, RecursionError):
        raise EvalsError(f"problem {problem.question_id}: a test input is not JSON") from None


def _status(status: str) -> str:
    return TIMEOUT if status == Status.TIMEOUT else FAIL


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)")
