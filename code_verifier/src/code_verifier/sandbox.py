"""The sandbox: runs, checks, validates and grades programs with the settings of one caller.

The reader compiles a program, children of fork servers execute it, and this module compares the
results.
"""

import marshal
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from code_verifier import process
from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, SandboxUnavailable, Status
from code_verifier.grading import grade_answer, validate_proposal
from code_verifier.jail import wire
from code_verifier.literals import Comparison, parse_literal
from code_verifier.parallel import cores, ordered_map
from code_verifier.pool import DETERMINISM, Pool
from code_verifier.process import DOCTOR, HASH_SEEDS, Order, ProcessLost, Profile, Reply
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict
from code_verifier.user_files import require_type

CHANCE_RUNS = 16
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)
_OF_PROGRAM = (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG)
"""The statuses that a child may report; the program may have forged the report."""
_GRACE_S = 10.0
_READER = Profile(wire.READER, 1 << 30)
_KEPT = 2 * len(HASH_SEEDS) + 1
_TEST_PROGRAMS = (
    ("def f(x):\n    return x + 1", Status.OK),
    ("def f(x):\n    return 1 // (x - 1)", Status.EXCEPTION),
)
"""Programs with their statuses for the input 1."""
_OF_LIMITS = (Status.TIMEOUT, Status.MEMORY, Status.TOO_LONG)
"""Verdicts all the same: a caller's limits may be tighter than a test program needs."""
_PER_WORKER = 6
_UNKNOWN = f"may depend on addresses, which this machine does not scramble; {DOCTOR}"


