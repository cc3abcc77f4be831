"""Grading of HumanEval+ and MBPP+ samples: each run in a fresh process, values compared outside.

The reference solution computes the expected outputs once; the cache folder keeps them, one file for
each task and run: type, digest and, up to a million characters, text.

Limits are of processor time, so that a busy machine does not change a verdict. A run whose
reference is slow is cut into pieces, each a process, so that wrong answers are found early.
"""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from code_verifier import Calls, ScriptRunner, Status, Value, ordered_map
from evals.code.evalplus_problems import WHOLE_CHARS, Arguments, FunctionProblem, first_wrong
from evals.data import cache_folder
from evals.errors import EvalsError
from evals.question import ProgramOutcome
from evals.recipes import Limits
from lora_evo.files import appearing

_FORMAT = 12
_CALLS: dict[str, Any] = {"text_chars": WHOLE_CHARS, "output_bytes": 1 << 28, "deep": True}
_REFERENCE_CALL_S, _REFERENCE_RUN_S = 1800.0, 7200.0
_RUN_S = 60.0
_PIECE_S = 2.0
_RECURSION = 976  # as many calls as 1000 leaves below the frames of `evalplus.evaluate`
_REMEMBERED = 8
_AHEAD = 32  # one program may take as long as hundreds of others


@dataclass(frozen=True)
class _Run:
    """The base or the plus inputs of a problem, and the outputs of its reference."""

    problem: FunctionProblem
    inputs: Sequence[Arguments]
    expected: tuple[Value, ...]


class FunctionGrader(AbstractContextManager["FunctionGrader"]):
    """A context manager that grades programs against problems. workers: programs that run at a
    time. cache: folder of expected outputs, by default in the user's. Grading raises
    SandboxUnavailable on a machine without the necessary protection, unless `allow_weak`."""

    def __init__(
        self,
        workers: int = 1,
        cache: Path | None = None,
        limits: Limits | None = None,
        allow_weak: bool = False,
    ) -> None:
        self._workers, self._limits = workers, limits or Limits()
        self._cache = cache if cache is not None else cache_folder("populab/evals")
        # Two sets of processes: one that ran a reference solution never runs a candidate.
        slots = threading.Semaphore(workers)
        self._references = ScriptRunner(allow_weak=allow_weak, slots=slots)
        self._candidates = ScriptRunner(allow_weak=allow_weak, slots=slots)
        self._locks: dict[FunctionProblem, threading.Lock] = {}
        self._known = lru_cache(_REMEMBERED + workers)(self._runs)

    def __exit__(self, *_: object) -> None:
        self._candidates.close()
        self._references.close()

    def grade(
        self, problem: FunctionProblem, program: str
    ) -> tuple[ProgramOutcome, ProgramOutcome]:
        """Return the outcomes of one whole program (prompt included) on the base and the plus
        inputs. A sample passes HumanEval+ or MBPP+ when it passes both."""
        try:
            with self._locks.setdefault(problem, threading.Lock()):
                base, plus = self._known(problem)
        except EvalsError as error:
            return ProgramOutcome(None, str(error)), ProgramOutcome(None, str(error))
        return self._grade(base, program), self._grade(plus, program)

    def grade_many(
        self, samples: Iterable[tuple[FunctionProblem, str]]
    ) -> Iterator[tuple[ProgramOutcome, ProgramOutcome]]:
        """Yield outcomes in the order of the samples, lazily and in parallel."""
        return ordered_map(lambda sample: self.grade(*sample), samples, self._workers, ahead=_AHEAD)

    def _runs(self, problem: FunctionProblem) -> tuple[_Run, ...]:
        both, place = (problem.base_input, problem.plus_input), (self._references, self._cache)
        return tuple(_Run(problem, x, expected_values(problem, x, *place)) for x in both)

    def _grade(self, run: _Run, program: str) -> ProgramOutcome:
        values: list[Value] = []
        call = partial(self._call, run, program)
        first, *parts = _pieces(run.expected)
        queue = ordered_map(call, parts, self._workers) if self._workers > 1 else map(call, parts)
        for calls in chain((call(first),), queue):  # most wrong programs fail in the first
            values += calls.values
            count = len(values)
            wrong = first_wrong(run.problem, run.inputs, run.expected, values)
            if wrong is not None:
                reason = f"returned {_shown(values[wrong])}; expected {_shown(run.expected[wrong])}"
                return ProgramOutcome(ProgramOutcome.FAIL, reason, wrong)
            if calls.status != Status.OK:
                return _outcome(calls, count)
        return ProgramOutcome(ProgramOutcome.PASS)

    def _call(self, run: _Run, program: str, piece: slice) -> Calls:
        """Run the program on a piece of the inputs, in a process of its own."""
        least = self._limits.min_time_s
        seconds = [self._limits.time_factor * value.cpu_s for value in run.expected[piece]]
        limits = [max(least, second) for second in seconds]
        total = max(min(_RUN_S, sum(limits)), sum(seconds)) + least
        return self._candidates.call(
            program,
            run.problem.entry_point,
            run.inputs[piece],
            limits,
            module_s=total,
            total_s=total,
            draw=run.problem.compares_sets,
            recursion=_RECURSION,
            **_CALLS,
        )


