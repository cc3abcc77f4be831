"""Grading of LiveCodeBench samples: scripts as child processes with a pipe, functions as calls.

Tests run until the first that fails. Limits are of processor time, 6 s a test as in the official
harness; its clock is the wall's, so on a busy machine it fails programs that pass here. A program
has the names that the harness gives it, but these never hide a built-in function, and the standard
input is a file.
"""

import ast
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from code_verifier import (
    CodeVerifierError,
    ProgramError,
    ScriptRunner,
    Status,
    ordered_map,
    parse_program,
    read_tests,
    run_tests,
)
from evals.benchmark import FAIL, PASS, TIMEOUT, Outcome
from evals.errors import EvalsError
from evals.livecodebench.problems import Problem, row_of_tests

_AHEAD = 32  # one program may take as long as hundreds of others


class LiveCodeBenchGrader(AbstractContextManager["LiveCodeBenchGrader"]):
    """A context manager that grades programs against problems.

    workers: programs that run at a time. timeout_s: processor seconds of a test. Raises
    SandboxUnavailable when it starts to grade on a machine without the protection it needs, unless
    `allow_weak`.
    """

    def __init__(self, workers: int = 1, timeout_s: float = 6.0, allow_weak: bool = False) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._runner = ScriptRunner(allow_weak=allow_weak, slots=threading.Semaphore(workers))

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        self._runner.close()

    def grade(self, problem: Problem, program: str) -> Outcome:
        """Return what one program does on the tests of a problem."""
        try:
            tests = read_tests(row_of_tests(problem))
        except (CodeVerifierError, EvalsError) as error:
            return Outcome(None, f"problem {problem.question_id}: {error}")
        grade = run_tests(self._runner, program, tests, self._timeout_s)
        if not tests.entry and grade.reason.endswith("SyntaxError"):
            program = _inside_function(program)  # for `return` and `nonlocal` at the top
            grade = run_tests(self._runner, program, tests, self._timeout_s)
        if not grade.judged:
            return Outcome(None, grade.reason)
        status = TIMEOUT if grade.status == Status.TIMEOUT else PASS if grade.score else FAIL
        return Outcome(status, grade.reason, None if grade.score else grade.passed)

    def grade_many(self, samples: Iterable[tuple[Problem, str]]) -> Iterator[Outcome]:
        """Yield outcomes in the order of the samples; lazy, as parallel as there are workers."""
        return ordered_map(lambda sample: self.grade(*sample), samples, self._workers, ahead=_AHEAD)


def _inside_function(program: str) -> str:
    """The program as the body of a function that is called, behind its imports."""
    try:
        tree = parse_program(program).tree
    except ProgramError:
        return program
    body = list(tree.body)
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
