"""Examines programs and executes them through a pool, and compares what executions give."""

import marshal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from code_verifier.canonical import canonical
from code_verifier.errors import CodeVerifierError, LiteralError, Status
from code_verifier.jail import protocol
from code_verifier.jail.modules import ALL
from code_verifier.literals import parse_literal
from code_verifier.processes import EXAMINER, STRICT, BudgetExceeded, Kind, Pool, ProcessLost
from code_verifier.tasks import Limits, Verdict

CHANCE_RUNS = 16
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)
_GRACE_S = 10.0


@dataclass(frozen=True)
class Program:
    """An examined program. chance: whether it can reach a source of chance. address: whether it can
    reach an address. tier: of the fork server that holds the modules it imports."""

    code: bytes
    chance: bool
    address: bool
    tier: int


@dataclass(frozen=True)
class Arguments:
    """Examined arguments. chance: whether they hold a set, which has no order."""

    data: bytes
    chance: bool


Examined = tuple[Program, list[Arguments | Verdict]]
"""A program and its arguments, or the verdicts that refuse these."""


class Executor:
    """Executes programs, each time in a fresh process of the pool."""

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits

    def jobs(self, text: str, inputs: Sequence[str], runs: int) -> list[Callable[[], Verdict]]:
        """Examine a program with its inputs; the calls that give the verdict of each.

        runs: executions that have to agree; more than one become 16 where the program or the input
        can reach a source of chance. Raises CodeVerifierError when an argument is not a str.
        """
        _require_texts(text, inputs)
        examined = self.examine(text, inputs)
        if isinstance(examined, Verdict):
            return [lambda: examined] * len(inputs)
        program, arguments = examined
        if runs > 1 and has_fixed_addresses():
            _warn()
            refused = _refused(Status.BANNED, f"it may show an address: {FIXED}")
            arguments = [
                refused if program.address or (isinstance(x, Arguments) and x.chance) else x
                for x in arguments
            ]
        return [partial(self._settle, program, item, runs) for item in arguments]

    def examine(self, text: str, inputs: Sequence[str]) -> Examined | Verdict:
        """The examined program and arguments, or the verdict that refuses the program."""
        limits = self._limits
        if len(text) > limits.program_chars:
            reason = f"the program is longer than {limits.program_chars} characters"
            return _refused(Status.TOO_LONG, reason)
        cut = [input[: limits.input_chars + 1] for input in inputs]
        request = marshal.dumps((text, cut, limits.input_chars))
        try:
            reply = self._pool.ask(EXAMINER, request, limits.wall_s + _GRACE_S)
        except ProcessLost as error:
            if len(inputs) > 1:
                return self._examine_each(text, inputs)
            if isinstance(error, BudgetExceeded):
                reason = "reading the program or the input took too much processor time"
                return _refused(Status.TIMEOUT, reason)
            return _refused(Status.SYNTAX_ERROR, f"Python's parser broke on it: {error}")
        results = protocol.unpack_results(reply, 0) or [(Status.OK, b"")]
        (status, data), *others = results
        if status != Status.OK:
            return _refused(status, _text(data))
        if not data or len(others) != len(inputs):
            return _refused(Status.SANDBOX_ERROR, "the examiner answered nonsense")
        chance = bool(data[0] & protocol.CHANCE)
        address = bool(data[0] & protocol.ADDRESS)
        program = Program(data[1:], chance, address, data[0] >> protocol.TIER_SHIFT)
        return program, [_arguments(*result) for result in others]

    def _examine_each(self, text: str, inputs: Sequence[str]) -> Examined | Verdict:
        """The same with a request for each input, so that one does not refuse the others."""
        examined = self.examine(text, [])
        if isinstance(examined, Verdict):
            return examined
        arguments: list[Arguments | Verdict] = []
        for input in inputs:
            with_input = self.examine(text, [input])
            arguments.append(with_input if isinstance(with_input, Verdict) else with_input[1][0])
        return examined[0], arguments

    def _settle(self, program: Program, arguments: Arguments | Verdict, runs: int) -> Verdict:
        """The verdict that refuses the arguments; or that of `runs` equal executions, or of the
        first that is not `ok` or differs."""
        if isinstance(arguments, Verdict):
            return arguments
        if runs > 1 and (program.chance or arguments.chance):
            runs = max(runs, CHANCE_RUNS)
        first = self.execute(program, arguments, 0)
        if not first.ok:
            return first
        wall_ms = first.wall_ms
        for index in range(1, runs):
            verdict = self.execute(program, arguments, index)
            wall_ms = max(wall_ms, verdict.wall_ms)
            if verdict.ok and verdict.output == first.output:
                continue
            if verdict.status in _INCONCLUSIVE:
                return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
            other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
            reason = f"gave {_short(first.output)}, then {_short(other)}"
            return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
        return Verdict(Status.OK, first.output, "", wall_ms, runs)

    def execute(self, program: Program, arguments: Arguments, index: int) -> Verdict:
        """Execute once, under hash seed and clocks `index`; again with all modules where one that
        it looked for was missing."""
        request = marshal.dumps((program.code, arguments.data))
        verdict = self._ask(request, index, program.tier)
        if verdict.status == protocol.MISSING:
            return self._ask(request, index, ALL)
        return verdict

    def _ask(self, request: bytes, index: int, tier: int) -> Verdict:
        try:
            reply = self._pool.ask(
                Kind(STRICT, index, tier), request, self._limits.wall_s + _GRACE_S
            )
        except ProcessLost as error:
            return _refused(Status.SANDBOX_ERROR, f"the fork server was lost: {error}", runs=1)
        (wall_ms,) = protocol.REPLY.unpack_from(reply)
        results = protocol.unpack_results(reply, protocol.REPLY.size)
        if results is None or len(results) != 1:
            return _refused(Status.SANDBOX_ERROR, "the fork server answered nonsense", runs=1)
        ((status, data),) = results
        text = _text(data)
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


def _arguments(status: str, data: bytes) -> Arguments | Verdict:
    if status != Status.OK or not data:
        return _refused(status, _text(data))
    return Arguments(data[1:], bool(data[0] & protocol.CHANCE))


FIXED = (
    "this Python is not position-independent: its own objects have the same address in every "
    "process, so that no execution tells what hangs on one. Programs that may show an address, a "
    "hash or the order of a set are not accepted here; use another build of Python"
)


@cache
def has_fixed_addresses() -> bool:
    """Whether the interpreter's program file is one that is loaded at a fixed place (ELF, EXEC)."""
    try:
        with open(sys.executable, "rb") as file:
            return file.read(18)[16:] == b"\x02\x00"
    except OSError:
        return False


@cache
def _warn() -> None:
    warnings.warn(FIXED, stacklevel=2)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refused(status: str, reason: str, runs: int = 0) -> Verdict:
    return Verdict(status, None, reason, 0.0, runs)


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 80 else f"{text[:80]}..."


def _require_texts(program: object, inputs: Sequence[object]) -> None:
    for name, text in (("program", program), *(("input", input) for input in inputs)):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise CodeVerifierError(f"the {name} is of type {kind}; expected a text")