def expected_values(
    problem: FunctionProblem, inputs: Sequence[Arguments], runner: ScriptRunner, folder: Path
) -> tuple[Value, ...]:
    """Return the values of the reference solution, with processor seconds; kept in the folder, if
    it can be written. Raises EvalsError if it lacks a value, or the sandbox fails."""
    path = folder / f"{_key(problem, inputs)}.json.gz"
    if (cached := _read_cache(path, len(inputs))) is not None:
        return cached
    calls = runner.call(
        problem.reference,
        problem.entry_point,
        inputs,
        [_REFERENCE_CALL_S] * len(inputs),
        module_s=_REFERENCE_CALL_S,
        total_s=_REFERENCE_RUN_S,
        draw=problem.compares_sets,
        **_CALLS,
    )
    if calls.status == Status.SANDBOX_ERROR:
        raise EvalsError(calls.reason)
    if calls.status != Status.OK:
        failure = f"call {calls.call}: {calls.reason}" if calls.call else calls.reason
        raise EvalsError(f"the reference solution of {problem.task_id} failed: {failure}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with appearing(path) as draft:
            draft.write_bytes(gzip.compress(json.dumps(calls.values).encode(), 6, mtime=0))
    return calls.values


def _key(problem: FunctionProblem, inputs: Sequence[Arguments]) -> str:
    parts = (_FORMAT, problem.reference, problem.entry_point, problem.compares_sets)
    text = repr(list(inputs))
    if "{" in text or "set(" in text:
        text = repr(_stable(list(inputs)))
    text = f"({parts!r}, {text})"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _stable(value: Any) -> Any:
    """Sets as sorted texts, whose order does not depend on the process."""
    if isinstance(value, set | frozenset):
        return ("set", *sorted(map(repr, value)))
    if isinstance(value, list | tuple):
        return type(value)(map(_stable, value))
    return value


def _read_cache(path: Path, count: int) -> tuple[Value, ...] | None:
    """The values in a file of the cache; None if it is missing or damaged."""
    try:
        values = tuple(Value(*row) for row in json.loads(gzip.decompress(path.read_bytes())))
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return values if len(values) == count else None


def _pieces(expected: Sequence[Value]) -> list[slice]:
    """Parts of a run that take the reference about two processor seconds, at most."""
    ends: list[int] = []
    spent = 0.0
    for end, value in enumerate(expected, 1):
        spent += value.cpu_s
        if spent > _PIECE_S or end == len(expected):
            ends.append(end)
            spent = 0.0
    return list(map(slice, [0, *ends], ends or [0]))


def _outcome(calls: Calls, count: int) -> ProgramOutcome:
    """The outcome of a run that ended early, by evalplus' rules: an exception, a crash and a slow
    call are `fail`; a slow module or run, and a process that leaves no report, are `timeout`."""
    if calls.status == Status.SANDBOX_ERROR:
        return ProgramOutcome(None, calls.reason)
    failed = count if calls.call else None
    ended = calls.status in (Status.MEMORY, Status.VIOLATION)
    slow = ended or (calls.status != Status.EXCEPTION and not calls.call)
    status = ProgramOutcome.TIMEOUT if slow else ProgramOutcome.FAIL
    return ProgramOutcome(status, calls.reason, failed)


def _shown(value: Value) -> str:
    text = value.text
    if text is None:
        return f"a {value.type_name}" + (f" of {value.chars} characters" if value.chars > 0 else "")
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