class Sandbox(AbstractContextManager["Sandbox"]):
    r"""Runs programs, each execution in a fresh confined process.

    workers: executions at a time. limits: of one execution. runs: executions of one `check`, each
    with its own hash seed and clocks; a program that can reach a source of chance, or sees an
    address, gets 16.
    comparison: how answers are compared. allow_weak: run even where the kernel offers no
    system-call filter.

    Threads may share it, and it survives a fork of the caller. Close it, or use `with`. Raises
    SandboxUnavailable when processes cannot be confined.

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
        self._pool = Pool(
            lambda: threading.BoundedSemaphore(workers), allow_weak, _KEPT + _PER_WORKER * workers
        )
        self._finalizer = weakref.finalize(self, self._pool.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes of this sandbox."""
        self._pool.close()

    def self_test(self) -> None:
        """Check two programs whose verdicts are known. Raises SandboxUnavailable, with the cause,
        if they are not judged."""
        for program, status in _TEST_PROGRAMS:
            verdict = self.check(program, "1")
            if verdict.status not in (status, *_OF_LIMITS):
                raise SandboxUnavailable(
                    f"a test program ended with {verdict.status}, expected {status}: "
                    f"{verdict.reason}; {DOCTOR}"
                )

    def layers(self) -> dict[str, bool]:
        """Return the protection layers, and whether each is active in this sandbox's processes."""
        return self._pool.layers(self._profile(0))

    def missing_determinism(self) -> tuple[str, ...]:
        """Return the layers that this machine lacks and without which chance may decide a verdict:
        `addresses`, `clocks`, or, as a rule, none. Raises SandboxUnavailable.

        Where `addresses` is missing, `check` refuses every program that can reach chance or makes
        texts of values. The first process of a sandbox that lacks one also gives a RuntimeWarning,
        once for each layer.
        """
        layers = self.layers()
        return tuple(name for name in DETERMINISM if not layers[name])

    def pids(self) -> list[int]:
        """Return the process ids of the running fork servers."""
        return self._pool.pids()

    def run(self, program: str, input: str) -> Verdict:
        """Execute `f(<input>)` of the program once."""
        return self._judge(program, input, 1)

    def check(self, program: str, input: str) -> Verdict:
        r"""Apply the acceptance rule: policy, then equal canonical outputs of all executions.

        >>> with Sandbox(workers=1) as sandbox:
        ...     sandbox.check("def f(x):\n    return x + 1", "4").output
        ...     sandbox.check("def f(x):\n    return list(set(x))", "'abc'").status
        '5'
        'nondeterministic'
        """
        return self._judge(program, input, self.runs)

    def validate(self, proposal: Proposal) -> Verdict:
        r"""Apply the acceptance rule to a proposed task of any kind.

        >>> with Sandbox(workers=1) as sandbox:
        ...     proposal = Proposal("code_o", "def f(x):\n    return x + 1", input="4")
        ...     sandbox.validate(proposal).task.output
        '5'
        """
        return validate_proposal(proposal, self.check, self.limits)

    def grade(self, task: Task, answer: str, fail_fast: bool = False) -> Grade:
        """Judge an answer to a task. For code_f all hidden examples must pass. fail_fast: do not
        run a program again after the first that fails; `passed` counts those before it."""
        return grade_answer(task, answer, self.run, self.comparison, self.limits, fail_fast)

    def run_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """Yield the verdict of `run` on every (program, input), in order, in parallel."""
        return ordered_map(lambda pair: self.run(*pair), pairs, self.workers)

    def check_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """Yield the verdict of `check` on every (program, input), in order, in parallel."""
        return ordered_map(lambda pair: self.check(*pair), pairs, self.workers)

    def validate_many(self, proposals: Iterable[Proposal]) -> Iterator[Verdict]:
        """Yield the verdict of `validate` on every proposal, in order, in parallel."""
        return ordered_map(self.validate, proposals, self.workers)

    def grade_many(
        self, pairs: Iterable[tuple[Task, str]], fail_fast: bool = False
    ) -> Iterator[Grade]:
        """Yield the grade of every (task, answer), in order, in parallel; equal pairs that are
        close to each other are judged once. fail_fast: as in `grade`."""
        return ordered_map(
            lambda pair: self.grade(*pair, fail_fast), pairs, self.workers, share=True
        )

    def _judge(self, program: str, input: str, runs: int) -> Verdict:
        """Execute `runs` times, or sixteen times if `runs` is above 1 and the program or the input
        can reach a source of chance, or an execution saw an address. The verdict is the first that
        is not ok or has another output, else ok. Raises CodeVerifierError when an argument is not a
        str."""
        require_type(program, str, "the program", "a text")
        require_type(input, str, "the input", "a text")
        if len(program) > self.limits.program_chars:
            reason = f"the program is longer than {self.limits.program_chars} characters"
            return Verdict(Status.TOO_LONG, reason=reason)
        compiled = self._compile(program, input)
        if isinstance(compiled, Verdict):
            return compiled
        code, flags = compiled
        modules = wire.ALL if flags & wire.MORE else wire.COMMON
        first, sight, modules = self._execute(code, 0, modules)
        if not first.ok or runs == 1:
            return first
        sights, wall_ms, index = {sight}, first.wall_ms, 1
        while index < _count_runs(runs, flags, sights):
            verdict, sight, modules = self._execute(code, index, modules)
            sights.add(sight)
            wall_ms = max(wall_ms, verdict.wall_ms)
            index += 1
            if verdict.ok and verdict.output == first.output:
                continue
            if verdict.status in _INCONCLUSIVE:
                return Verdict(verdict.status, None, verdict.reason, wall_ms, index)
            other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
            reason = f"gave {_short(first.output)}, then {_short(other)}"
            return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index)
        if wire.UNKNOWN in sights and flags & (wire.CHANCE | wire.TEXTS):
            return Verdict(Status.NONDETERMINISTIC, None, _UNKNOWN, wall_ms, index)
        return Verdict(Status.OK, first.output, "", wall_ms, index)

    def _compile(self, program: str, input: str) -> tuple[bytes, int] | Verdict:
        """The code with its arguments, and the flags of `jail.wire`; or a verdict that refuses."""
        try:
            reply = self._read(program, input)
        except ProcessLost as error:
            if error.code == process.OUT_OF_BUDGET:
                reason = "reading the program or the input took too much processor time"
                return Verdict(Status.TIMEOUT, reason=reason)
            try:
                self._read("", "")
            except ProcessLost:  # it reads nothing at all
                reason = f"the reader of programs was lost: {error}"
                return Verdict(Status.SANDBOX_ERROR, reason=reason)
            return Verdict(Status.SYNTAX_ERROR, reason=f"Python's parser broke on it: {error}")
        if reply.status != Status.OK:
            return Verdict(reply.status, reason=reply.reason)
        return reply.report, reply.flags

    def _read(self, program: str, input: str) -> Reply:
        limits = self.limits
        task = marshal.dumps((program, input[: limits.input_chars + 1], limits.input_chars))
        return self._pool.ask(_READER, Order(wire.READER), task, limits.wall_s + _GRACE_S)

    def _profile(self, index: int, modules: str = wire.COMMON) -> Profile:
        return Profile(wire.STRICT, self.limits.memory_mb << 20, modules, index, self.limits.wall_s)

    def _execute(self, code: bytes, index: int, modules: str) -> tuple[Verdict, int, str]:
        """Execute once, with hash seed and clocks `index`; again with all modules if one was
        missing. Returns the verdict, whether it saw an address (see `wire`), and the modules."""
        limits = self.limits
        task = marshal.dumps((code, vars(limits)))
        wall_s, room = limits.wall_s, 4 * limits.output_chars + 4096
        order = Order(wire.FUNCTION, limits.cpu_s, limits.cpu_s, wall_s, wall_s, wall_s, room)
        try:
            reply = self._pool.ask(self._profile(index, modules), order, task, wall_s + _GRACE_S)
        except ProcessLost as error:
            reason = f"the fork server was lost: {error}"
            return Verdict(Status.SANDBOX_ERROR, reason=reason, runs=1), wire.UNSEEN, modules
        if reply.status == wire.MISSING:
            return self._execute(code, index, wire.ALL)
        status, text = reply.status, reply.reason
        if status == Status.OK:  # by the server; the report may be forged
            status, mark, text = reply.report.decode("utf-8", "replace").partition("\n")
            if not mark or status not in _OF_PROGRAM:
                status, text = Status.VIOLATION, "left without a whole report"
        if status == Status.OK and (problem := _find_forgery(text)):
            status, text = Status.VIOLATION, f"the result is forged: {problem}"
        if status == Status.OK:
            return Verdict(status, text, "", reply.wall_ms, 1), reply.number, modules
        return Verdict(status, None, text, reply.wall_ms, 1), wire.UNSEEN, modules

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


_shared: dict[type, Sandbox] = {}


def shared_sandbox() -> Sandbox:
    """Return the sandbox of callers that pass none, opened at the first use: a worker per core.

    Threads that call first at the same time are given the same one, other than by `cache`.
    """
    return _shared.get(Sandbox) or _shared.setdefault(Sandbox, Sandbox(workers=cores()))


@lru_cache(maxsize=512)  # all executions of a program give one text, as a rule
def _find_forgery(text: str) -> str:
    """Why a child's result is forged, or "". A program may control its child, so that the text is
    trusted only if it is canonical."""
    try:
        is_canonical = canonical(parse_literal(text, len(text)), len(text)) == text
    except LiteralError as error:
        return str(error)
    return "" if is_canonical else "the text is not canonical"


def _count_runs(runs: int, flags: int, sights: set[int]) -> int:
    """How often to execute a program of these flags that saw this of addresses."""
    is_seen = wire.SEEN in sights or (wire.UNKNOWN in sights and flags & wire.TEXTS)
    return max(runs, CHANCE_RUNS) if is_seen or flags & wire.CHANCE else runs


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 80 else f"{text[:80]}..."
