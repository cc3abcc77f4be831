"""Examining and executing one program, and the acceptance rule: equal canonical output of several
executions in fresh processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from code_verifier.canonical import canonical
from code_verifier.errors import LiteralError, Status
from code_verifier.jail import protocol
from code_verifier.jail.modules import ALL
from code_verifier.literals import is_plain, parse_literal
from code_verifier.processes import EXAMINER, BudgetExceeded, Kind, Pool, ProcessLost
from code_verifier.tasks import Limits, Verdict

CHANCE_RUNS = 16
_SETTLED = (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG)
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)
_GRACE_S = 10.0
_REMEMBERED = 512
_MISSING, _UNORDERED = "missing_module", "unordered"


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
    """Examines and executes through a pool. Programs examined lately are remembered."""

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits
        self._known: dict[str, Program | Verdict] = {}

    def examine(self, program: str, inputs: Sequence[str]) -> Examined:
        """The examined program and arguments, or the verdicts that refuse them."""
        limits = self._limits
        if len(program) > limits.program_chars:
            reason = f"the program is longer than {limits.program_chars} characters"
            return _refused(Status.TOO_LONG, reason), []
        known = self._known.get(program)
        if isinstance(known, Verdict):
            return known, []
        text = b"" if known is not None else program.encode("utf-8", "surrogatepass")
        most = limits.input_chars
        cut = [given[: most + 1].encode("utf-8", "surrogatepass") for given in inputs]
        head = protocol.EXAMINE.pack(known is None, len(text), most, len(cut))
        try:
            request = head + text + protocol.pack_inputs(cut)
            reply = self._pool.ask(EXAMINER, request, limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            if len(inputs) > 1:
                return self._one_by_one(program, inputs)
            if isinstance(error, BudgetExceeded):
                reason = "reading the program or the input took too much processor time"
                return _refused(Status.TIMEOUT, reason), []
            return _refused(Status.SYNTAX_ERROR, f"Python's parser broke on it: {error}"), []
        found, start, count = _read(reply)
        if known is not None and isinstance(found, Program):
            found = known
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {}  # no lock, which a fork could leave locked
            self._known[program] = found
        if isinstance(found, Verdict):
            return found, []
        results = protocol.unpack_results(reply, start, count)
        if results is None or len(results) != len(inputs):
            return _refused(Status.SANDBOX_ERROR, "the examiner answered nonsense"), []
        if any(name == _UNORDERED for name, _ in results):
            found = replace(found, chance=True)
        return found, [
            data
            if name in (Status.OK, _UNORDERED)
            else _refused(name, data.decode("utf-8", "replace"))
            for name, data in results
        ]

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
        head = protocol.EXECUTE.pack(len(program.code), len(arguments))
        request = head + program.code + protocol.pack_inputs(arguments)
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
        wall_ms, whole, number = protocol.REPLY.unpack_from(reply)
        results = protocol.unpack_results(reply, protocol.REPLY.size, number)
        if results is None or number != (1 if whole else count):
            fault = _refused(Status.SANDBOX_ERROR, "the fork server answered nonsense", runs=1)
            return [fault] * count, True
        verdicts = [self._verdict(status, data, wall_ms) for status, data in results]
        return verdicts * (count if whole else 1), bool(whole)

    def _verdict(self, status: str, data: bytes, wall_ms: float) -> Verdict:
        text = data.decode("utf-8", "replace")
        if status == Status.MEMORY and not text:
            text = f"used more than {self._limits.memory_mb} MiB of memory"
        if status != Status.OK:
            return Verdict(status, None, text, wall_ms, 1)
        try:  # the child may have been taken over: its text is data until it proves canonical
            if not is_plain(text) and canonical(parse_literal(text, len(text)), len(text)) != text:
                raise LiteralError("the text is not canonical")
        except LiteralError as error:
            reason = f"the result is forged: {error}"
            return Verdict(Status.VIOLATION, None, reason, wall_ms, 1)
        return Verdict(Status.OK, text, "", wall_ms, 1)


def _read(reply: bytes) -> tuple[Program | Verdict, int, int]:
    """The program in an examiner's reply, where the results of its inputs start, and how many."""
    status, flags, reason_size, code_size, count = protocol.EXAMINED.unpack_from(reply)
    middle = protocol.EXAMINED.size + reason_size
    if protocol.STATUSES[status] != Status.OK:
        reason = reply[protocol.EXAMINED.size : middle].decode("utf-8", "replace")
        return _refused(protocol.STATUSES[status], reason), middle, 0
    found = Program(
        reply[middle : middle + code_size],
        chance=bool(flags & protocol.CHANCE),
        separable=bool(flags & protocol.SEPARABLE),
        tier=flags >> protocol.TIER_SHIFT & protocol.TIER_MASK,
    )
    return found, middle + code_size, count


def _refused(status: str, reason: str, runs: int = 0) -> Verdict:
    return Verdict(status, None, reason, 0.0, runs)


def verdicts(
    executor: Executor, text: str, inputs: Sequence[str], runs: int, raise_runs: bool
) -> Iterator[Verdict]:
    """The verdict of every input, when asked for: policy, then equal outputs of all executions.
    raise_runs: give a program that can reach a source of chance more executions."""
    program, arguments = executor.examine(text, inputs)
    if isinstance(program, Verdict):
        yield from [program] * len(inputs)
        return
    if raise_runs:
        runs = max(runs, CHANCE_RUNS * program.chance)
    data = [given for given in arguments if isinstance(given, bytes)]
    batched: Iterator[Verdict | None] = iter(())
    if len(data) > 1 and program.separable:
        batched = iter(_run_batched(executor, program, data, runs))
    for given in arguments:
        if isinstance(given, Verdict):
            yield given
        else:
            yield next(batched, None) or _run_isolated(executor, program, given, runs)


def _run_batched(
    executor: Executor, program: Program, data: list[bytes], runs: int
) -> list[Verdict | None]:
    """All inputs in one process for each run; None where that does not settle the verdict."""
    rounds = []
    for index in range(runs):
        found, whole = executor.execute(program, data, index)
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


def _run_isolated(executor: Executor, program: Program, given: bytes, runs: int) -> Verdict:
    first = executor.execute(program, [given], 0)[0][0]
    if not first.ok:
        return first
    wall_ms = first.wall_ms
    for index in range(1, runs):
        verdict = executor.execute(program, [given], index)[0][0]
        wall_ms = max(wall_ms, verdict.wall_ms)
        if verdict.ok and verdict.output == first.output:
            continue
        if verdict.status in _INCONCLUSIVE:
            return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
        other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
        reason = f"gave {_short(first.output)}, then {_short(other)}"
        return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
    return Verdict(Status.OK, first.output, "", wall_ms, runs)


def _short(text: str | None, width: int = 80) -> str:
    text = text or ""
    return text if len(text) <= width else f"{text[:width]}..."
