"""The sandbox: settings and processes of one caller, and what can be asked of them."""

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Self

from code_verifier.errors import CodeVerifierError
from code_verifier.executor import Executor
from code_verifier.grading import grade_answer, validate_proposal
from code_verifier.literals import Comparison
from code_verifier.parallel import ordered_map
from code_verifier.processes import HASH_SEEDS, STRICT, Kind, sandbox_pool
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict


class Sandbox:
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
        return self._pool.layers(Kind(STRICT))

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
        return self._each(program, inputs, runs=1)

    def iter_check(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`check` on each input, lazily: it is executed only when its verdict is requested."""
        return self._each(program, inputs, self.runs)

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
        jobs = self._executor.jobs(program, inputs, runs)
        return list(ordered_map(lambda job: job(), jobs, self.workers))

    def _each(self, program: str, inputs: Sequence[str], runs: int) -> Iterator[Verdict]:
        for job in self._executor.jobs(program, inputs, runs):
            yield job()

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
