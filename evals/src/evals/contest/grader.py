"""Grading of LiveCodeBench samples: scripts as child processes with a pipe, functions as calls.

Tests run until the first that fails. Limits are of processor time, 6 s a test as in the official
harness; its clock is the wall's, so on a busy machine it fails programs that pass here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from code_verifier.modules.reports import ScriptRun
from code_verifier.modules.runner import ModuleRunner
from code_verifier.sandbox.closing import Closing
from code_verifier.sandbox.parallel import ordered_map
from evals.contest import prelude
from evals.contest.answers import equal_output, equal_value
from evals.contest.problem import FUNCTIONAL, ContestProblem, ContestTest
from evals.contest.tests import read_tests
from evals.errors import EvalsError

PASS, FAIL, TIMEOUT = "pass", "fail", "timeout"
_LEAST_BYTES = 1 << 24
_AHEAD = 32  # one program may take as long as hundreds of others
_LATE = frozenset({"cpu", "total", "idle"})


@dataclass(frozen=True)
class ContestVerdict:
    """status: `pass`, `fail` or `timeout`; None when the fault is ours. failed_test: from 0."""

    status: str | None
    reason: str
    failed_test: int | None


class ContestGrader(Closing):
    """A context manager that grades programs against problems.

    workers: programs that run at a time. timeout_s: processor seconds of a test. lcb_compat: run
    programs in the surroundings that the official harness makes, see `prelude`. Raises EvalsError;
    SandboxUnavailable when it starts to grade without the walls it needs, unless `allow_weak`.
    """

    def __init__(
        self,
        workers: int = 1,
        timeout_s: float = 6.0,
        lcb_compat: bool = False,
        memory_mb: int = 4096,
        allow_weak: bool = False,
    ) -> None:
        if workers < 1:
            raise EvalsError(f"workers is {workers}; expected 1 or more")
        if not 0 < timeout_s < 1e6:
            raise EvalsError(f"timeout_s is {timeout_s}; expected seconds above 0")
        self._workers = workers
        self._timeout_s = timeout_s
        self._compat = lcb_compat
        self._runner = ModuleRunner(memory_mb, allow_weak, threading.Semaphore(workers))

    def close(self) -> None:
        """End all processes."""
        self._runner.close()

    def grade(self, problem: ContestProblem, program: str) -> ContestVerdict:
        """The verdict on one program, as `extraction` gives it."""
        try:
            tests = read_tests(problem)
            if not tests:
                return ContestVerdict(None, f"problem {problem.question_id} has no tests", None)
            if tests[0].kind == FUNCTIONAL:
                return self._functional(problem, program, tests)
            return self._script(program, tests)
        except EvalsError as error:
            return ContestVerdict(None, str(error), None)

    def grade_many(self, samples: Iterable[tuple[ContestProblem, str]]) -> Iterator[ContestVerdict]:
        """Verdicts in the order of the samples; lazy, and as parallel as there are workers."""
        return ordered_map(lambda sample: self.grade(*sample), samples, self._workers, ahead=_AHEAD)

    def _script(self, program: str, tests: Sequence[ContestTest]) -> ContestVerdict:
        before = prelude.PRELUDE
        if self._compat:
            before, program = prelude.COMPAT_SCRIPT, prelude.compatible_script(program)
        for number, test in enumerate(tests):
            run = self._run(before, program, test)
            if number == 0 and run.reason == "SyntaxError" and not self._compat:
                program = prelude.inside_function(program)  # for `return` and `nonlocal` at the top
                run = self._run(before, program, test)
            if run.ending == "fault":
                return ContestVerdict(None, run.reason, None)
            if run.ending != "done":
                return ContestVerdict(_status(run.ending), run.reason, number)
            output = run.output.decode("utf-8", "replace")
            if not equal_output(output, test.output):
                reason = f"printed {_shown(output)}; expected {_shown(test.output)}"
                return ContestVerdict(FAIL, reason, number)
        return ContestVerdict(PASS, "", None)

    def _run(self, before: str, program: str, test: ContestTest) -> ScriptRun:
        return self._runner.run_script(
            program,
            test.input,
            cpu_s=self._timeout_s,
            prelude=before,
            recursion=prelude.RECURSION,
            output_bytes=_room(test.output),
        )

    def _functional(
        self, problem: ContestProblem, program: str, tests: Sequence[ContestTest]
    ) -> ContestVerdict:
        if not problem.function:
            raise EvalsError(f"problem {problem.question_id} lacks func_name in its metadata")
        inputs = [_arguments(test, problem) for test in tests]
        before = prelude.PRELUDE
        if self._compat:
            before, program = "", prelude.compatible_module(program)
        calls = self._runner.call(
            program,
            problem.function,
            inputs,
            [self._timeout_s] * len(inputs),
            module_s=self._timeout_s,
            total_s=(self._timeout_s + 1) * len(inputs) + 5,
            prelude=before,
            owner="Solution",
            recursion=prelude.RECURSION,
        )
        for number, (value, test) in enumerate(zip(calls.values, tests, strict=False)):
            try:
                right = equal_value(value, test.output)
            except (ValueError, RecursionError):
                raise EvalsError(
                    f"problem {problem.question_id}: an expected output is not JSON"
                ) from None
            if not right:
                found = value.text if value.text is not None else f"a {value.type_name}"
                reason = f"returned {_shown(found)}; expected {_shown(test.output)}"
                return ContestVerdict(FAIL, reason, number)
        if calls.ending == "done":
            return ContestVerdict(PASS, "", None)
        if calls.ending == "fault":
            return ContestVerdict(None, calls.reason, None)
        failed = len(calls.values) if calls.call else None
        return ContestVerdict(_status(calls.ending), calls.reason, failed)


def _room(expected: str) -> int:
    """Bytes that a script may write. The program can find this number in its memory, so it tells
    nothing about the length of an expected output, and little about that of a huge one."""
    return max(_LEAST_BYTES, 1 << (2 * len(expected.encode())).bit_length())


def _arguments(test: ContestTest, problem: ContestProblem) -> tuple[object, ...]:
    try:
        return tuple(json.loads(line) for line in test.input.split("\n"))
    except (ValueError, RecursionError):
        raise EvalsError(f"problem {problem.question_id}: a test input is not JSON") from None


def _status(ending: str) -> str:
    return TIMEOUT if ending in _LATE else FAIL


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)")
