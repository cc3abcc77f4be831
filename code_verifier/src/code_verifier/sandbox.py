"""The sandbox: examine and execute programs in fresh processes, check that they are deterministic,
and judge tasks and answers by them."""

import marshal
import os
import queue
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import chain
from math import isqrt
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
_MISSING, _UNORDERED, _FLOATING = "missing_module", "unordered", "floating"
_COMPANY = 16
"""Programs to a process. Enough that its start weighs little, few enough to lose when one fails."""
_WINDOW = (16, _COMPANY**2)
_SHARED = 4096
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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
        self._executor = Executor(self._pool, self.limits, workers, runs)
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
        r"""The acceptance rule: policy, then equal canonical output of all executions.

        >>> with Sandbox(workers=1) as sandbox:
        ...     sandbox.check("def f(x):\n    return x + 1", "4").output
        ...     sandbox.check("def f(x):\n    return list(set(x))", "'abc'").status
        '5'
        'nondeterministic'
        """
        return next(self.iter_check(program, [input]))

    def run_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`run` on each input. Inputs share a process when nothing of the program can pass from one
        to the next (see `jail.policy`); otherwise each has its own."""
        return list(self.iter_run(program, inputs))

    def check_inputs(self, program: str, inputs: Sequence[str]) -> list[Verdict]:
        """`check` on each input, in shared processes like `run_inputs`."""
        return list(self.iter_check(program, inputs))

    def iter_run(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`run_inputs`, lazily: an input is executed only when its verdict is requested."""
        return self._executor.verdicts(program, inputs, check=False)

    def iter_check(self, program: str, inputs: Sequence[str]) -> Iterator[Verdict]:
        """`check_inputs`, lazily: an input is executed only when its verdict is requested."""
        return self._executor.verdicts(program, inputs, check=True)

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
        """`run` for every (program, input), in order. Programs share a process when none can see
        what another did (see `jail.addresses`); what that does not settle is run alone."""
        return self._many(pairs, check=False)

    def check_many(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """`check` for every (program, input), in shared processes like `run_many`: in the second
        execution none shares one with the same programs as in the first."""
        return self._many(pairs, check=True)

    def _many(self, pairs: Iterable[tuple[str, str]], check: bool) -> Iterator[Verdict]:
        # One window is examined while another is executed.
        judge = partial(self._executor.companions, check=check)
        judged = chain.from_iterable(ordered_map(judge, _windows(pairs), workers=1, ahead=2))
        return ordered_map(_call, judged, self.workers, ready=Verdict)

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


@dataclass(frozen=True)
class Program:
    """An examined program: compiled code for the fork servers, and what its text tells."""

    code: bytes
    chance: bool
    separable: bool
    blind: bool
    tier: int


Examined = tuple[Program | Verdict, list[bytes | Verdict]]
"""A program and its arguments, or the verdicts that refuse them."""
Executed = tuple[list[Verdict], bool]
"""Verdicts of one process in the order of its entries, and whether it ended before the last: then
the last verdict is of that end, and the entries that follow were not reached."""
Entry = tuple[Program, bytes, int]
"""A program, its arguments, and the executions that have to agree."""


class Executor:
    """Examines and executes through a pool, and compares what executions give. check: whether a
    program is executed `runs` times, or more where it can reach a source of chance; else once."""

    def __init__(self, pool: Pool, limits: Limits, workers: int, runs: int) -> None:
        self._pool = pool
        self._limits = limits
        self._workers = workers
        self._runs = runs

    def examine(self, program: str, inputs: Sequence[str]) -> Examined:
        """The examined program and arguments, or the verdicts that refuse them."""
        return self._examine([(program, inputs)])[0]

    def _examine(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[Examined]:
        """`examine` on each."""
        limits = self._limits
        long = [len(program) > limits.program_chars for program, _ in asked]
        texts = [
            ("", []) if too_long else (program, [text[: limits.input_chars + 1] for text in inputs])
            for too_long, (program, inputs) in zip(long, asked, strict=True)
        ]
        request = marshal.dumps((texts, limits.input_chars))
        try:
            reply = self._pool.ask(EXAMINER, request, limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            if len(asked) > 1:
                return [self.examine(*each) for each in asked]
            if len(asked[0][1]) > 1:
                return [self._one_by_one(*asked[0])]
            if isinstance(error, BudgetExceeded):
                reason = "reading the program or the input took too much processor time"
                return [(_refused(Status.TIMEOUT, reason), [])]
            return [(_refused(Status.SYNTAX_ERROR, f"Python's parser broke on it: {error}"), [])]
        results = protocol.unpack_results(reply, 0) or []
        found: list[Examined] = []
        for too_long, (_, inputs) in zip(long, texts, strict=True):
            count = 1 + (len(inputs) if results and results[0][0] == Status.OK else 0)
            part, results = results[:count], results[count:]
            if len(part) != count:
                part = [(Status.SANDBOX_ERROR, b"the examiner answered nonsense")]
            elif too_long:
                reason = f"the program is longer than {limits.program_chars} characters"
                part = [(Status.TOO_LONG, reason.encode())]
            found.append(_read(part))
        return found

    def verdicts(self, text: str, inputs: Sequence[str], check: bool) -> Iterator[Verdict]:
        """The verdict of every input, when asked for: policy, then equal outputs of all
        executions. Raises CodeVerifierError when an argument is not a str."""
        _require_texts(text, inputs)
        program, arguments = self.examine(text, inputs)
        if isinstance(program, Verdict):
            yield from [program] * len(inputs)
            return
        runs = self._times(program, check)
        entries = [(program, given, runs) for given in arguments if isinstance(given, bytes)]
        batched: Iterator[Verdict | None] = iter(())
        if len(entries) > 1 and program.separable:
            batched = iter(self._run_batched(entries, len(entries)))
        for given in arguments:
            if isinstance(given, Verdict):
                yield given
            else:
                yield next(batched, None) or self._run_isolated(program, given, runs)

    def _times(self, program: Program, check: bool) -> int:
        return max(self._runs, CHANCE_RUNS * program.chance) if check else 1

    def companions(
        self, pairs: Sequence[tuple[str, str]], check: bool
    ) -> list[Verdict | Callable[[], Verdict]]:
        """The verdict of every program and input, or the call that gives it. The programs that are
        blind share processes with others of their tier."""
        outcomes: list[Verdict | Callable[[], Verdict]] = []
        shared: defaultdict[int, dict[int, Entry]] = defaultdict(dict)
        asked = [(text, [given]) for text, given in pairs]
        size = -(-len(asked) // self._workers) or 1
        parts = (asked[at : at + size] for at in range(0, len(asked), size))
        examined = ordered_map(self._examine, parts, self._workers)
        for found, arguments in chain.from_iterable(examined):
            given = found if isinstance(found, Verdict) else arguments[0]
            if isinstance(found, Verdict) or isinstance(given, Verdict):
                outcomes.append(given)  # type: ignore[arg-type]
                continue
            times = self._times(found, check)
            if found.blind:
                shared[found.tier][len(outcomes)] = (found, given, times)
            outcomes.append(partial(self._run_isolated, found, given, times))
        for entries in shared.values():
            side = min(_COMPANY, isqrt(len(entries))) if check else _COMPANY
            verdicts = self._run_batched(list(entries.values()), side)
            for place, verdict in zip(entries, verdicts, strict=True):
                outcomes[place] = verdict or outcomes[place]
        return outcomes

    def _run_batched(self, entries: Sequence[Entry], side: int) -> list[Verdict | None]:
        """Entries in shared processes, up to `side` in each; None where that does not settle the
        verdict."""
        rounds: list[list[Verdict]] = [[] for _ in entries]
        most = max(runs for *_, runs in entries)
        # The third execution and those after it do not wait for each other.
        for indexes in (range(1), range(1, min(2, most)), range(2, most)):
            waiting = [
                place
                for place, (*_, runs) in enumerate(entries)
                if len(rounds[place]) == indexes.start < runs
            ]
            seated = [
                [(group, index) for group in seat(waiting, len(entries), side, index)]
                for index in indexes
            ]
            run = partial(self._run_group, entries, rounds)
            tasks = chain.from_iterable(zip(*seated, strict=True))
            deque(ordered_map(run, tasks, self._workers), maxlen=0)
        settled: list[Verdict | None] = []
        for (*_, runs), found in zip(entries, rounds, strict=True):
            verdict = None
            if len(found) == runs:
                wall_ms = max(each.wall_ms for each in found)
                verdict = replace(found[0], wall_ms=wall_ms, runs=runs if found[0].ok else 1)
            settled.append(verdict)
        return settled

    def _run_group(
        self, entries: Sequence[Entry], rounds: list[list[Verdict]], task: tuple[list[int], int]
    ) -> None:
        """Add the verdicts of one execution to the `rounds` that they agree with. What a process
        ends at is left out, and what comes after it goes on without."""
        group, index = task
        while len(group) > (index == 0):
            arguments = [entries[place][:2] for place in group]
            verdicts, ended = self.execute(arguments, index)
            for place, verdict in zip(group, verdicts[:-1] if ended else verdicts, strict=False):
                first = (rounds[place] or [verdict])[0]
                same = all(
                    getattr(verdict, name) == getattr(first, name)
                    for name in ("status", "output", "reason")
                )
                if same and first.status in _SETTLED and not _shows_place(first.reason):
                    rounds[place].append(verdict)
            broken = verdicts[-1].status in (Status.SANDBOX_ERROR, Status.VIOLATION)
            group = [] if broken or not ended else group[len(verdicts) :]

    def _run_isolated(self, program: Program, given: bytes, runs: int) -> Verdict:
        first = self.execute([(program, given)], 0)[0][0]
        if not first.ok:
            return first
        wall_ms = first.wall_ms
        for index in range(1, runs):
            verdict = self.execute([(program, given)], index)[0][0]
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

    def execute(self, entries: Sequence[tuple[Program, bytes]], index: int) -> Executed:
        """Execute once in one process: programs of one tier, each with its arguments."""
        request = marshal.dumps([(program.code, given) for program, given in entries])
        verdicts, ended = self._ask(request, (index, entries[0][0].tier), len(entries))
        same = all(program.code == entries[0][0].code for program, _ in entries)
        if same and any(verdict.status == _MISSING for verdict in verdicts):
            return self._ask(request, (index, ALL), len(entries))
        return verdicts, ended

    def _ask(self, request: bytes, kind: Kind, count: int) -> Executed:
        try:
            reply = self._pool.ask(kind, request, self._limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            fault = _refused(Status.SANDBOX_ERROR, f"the fork server was lost: {error}", runs=1)
            return [fault], True
        wall_ms, ended = protocol.REPLY.unpack_from(reply)
        results = protocol.unpack_results(reply, protocol.REPLY.size)
        if not results or len(results) > count or (not ended and len(results) < count):
            fault = _refused(Status.SANDBOX_ERROR, "the fork server answered nonsense", runs=1)
            return [fault], True
        verdicts = [self._verdict(status, data, wall_ms) for status, data in results]
        return verdicts, bool(ended)

    def _verdict(self, status: str, data: bytes, wall_ms: float) -> Verdict:
        text = _text(data)
        if status == Status.MEMORY and not text:
            text = f"used more than {self._limits.memory_mb} MiB of memory"
        if status != Status.OK:
            return Verdict(status, None, text, wall_ms, 1)
        if problem := _forged(text):
            return Verdict(Status.VIOLATION, None, f"the result is forged: {problem}", wall_ms, 1)
        return Verdict(Status.OK, text, "", wall_ms, 1)


@lru_cache(maxsize=512)  # all executions of a program give one text, as a rule
def _forged(text: str) -> str:
    """Why a child's result cannot be trusted, or an empty text; a child may have been taken over:
    its text is data until it proves canonical."""
    try:
        same = canonical(parse_literal(text, len(text)), len(text)) == text
    except LiteralError as error:
        return str(error)
    return "" if same else "the text is not canonical"


def _read(results: list[tuple[str, bytes]]) -> Examined:
    """What the examiner says of a program and its inputs."""
    (status, data), *others = results
    if status != Status.OK or not data:
        return _refused(status, _text(data)), []
    flags, kinds = data[0], {name for name, _ in others}
    sets = bool(flags & protocol.SETS)
    program = Program(
        data[1:],
        chance=bool(flags & protocol.CHANCE) or _UNORDERED in kinds,
        separable=bool(flags & protocol.SEPARABLE),
        blind=bool(flags & protocol.BLIND)
        and _UNORDERED not in kinds
        and not (sets and _FLOATING in kinds),
        tier=flags >> protocol.TIER_SHIFT & protocol.TIER_MASK,
    )
    return program, [
        data if name in (Status.OK, _UNORDERED, _FLOATING) else _refused(name, _text(data))
        for name, data in others
    ]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refused(status: str, reason: str, runs: int = 0) -> Verdict:
    return Verdict(status, None, reason, 0.0, runs)


def _short(text: str | None, width: int = 80) -> str:
    text = text or ""
    return text if len(text) <= width else f"{text[:width]}..."


def _shows_place(reason: str) -> bool:
    """Whether the message of an exception may hold an address, which company would change."""
    return " at 0x" in reason or len(reason) >= protocol.REASON_CHARS


def seat(places: list[int], count: int, side: int, index: int) -> list[list[int]]:
    """Which of `count` entries share a process in execution `index`, up to `side` in each.

    They are laid out in rows of `side`, and share by rows at first and then by diagonals, in the
    other order: where there are as many rows, no two that met in the first meet in the second. For
    the few that are executed more often, those that are left close up.
    """
    cells: Sequence[int] = places if index < 2 else range(len(places))
    rows = -(-(count if index < 2 else len(places)) // side)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place, cell in zip(places, cells, strict=True):
        groups[(cell // side + index * (cell % side)) % rows].append(place)
    return [group[:: -1 if index % 2 else 1] for group in groups.values()]


def _call(outcome: Verdict | Callable[[], Verdict]) -> Verdict:
    return outcome if isinstance(outcome, Verdict) else outcome()


def _require_texts(program: object, inputs: Iterable[object]) -> None:
    for name, text in (("program", program), *(("input", given) for given in inputs)):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise CodeVerifierError(f"the {name} is of type {kind}; expected a text")


def _windows(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """All pairs in order, in equal parts; or, where their number is unknown, in parts that grow,
    half as many as were read before. An argument that is not a str raises at its place."""
    least, most = _WINDOW
    size = least
    if isinstance(pairs, Sized):
        size = max(least, -(-len(pairs) // (-(-len(pairs) // most) or 1)))
    read, part = 0, []
    try:
        for program, given in pairs:
            _require_texts(program, [given])
            part.append((program, given))
            if len(part) >= max(size, min(most, read // 2)):
                yield part
                read, part = read + len(part), []
    except Exception:
        yield part
        raise
    yield part


def ordered_map(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    share: bool = False,
    ahead: int = 8,
    ready: type | tuple[()] = (),
) -> Iterator[_Result]:
    """`map(function, items)` by `workers + 1` threads, results in the order of the items.

    One thread more than can execute prepares what comes next. Reads at most `ahead * workers`
    items beyond the result last taken. An exception of `function` or of the iterable arrives at its
    place in the order. Leaving early drops what has not started, and does not wait for the rest.
    share: items are hashable, and equal ones among the last 4096 have one result. ready: the type
    of items for which `function` takes no time.
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
                if isinstance(item, ready):
                    future = Future()
                    future.set_result(function(item))
                elif future is None:
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
