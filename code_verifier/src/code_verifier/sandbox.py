"""The sandbox: settings and processes of one caller, and what can be asked of them.

Programs are examined and executed through a pool, and what their executions give is compared.
"""

import marshal
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

from code_verifier import processes
from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.grading import grade_answer, validate_proposal
from code_verifier.jail import protocol
from code_verifier.jail.modules import ALL
from code_verifier.literals import Comparison, parse_literal
from code_verifier.parallel import ordered_map
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict

CHANCE_RUNS = 16
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)
_GRACE_S = 10.0


@dataclass(frozen=True)
class Examined:
    """The code of a program, or arguments, with the flags of `protocol`."""

    flags: int
    data: bytes


class Sandbox(AbstractContextManager["Sandbox"]):
    r"""Runs programs, each execution in a fresh confined process.

    workers: executions at a time. limits: what one execution may use. runs: executions of one
    `check`, each under a hash seed and clocks of its own; a program that can reach a
    source of chance gets 16. comparison: how answers are compared.
    allow_weak: go on where the kernel offers no system-call filter.

    May be shared by threads and survives a fork of the caller. Close it, or use `with`.
    Raises SandboxUnavailable when processes cannot be confined.

        >>> with Sandbox(workers=1) as sandbox:
        ...     sandbox.run("def f(x):\n    return sorted(x)", "[3, 1, 2]").output
        '[1, 2, 3]'
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        runs: int = 2,
        comparison: Comparison | None = None,
        allow_weak: bool = False,
    ) -> None:
        if workers < 1:
            raise CodeVerifierError(f"workers is {workers}; expected 1 or more")
        if not 2 <= runs <= len(processes.HASH_SEEDS):
            raise CodeVerifierError(f"runs is {runs}; expected 2 to {len(processes.HASH_SEEDS)}")
        self.workers = workers
        self.limits = limits if limits is not None else Limits()
        self.runs = runs
        self.comparison = comparison if comparison is not None else Comparison()
        self.allow_weak = allow_weak
        self._pool = processes.sandbox_pool(workers, self.limits, allow_weak)
        self._finalizer = weakref.finalize(self, self._pool.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes of this sandbox."""
        self._pool.close()

    def layers(self) -> dict[str, bool]:
        """Protection layers that are active in this sandbox's processes."""
        return self._pool.layers(processes.Kind(processes.STRICT))

    def pids(self) -> list[int]:
        """Process ids of the running fork servers."""
        return self._pool.pids()

    def run(self, program: str, input: str) -> Verdict:
        """Execute `f(<input>)` of the program once."""
        return next(self.iter_run(program, [input]))

    def check(self, program: str, input: str) -> Verdict:
        r"""The acceptance rule: policy, then equal canonical output of all executions.

        >>> with Sandbox(workers=1) as sandbox:
        ...     sandbox.check("def f(x):\n    return x + 1", "4").output
        ...     sandbox.check("def f(x):\n    return list(set(x))", "'abc'").status
        '5'
        'nondeterministic'
        """
        return next(self.iter_check(program, [input]))

    def run_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`run` on each input, in parallel; the program is examined once."""
        return self._all(program, inputs, runs=1)

    def check_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`check` on each input, in parallel; the program is examined once."""
        return self._all(program, inputs, self.runs)

    def iter_run(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`run` on each input, lazily: it is executed only when its verdict is requested."""
        return (job() for job in self._jobs(program, inputs, runs=1))

    def iter_check(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`check` on each input, lazily: it is executed only when its verdict is requested."""
        return (job() for job in self._jobs(program, inputs, self.runs))

    def validate(self, proposal: Proposal) -> Verdict:
        r"""The acceptance rule for a proposed task of any kind.

        >>> with Sandbox(workers=1) as sandbox:
        ...     proposal = Proposal("code_o", "def f(x):\n    return x + 1", input="4")
        ...     sandbox.validate(proposal).task.output
        '5'
        """
        return validate_proposal(proposal, self.iter_check, self.limits)

    def grade(self, task: Task, answer: str) -> Grade:
        """Judge an answer to a task. For code_f all hidden examples must pass."""
        return grade_answer(task, answer, self.iter_run, self.comparison, self.limits)

    def run_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """`run` for every (program, input), in order."""
        return ordered_map(lambda pair: self.run(*pair), pairs, self.workers)

    def check_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """`check` for every (program, input), in order."""
        return ordered_map(lambda pair: self.check(*pair), pairs, self.workers)

    def validate_many(self, proposals: Iterable[Proposal]) -> Iterator[Verdict]:
        """`validate` for every proposal, in order."""
        return ordered_map(self.validate, proposals, self.workers)

    def grade_many(self, pairs: Iterable[tuple[Task, str]]) -> Iterator[Grade]:
        """`grade` for every (task, answer), in order; equal pairs close together judged once."""
        return ordered_map(lambda pair: self.grade(*pair), pairs, self.workers, share=True)

    def _all(self, program: str, inputs: Sequence[str], runs: int) -> list[Verdict]:
        jobs = self._jobs(program, inputs, runs)
        return list(ordered_map(lambda job: job(), jobs, self.workers))

    def _jobs(self, text: str, inputs: Sequence[str], runs: int) -> list[Callable[[], Verdict]]:
        """Examine a program with its inputs; the calls that give the verdict of each.

        runs: executions that have to agree; more than one become 16 where the program or the input
        can reach a source of chance. Raises CodeVerifierError when an argument is not a str.
        """
        _require_texts(text, inputs)
        program, *arguments = self._examine(text, inputs)
        if isinstance(program, Verdict):
            return [lambda: program] * len(inputs)
        return [partial(self._settle, program, item, runs) for item in arguments]

    def _examine(self, text: str, inputs: Sequence[str]) -> list[Examined | Verdict]:
        """The program and its arguments, or the verdicts that refuse these; where the program is
        refused, that verdict alone."""
        limits = self.limits
        if len(text) > limits.program_chars:
            reason = f"the program is longer than {limits.program_chars} characters"
            return [Verdict(Status.TOO_LONG, reason=reason)]
        cut = [input[: limits.input_chars + 1] for input in inputs]
        request = marshal.dumps((text, cut, limits.input_chars))
        try:
            reply = self._pool.ask(processes.EXAMINER, request, limits.wall_s + _GRACE_S)
        except processes.ProcessLost as error:
            if len(inputs) > 1:  # a request for each, so that one does not refuse the others
                program = self._examine(text, [])
                if isinstance(program[0], Verdict):
                    return program
                return program + [self._examine(text, [input])[-1] for input in inputs]
            if isinstance(error, processes.BudgetExceeded):
                reason = "reading the program or the input took too much processor time"
                return [Verdict(Status.TIMEOUT, reason=reason)]
            return [Verdict(Status.SYNTAX_ERROR, reason=f"Python's parser broke on it: {error}")]
        results = protocol.unpack_results(reply, 0) or [(Status.OK, b"")]
        (status, data), *others = results
        if status == Status.OK and (not data or len(others) != len(inputs)):
            return [Verdict(Status.SANDBOX_ERROR, reason="the examiner answered nonsense")]
        return [_examined(*result) for result in results]

    def _settle(self, program: Examined, arguments: Examined | Verdict, runs: int) -> Verdict:
        """The verdict that refuses the arguments; or that of `runs` equal executions, or of the
        first that is not `ok` or differs."""
        if isinstance(arguments, Verdict):
            return arguments
        if runs > 1 and (program.flags | arguments.flags) & protocol.CHANCE:
            runs = max(runs, CHANCE_RUNS)
        first = self._execute(program, arguments, 0)
        if not first.ok:
            return first
        wall_ms = first.wall_ms
        for index in range(1, runs):
            verdict = self._execute(program, arguments, index)
            wall_ms = max(wall_ms, verdict.wall_ms)
            if verdict.ok and verdict.output == first.output:
                continue
            if verdict.status in _INCONCLUSIVE:
                return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
            other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
            reason = f"gave {_short(first.output)}, then {_short(other)}"
            return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
        return Verdict(Status.OK, first.output, "", wall_ms, runs)

    def _execute(self, program: Examined, arguments: Examined, index: int) -> Verdict:
        """Execute once, under hash seed and clocks `index`; again with all modules where one that
        it looked for was missing."""
        request = marshal.dumps((program.data, arguments.data))
        verdict = self._ask(request, index, program.flags >> protocol.TIER_SHIFT)
        if verdict.status == protocol.MISSING:
            return self._ask(request, index, ALL)
        return verdict

    def _ask(self, request: bytes, index: int, tier: int) -> Verdict:
        try:
            kind = processes.Kind(processes.STRICT, index, tier)
            reply = self._pool.ask(kind, request, self.limits.wall_s + _GRACE_S)
        except processes.ProcessLost as error:
            reason = f"the fork server was lost: {error}"
            return Verdict(Status.SANDBOX_ERROR, reason=reason, runs=1)
        (wall_ms,) = protocol.REPLY.unpack_from(reply)
        results = protocol.unpack_results(reply, protocol.REPLY.size)
        if results is None or len(results) != 1:
            reason = "the fork server answered nonsense"
            return Verdict(Status.SANDBOX_ERROR, reason=reason, runs=1)
        ((status, data),) = results
        text = _text(data)
        if status != Status.OK:
            return Verdict(status, None, text, wall_ms, 1)
        if problem := _forged(text):
            return Verdict(Status.VIOLATION, None, f"the result is forged: {problem}", wall_ms, 1)
        return Verdict(Status.OK, text, "", wall_ms, 1)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has the same settings, and processes of its own."""
        return Sandbox, (self.workers, self.limits, self.runs, self.comparison, self.allow_weak)


def grade(task: Task, answer: str, sandbox: Sandbox | None = None) -> Grade:
    r"""Judge an answer to a task. sandbox: where programs run; if None, in one that all callers
    share, opened at the first use.

        >>> grade(Task("code_o", "", output="[1, 2]"), "[1,2]").score
        1.0
        >>> grade(Task("code_i", "def f(x):\n    return x * x", output="9"), "2").score
        0.0
    """
    return (sandbox or shared_sandbox()).grade(task, answer)


@cache
def shared_sandbox() -> Sandbox:
    """The sandbox used when a caller passes none, opened at the first use: a worker per
    processor."""
    return Sandbox(workers=os.cpu_count() or 1)


@lru_cache(maxsize=512)  # all executions of a program give one text, as a rule
def _forged(text: str) -> str:
    """Why a child's result cannot be trusted, or an empty text; a child may have been taken over:
    its text is data until it proves canonical."""
    try:
        same = canonical(parse_literal(text, len(text)), len(text)) == text
    except LiteralError as error:
        return str(error)
    return "" if same else "the text is not canonical"


def _examined(status: str, data: bytes) -> Examined | Verdict:
    if status != Status.OK or not data:
        return Verdict(status, reason=_text(data))
    return Examined(data[0], data[1:])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 80 else f"{text[:80]}..."


def _require_texts(program: object, inputs: Sequence[object]) -> None:
    for name, text in (("program", program), *(("input", input) for input in inputs)):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise CodeVerifierError(f"the {name} is of type {kind}; expected a text")
