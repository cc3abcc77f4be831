"""The sandbox: run programs in fresh processes, and check that they are deterministic."""

import asyncio
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from code_verifier.compare import Comparison
from code_verifier.errors import LiteralError, RecordError
from code_verifier.forkserver import HASH_SEEDS
from code_verifier.grading import grade_answer
from code_verifier.limits import Limits
from code_verifier.literals import canonical, parse_arguments, parse_literal
from code_verifier.parallel import ordered_map
from code_verifier.pool import Pool
from code_verifier.proposals import validate_proposal
from code_verifier.records import Grade, Proposal, Status, Task, Validation, Verdict

_UNSTABLE_RUNS = 6


class Sandbox:
    """Runs programs, each execution in a fresh confined process.

    workers: executions at a time. limits: what one execution may use. runs: executions of one
    `check`, each under a hash seed and clocks of its own; a program whose text suggests hash
    order, clocks or entropy gets at least 6. comparison: how answers are compared.
    allow_weak: go on where the kernel offers no system-call filter.

    May be shared by threads and survives a fork of the caller. Close it, or use `with`.
    Raises SandboxUnavailable when processes cannot be confined.
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
            raise RecordError(f"workers is {workers}; expected 1 or more")
        if not 2 <= runs <= len(HASH_SEEDS):
            raise RecordError(f"runs is {runs}; expected 2 to {len(HASH_SEEDS)}")
        self.workers = workers
        self.limits = limits if limits is not None else Limits()
        self.runs = runs
        self.comparison = comparison if comparison is not None else Comparison()
        self._pool = Pool(workers, allow_weak)
        self._finalizer = weakref.finalize(self, self._pool.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes of this sandbox."""
        self._pool.close()

    def layers(self) -> dict[str, bool]:
        """Protection layers that are active in this sandbox's processes."""
        return self._pool.layers()

    def pids(self) -> list[int]:
        """Process ids of the running fork servers."""
        return self._pool.pids()

    # One program -----------------------------------------------------------------------------

    def run(self, program: str, input: str) -> Verdict:
        """Execute `f(<input>)` of the program once."""
        request = self._request(program, input)
        return request if isinstance(request, Verdict) else self._execute(request, 0)[0]

    def check(self, program: str, input: str) -> Verdict:
        """The acceptance rule: policy, then equal canonical output of all executions."""
        request = self._request(program, input)
        if isinstance(request, Verdict):
            return request
        first, unstable = self._execute(request, 0)
        if not first.ok:
            return first
        runs = max(self.runs, _UNSTABLE_RUNS) if unstable else self.runs
        wall_ms = first.wall_ms
        for index in range(1, runs):
            verdict, _ = self._execute(request, index)
            wall_ms = max(wall_ms, verdict.wall_ms)
            if verdict.output == first.output and verdict.ok:
                continue
            if verdict.status in (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY):
                return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
            other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
            reason = f"gave {_short(first.output)}, then {_short(other)}"
            return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
        return Verdict(Status.OK, first.output, "", wall_ms, runs)

    def run_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """Execute the program once for each input, each in a fresh process."""
        return [self.run(program, input) for input in inputs]

    def validate(self, proposal: Proposal) -> Validation:
        """The acceptance rule for a proposed task of any kind."""
        return validate_proposal(proposal, self.check, self.limits)

    def grade(self, task: Task, answer: str) -> Grade:
        """Judge an answer to a task. For code_f all hidden examples must pass."""
        return grade_answer(task, answer, self.run, self.comparison, self.limits)

    # Many: lazy, ordered, parallel -----------------------------------------------------------

    def run_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """`run` for every (program, input), in order."""
        return ordered_map(lambda pair: self.run(*pair), pairs, self.workers)

    def check_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """`check` for every (program, input), in order."""
        return ordered_map(lambda pair: self.check(*pair), pairs, self.workers)

    def validate_many(self, proposals: Iterable[Proposal]) -> Iterator[Validation]:
        """`validate` for every proposal, in order."""
        return ordered_map(self.validate, proposals, self.workers)

    def grade_many(self, pairs: Iterable[tuple[Task, str]]) -> Iterator[Grade]:
        """`grade` for every (task, answer), in order; equal pairs close together judged once."""
        return ordered_map(lambda pair: self.grade(*pair), pairs, self.workers, share=True)

    # asyncio ---------------------------------------------------------------------------------

    async def arun(self, program: str, input: str) -> Verdict:
        """`run` without blocking the event loop."""
        return await asyncio.to_thread(self.run, program, input)

    async def acheck(self, program: str, input: str) -> Verdict:
        """`check` without blocking the event loop."""
        return await asyncio.to_thread(self.check, program, input)

    async def avalidate(self, proposal: Proposal) -> Validation:
        """`validate` without blocking the event loop."""
        return await asyncio.to_thread(self.validate, proposal)

    async def agrade(self, task: Task, answer: str) -> Grade:
        """`grade` without blocking the event loop."""
        return await asyncio.to_thread(self.grade, task, answer)

    # -----------------------------------------------------------------------------------------

    def _request(self, program: str, input: str) -> dict[str, Any] | Verdict:
        limits = self.limits
        for name, text in (("program", program), ("input", input)):
            if not isinstance(text, str):
                raise RecordError(f"the {name} is of type {type(text).__name__}; expected a text")
        if len(program) > limits.program_chars:
            reason = f"the program is longer than {limits.program_chars} characters"
            return Verdict(Status.TOO_LONG, None, reason, 0.0, 0)
        try:
            parse_arguments(input, limits.input_chars)
        except LiteralError as error:
            return Verdict(error.status, None, str(error), 0.0, 0)
        return {
            "program": program,
            "input": input,
            "wall_s": limits.wall_s,
            "cpu_s": limits.cpu_s,
            "memory_mb": limits.memory_mb,
            "output_chars": limits.output_chars,
            "input_chars": limits.input_chars,
            "recursion": limits.recursion,
        }

    def _execute(self, request: dict[str, Any], index: int) -> tuple[Verdict, bool]:
        reply = self._pool.ask(index, request, self.limits.wall_s)
        status, text = str(reply["status"]), str(reply["text"])
        wall_ms = float(reply.get("wall_ms", 0.0))
        if status != Status.OK:
            return Verdict(status, None, text, wall_ms, 1), False
        try:  # the child may have been taken over: its text is data until it proves canonical
            if canonical(parse_literal(text, len(text)), len(text)) != text:
                raise LiteralError("the text is not canonical")
        except LiteralError as error:
            reason = f"the result is forged: {error}"
            return Verdict(Status.VIOLATION, None, reason, wall_ms, 1), False
        return Verdict(Status.OK, text, "", wall_ms, 1), bool(reply.get("unstable"))


def _short(text: str | None, width: int = 80) -> str:
    text = text or ""
    return text if len(text) <= width else f"{text[:width]}..."
