"""The sandbox: examine and execute programs in fresh processes, check that they are deterministic,
and judge tasks and answers by them."""

import marshal
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self, TypeVar

from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.grading import grade_answer, validate_proposal
from code_verifier.jail import protocol
from code_verifier.jail.modules import ALL
from code_verifier.literals import Comparison, parse_literal
from code_verifier.processes import (
    EXAMINER,
    HASH_SEEDS,
    BudgetExceeded,
    Kind,
    Pool,
    ProcessLost,
    sandbox_pool,
)
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict

CHANCE_RUNS = 16
_SETTLED = (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG)
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)
_GRACE_S = 10.0
_MISSING, _UNORDERED = "missing_module", "unordered"
_SHARED = 4096
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Sandbox:
    """Runs programs, each execution in a fresh confined process.

    workers: executions at a time. limits: what one execution may use. runs: executions of one
    `check`, each under a hash seed and clocks of its own; a program that can reach a
    source of chance gets 16. comparison: how answers are compared.
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
            raise CodeVerifierError(f"workers is {workers}; expected 1 or more")
        if not 2 <= runs <= len(HASH_SEEDS):
            raise CodeVerifierError(f"runs is {runs}; expected 2 to {len(HASH_SEEDS)}")
        self.workers = workers
        self.limits = limits if limits is not None else Limits()
        self.runs = runs
        self.comparison = comparison if comparison is not None else Comparison()
        self.allow_weak = allow_weak
        self._pool = sandbox_pool(workers, self.limits, allow_weak)
        self._executor = Executor(self._pool, self.limits)
        self._finalizer = weakref.finalize(self, self._pool.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def run(self, program: str, input: str) -> Verdict:
        """Execute `f(<input>)` of the program once."""
        return next(self.iter_run(program, [input]))

    def check(self, program: str, input: str) -> Verdict:
        """The acceptance rule: policy, then equal canonical output of all executions."""
        return next(self.iter_check(program, [input]))

    def run_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`run` on each input. Inputs share a process when nothing of the program can pass from one
        to the next (see `jail.policy`); otherwise each has its own."""
        return list(self.iter_run(program, inputs))

    def check_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`check` on each input, in shared processes like `run_inputs`."""
        return list(self.iter_check(program, inputs))

    def iter_run(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`run_inputs`, verdict by verdict: what is not asked for may not be executed."""
        return self._verdicts(program, inputs, 1, raise_runs=False)

    def iter_check(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`check_inputs`, verdict by verdict: what is not asked for may not be executed."""
        return self._verdicts(program, inputs, self.runs, raise_runs=True)

    def _verdicts(
        self, program: str, inputs: Sequence[str], runs: int, raise_runs: bool
    ) -> Iterator[Verdict]:
        for name, text in (("program", program), *(("input", given) for given in inputs)):
            if not isinstance(text, str):
                raise CodeVerifierError(
                    f"the {name} is of type {type(text).__name__}; expected a text"
                )
        return self._executor.verdicts(program, inputs, runs, raise_runs)

    def validate(self, proposal: Proposal) -> Verdict:
        """The acceptance rule for a proposed task of any kind."""
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

    async def arun(self, program: str, input: str) -> Verdict:
        """`run` without blocking the event loop."""
        return await _in_thread(self.run, program, input)

    async def acheck(self, program: str, input: str) -> Verdict:
        """`check` without blocking the event loop."""
        return await _in_thread(self.check, program, input)

    async def avalidate(self, proposal: Proposal) -> Verdict:
        """`validate` without blocking the event loop."""
        return await _in_thread(self.validate, proposal)

    async def agrade(self, task: Task, answer: str) -> Grade:
        """`grade` without blocking the event loop."""
        return await _in_thread(self.grade, task, answer)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has the same settings, and processes of its own."""
        return Sandbox, (self.workers, self.limits, self.runs, self.comparison, self.allow_weak)


async def _in_thread(function: Callable[..., _Result], *arguments: Any) -> _Result:
    import asyncio  # only those who use it pay for it

    return await asyncio.to_thread(function, *arguments)


def grade(task: Task, answer: str, sandbox: Sandbox | None = None) -> Grade:
    """Judge an answer in `sandbox`, or in the `shared_sandbox`."""
    return (sandbox or shared_sandbox()).grade(task, answer)


@cache
def shared_sandbox() -> Sandbox:
    """The sandbox of those that give none, opened at the first use: a worker per processor."""
    return Sandbox(workers=os.cpu_count() or 1)


@dataclass(frozen=True)
class Program:
    """An examined program: compiled code for the fork servers, and what its text tells."""

    code: bytes
    chance: bool
    separable: bool
    tier: int


Examined = tuple[Program | Verdict, list[bytes | Verdict]]
"""A program and its arguments, or the verdicts that refuse them."""
Executed = tuple[list[Verdict], bool]
"""Verdicts of one process, one for each input, and whether the process as such failed."""


class Executor:
    """Examines and executes through a pool, and compares what executions give."""

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits

    def examine(self, program: str, inputs: Sequence[str]) -> Examined:
        """The examined program and arguments, or the verdicts that refuse them."""
        limits = self._limits
        if len(program) > limits.program_chars:
            reason = f"the program is longer than {limits.program_chars} characters"
            return _refused(Status.TOO_LONG, reason), []
        cut = [given[: limits.input_chars + 1] for given in inputs]
        request = marshal.dumps((program, cut, limits.input_chars))
        try:
            reply = self._pool.ask(EXAMINER, request, limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            if len(inputs) > 1:
                return self._one_by_one(program, inputs)
            if isinstance(error, BudgetExceeded):
                reason = "reading the program or the input took too much processor time"
                return _refused(Status.TIMEOUT, reason), []
            return _refused(Status.SYNTAX_ERROR, f"Python's parser broke on it: {error}"), []
        results = protocol.unpack_results(reply, 0)
        if not results or (results[0][0] == Status.OK and len(results) != 1 + len(inputs)):
            return _refused(Status.SANDBOX_ERROR, "the examiner answered nonsense"), []
        first, *others = results
        found = _read(*first)
        if isinstance(found, Verdict):
            return found, []
        if any(name == _UNORDERED for name, _ in others):
            found = replace(found, chance=True)
        return found, [
            data if name in (Status.OK, _UNORDERED) else _refused(name, _text(data))
            for name, data in others
        ]

    def verdicts(
        self, text: str, inputs: Sequence[str], runs: int, raise_runs: bool
    ) -> Iterator[Verdict]:
        """The verdict of every input, when asked for: policy, then equal outputs of all executions.
        raise_runs: give a program that can reach a source of chance more executions."""
        program, arguments = self.examine(text, inputs)
        if isinstance(program, Verdict):
            yield from [program] * len(inputs)
            return
        if raise_runs:
            runs = max(runs, CHANCE_RUNS * program.chance)
        data = [given for given in arguments if isinstance(given, bytes)]
        batched: Iterator[Verdict | None] = iter(())
        if len(data) > 1 and program.separable:
            batched = iter(self._run_batched(program, data, runs))
        for given in arguments:
            if isinstance(given, Verdict):
                yield given
            else:
                yield next(batched, None) or self._run_isolated(program, given, runs)

    def _run_batched(self, program: Program, data: list[bytes], runs: int) -> list[Verdict | None]:
        """All inputs in one process for each run; None where that does not settle the verdict."""
        rounds = []
        for index in range(runs):
            found, whole = self.execute(program, data, index)
            if whole:
                return []
            rounds.append(found)
        settled: list[Verdict | None] = []
        for first, *others in zip(*rounds, strict=True):
            same = all((o.status, o.output) == (first.status, first.output) for o in others)
            verdict = None
            if same and first.status in _SETTLED:
                wall_ms = max(each.wall_ms for each in (first, *others))
                used = runs if first.ok else 1
                verdict = Verdict(first.status, first.output, first.reason, wall_ms, used)
            settled.append(verdict)
        return settled

    def _run_isolated(self, program: Program, given: bytes, runs: int) -> Verdict:
        first = self.execute(program, [given], 0)[0][0]
        if not first.ok:
            return first
        wall_ms = first.wall_ms
        for index in range(1, runs):
            verdict = self.execute(program, [given], index)[0][0]
            wall_ms = max(wall_ms, verdict.wall_ms)
            if verdict.ok and verdict.output == first.output:
                continue
            if verdict.status in _INCONCLUSIVE:
                return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
            other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
            reason = f"gave {_short(first.output)}, then {_short(other)}"
            return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
        return Verdict(Status.OK, first.output, "", wall_ms, runs)

    def _one_by_one(self, program: str, inputs: Sequence[str]) -> Examined:
        found, _ = self.examine(program, [])
        if isinstance(found, Verdict):
            return found, []
        arguments: list[bytes | Verdict] = []
        for given in inputs:
            again, some = self.examine(program, [given])
            arguments.append(again if isinstance(again, Verdict) else some[0])
        return found, arguments

    def execute(self, program: Program, arguments: list[bytes], index: int) -> Executed:
        """Execute once in one process, on each of the arguments."""
        request = marshal.dumps((program.code, arguments))
        verdicts, whole = self._ask(request, (index, program.tier), len(arguments))
        if any(verdict.status == _MISSING for verdict in verdicts):
            return self._ask(request, (index, ALL), len(arguments))
        return verdicts, whole

    def _ask(self, request: bytes, kind: Kind, count: int) -> Executed:
        try:
            reply = self._pool.ask(kind, request, self._limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            fault = _refused(Status.SANDBOX_ERROR, f"the fork server was lost: {error}", runs=1)
            return [fault] * count, True
        wall_ms, whole = protocol.REPLY.unpack_from(reply)
        results = protocol.unpack_results(reply, protocol.REPLY.size)
        if results is None or len(results) != (1 if whole else count):
            fault = _refused(Status.SANDBOX_ERROR, "the fork server answered nonsense", runs=1)
            return [fault] * count, True
        verdicts = [self._verdict(status, data, wall_ms) for status, data in results]
        return verdicts * (count if whole else 1), bool(whole)

    def _verdict(self, status: str, data: bytes, wall_ms: float) -> Verdict:
        text = _text(data)
        if status == Status.MEMORY and not text:
            text = f"used more than {self._limits.memory_mb} MiB of memory"
        if status != Status.OK:
            return Verdict(status, None, text, wall_ms, 1)
        try:  # the child may have been taken over: its text is data until it proves canonical
            if canonical(parse_literal(text, len(text)), len(text)) != text:
                raise LiteralError("the text is not canonical")
        except LiteralError as error:
            reason = f"the result is forged: {error}"
            return Verdict(Status.VIOLATION, None, reason, wall_ms, 1)
        return Verdict(Status.OK, text, "", wall_ms, 1)


def _read(status: str, data: bytes) -> Program | Verdict:
    """What the examiner says of a program."""
    if status != Status.OK or not data:
        return _refused(status, _text(data))
    flags = data[0]
    return Program(
        data[1:],
        chance=bool(flags & protocol.CHANCE),
        separable=bool(flags & protocol.SEPARABLE),
        tier=flags >> protocol.TIER_SHIFT & protocol.TIER_MASK,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refused(status: str, reason: str, runs: int = 0) -> Verdict:
    return Verdict(status, None, reason, 0.0, runs)


def _short(text: str | None, width: int = 80) -> str:
    text = text or ""
    return text if len(text) <= width else f"{text[:width]}..."


def ordered_map(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    share: bool = False,
    ahead: int = 8,
) -> Iterator[_Result]:
    """`map(function, items)` by `workers + 1` threads, results in the order of the items.

    One thread more than can execute prepares what comes next. Reads at most `ahead * workers`
    items beyond the result last taken. An exception of `function` or of the iterable arrives at its
    place in the order. Leaving early drops what has not started, and does not wait for the rest.
    share: items are hashable, and equal ones among the last 4096 have one result.
    """
    jobs: queue.SimpleQueue[tuple[Future[_Result], _Item] | None] = queue.SimpleQueue()
    pending: deque[Future[_Result]] = deque()
    known: dict[_Item, Future[_Result]] = {}
    end: BaseException | None = None
    iterator = iter(items)
    threads = 0

    def work() -> None:
        while (job := jobs.get()) is not None:
            future, item = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(item))
            except BaseException as error:
                future.set_exception(error)

    try:
        while True:
            while end is None and len(pending) < ahead * workers:
                try:
                    item = next(iterator)
                except Exception as error:
                    end = error
                    break
                future = known.get(item) if share else None
                if future is None:
                    future = Future()
                    jobs.put((future, item))
                    if threads <= workers:
                        threads += 1
                        # A daemon: the interpreter's end must not wait for a program that runs.
                        threading.Thread(target=work, name="code-verifier", daemon=True).start()
                    if share:
                        known[item] = future
                        if len(known) > _SHARED:
                            del known[next(iter(known))]
                pending.append(future)
            if not pending:
                break
            yield pending.popleft().result()
        if end is not None and not isinstance(end, StopIteration):
            raise end
    finally:
        for future in pending:
            future.cancel()
        for _ in range(threads):
            jobs.put(None)
