"""The sandbox: run programs in fresh processes, and check that they are deterministic."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Self, TypeVar

from code_verifier.errors import CodeVerifierError
from code_verifier.execution import Executor, verdicts
from code_verifier.grading import grade_answer
from code_verifier.literals import Comparison
from code_verifier.parallel import ordered_map
from code_verifier.processes import HASH_SEEDS, sandbox_pool
from code_verifier.proposals import validate_proposal
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict

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
        return verdicts(self._executor, program, inputs, runs, raise_runs)

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
    """Judge an answer in `sandbox`, or in one that is opened at first use and kept."""
    return (sandbox if sandbox is not None else _shared()).grade(task, answer)


@cache
def _shared() -> Sandbox:
    return Sandbox()
