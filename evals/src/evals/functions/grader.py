"""Grading of HumanEval+ and MBPP+ samples: each run in a fresh process, values compared outside.

Limits are of processor time, so that a busy machine does not change a verdict: for each call four
times what the reference solution needed, and at least a second, unless set otherwise; for a run
60 s, or more where the reference needs more. A run whose reference is heavy is cut into pieces
with a process each, so that a wrong answer is found before the rest is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from code_verifier.modules.reports import Calls, Value
from code_verifier.modules.runner import ModuleRunner
from code_verifier.sandbox.closing import Closing
from code_verifier.sandbox.parallel import ordered_map
from evals.errors import EvalsError
from evals.functions.comparison import WHOLE_CHARS, first_wrong
from evals.functions.oracles import compares_sets
from evals.functions.problem import Arguments, FunctionProblem
from evals.functions.reference import (
    ReferenceFailed,
    cache_folder,
    expected_values,
    run_reference,
)

PASS, FAIL, TIMEOUT = "pass", "fail", "timeout"
COMPAT = (None, "0.3.1")
_RUN_S = 60.0
_LONGEST_S = 1e6
_PIECE_S = 2.0
_RECURSION = 976  # leaves as many calls as 1000 does below the frames of `evalplus.evaluate`
_REMEMBERED = 8
_AHEAD = 32  # one program may take as long as hundreds of others
_LATE = frozenset({"left", "crash", "idle", "total", "memory"})


@dataclass(frozen=True)
class FunctionVerdict:
    """`pass`, `fail` or `timeout` on the base and on the plus inputs; None when the fault is ours.

    A sample passes HumanEval+ or MBPP+ when it passes both. reason: why it does not pass; "" when
    it does. failed_test: place of the input it failed on (from 0), among the base inputs when it
    failed these, else among the plus inputs; None when no input is to blame.
    """

    base: str | None
    plus: str | None
    reason: str
    failed_test: int | None


@dataclass(frozen=True)
class _Outcome:
    status: str | None
    reason: str = ""
    failed_test: int | None = None


class FunctionGrader(Closing):
    """A context manager that grades programs against problems.

    workers: programs that run at a time. compat: "0.3.1" repeats the error of that version of
    evalplus, by which nothing passes HumanEval/32. cache: folder of expected outputs, by default
    below the user's cache folder. min_time_s, time_factor: processor seconds that a call may
    take: as many times the reference's, and no less than the former. Raises EvalsError;
    SandboxUnavailable when it starts to grade on a machine without the walls it needs, unless
    `allow_weak`.
    """

    def __init__(
        self,
        workers: int = 1,
        compat: str | None = None,
        cache: Path | None = None,
        min_time_s: float = 1.0,
        time_factor: float = 4.0,
        memory_mb: int = 4096,
        allow_weak: bool = False,
    ) -> None:
        if workers < 1:
            raise EvalsError(f"workers is {workers}; expected 1 or more")
        if compat not in COMPAT:
            raise EvalsError(f"compat is {compat!r}; expected None or '0.3.1'")
        if not 0 < min_time_s < _LONGEST_S or not 0 < time_factor < _LONGEST_S:
            found = f"min_time_s {min_time_s} and time_factor {time_factor}"
            raise EvalsError(f"found {found}; expected numbers above 0")
        self._workers = workers
        self._least_s, self._factor = min_time_s, time_factor
        self._compat = compat
        self._cache = cache if cache is not None else cache_folder()
        # Two sets of processes: what ran a reference solution never holds a candidate.
        slots = threading.Semaphore(workers)
        self._references = ModuleRunner(memory_mb, allow_weak, slots)
        self._candidates = ModuleRunner(memory_mb, allow_weak, slots)
        self._lock = threading.Lock()
        self._locks: dict[int, threading.Lock] = {}
        self._expected: dict[int, tuple[FunctionProblem, tuple[tuple[Value, ...], ...]]] = {}

    def close(self) -> None:
        """End all processes."""
        self._candidates.close()
        self._references.close()

    def grade(self, problem: FunctionProblem, program: str) -> FunctionVerdict:
        """The verdict on one whole program (prompt included)."""
        try:
            base_values, plus_values = self._references_of(problem)
        except ReferenceFailed as error:
            return FunctionVerdict(None, None, str(error), None)
        base = self._run(problem, program, problem.base_input, base_values)
        plus = self._run(problem, program, problem.plus_input, plus_values)
        worse = base if base.status != PASS else plus
        return FunctionVerdict(base.status, plus.status, worse.reason, worse.failed_test)

    def grade_many(
        self, samples: Iterable[tuple[FunctionProblem, str]]
    ) -> Iterator[FunctionVerdict]:
        """Verdicts in the order of the samples; lazy, and as parallel as there are workers."""
        return ordered_map(lambda sample: self.grade(*sample), samples, self._workers, ahead=_AHEAD)

    def _references_of(self, problem: FunctionProblem) -> tuple[tuple[Value, ...], ...]:
        """Expected values of both runs, remembered for the problems of late."""
        with self._lock:
            lock = self._locks.setdefault(id(problem), threading.Lock())
        with lock:
            known = self._expected.get(id(problem))
            if known is not None and known[0] is problem:
                return known[1]
            values = tuple(
                expected_values(problem, inputs, self._references, self._cache)
                for inputs in (problem.base_input, problem.plus_input)
            )
        with self._lock:
            self._expected[id(problem)] = (problem, values)
            while len(self._expected) > _REMEMBERED + self._workers:
                oldest = next(iter(self._expected))
                del self._expected[oldest]
                self._locks.pop(oldest, None)
        return values

    def _run(
        self,
        problem: FunctionProblem,
        program: str,
        inputs: Sequence[Arguments],
        expected: tuple[Value, ...],
    ) -> _Outcome:
        found: list[Value] = []
        for calls in self._calls(problem, program, inputs, expected):
            found += calls.values
            done = len(found)
            wrong = self._first_wrong(problem, program, inputs, expected, found)
            if wrong is not None:
                return _Outcome(FAIL, _difference(expected[wrong], found[wrong]), wrong)
            if calls.ending != "done":
                return _outcome(calls, done)
        return _Outcome(PASS)

    def _calls(
        self,
        problem: FunctionProblem,
        program: str,
        inputs: Sequence[Arguments],
        expected: tuple[Value, ...],
    ) -> Iterator[Calls]:
        """The pieces of a run: the first alone, since most wrong programs fail in it."""

        def call(piece: tuple[int, int]) -> Calls:
            return self._call(problem, program, inputs, expected, *piece)

        first, *rest = _pieces(expected)
        yield call(first)
        yield from ordered_map(call, rest, self._workers) if self._workers > 1 else map(call, rest)

    def _call(
        self,
        problem: FunctionProblem,
        program: str,
        inputs: Sequence[Arguments],
        expected: tuple[Value, ...],
        start: int,
        stop: int,
        full: Sequence[int] = (),
    ) -> Calls:
        """Run the program on inputs[start:stop], in a process of its own."""
        limits = [max(self._least_s, self._factor * value.cpu_s) for value in expected[start:stop]]
        heavy = self._factor * sum(value.cpu_s for value in expected[start:stop])
        total = max(min(_RUN_S, sum(limits)), heavy) + self._least_s
        return self._candidates.call(
            program,
            problem.entry_point,
            inputs[start:stop],
            limits,
            module_s=total,
            total_s=total,
            draw=compares_sets(problem),
            full=[place - start for place in full],
            deep=True,
            recursion=_RECURSION,
        )

    def _first_wrong(
        self,
        problem: FunctionProblem,
        program: str,
        inputs: Sequence[Arguments],
        expected: tuple[Value, ...],
        found: Sequence[Value],
    ) -> int | None:
        def texts(place: int) -> tuple[str | None, str | None]:
            """Both values at a place, run again up to it, with the text that was too long."""
            if max(expected[place].chars, found[place].chars) > WHOLE_CHARS:
                return None, None
            wanted, value = expected[place].text, found[place].text
            if wanted is None:
                again = run_reference(problem, inputs[: place + 1], self._references, [place])
                wanted = _text(again, expected[place])
            if value is None:
                start = max(start for start, _ in _pieces(expected) if start <= place)
                again = self._call(problem, program, inputs, expected, start, place + 1, [place])
                value = _text(again, found[place])
            return wanted, value

        return first_wrong(problem, inputs, expected, found, texts, self._compat)


def _text(calls: Calls, known: Value) -> str | None:
    """The text of the last value, if it is the value that was found before."""
    if calls.ending != "done" or not calls.values or calls.values[-1].digest != known.digest:
        return None
    return calls.values[-1].text


def _pieces(expected: Sequence[Value]) -> list[tuple[int, int]]:
    """Parts of a run, each with at most about two seconds of the reference's processor time."""
    ends: list[int] = []
    spent = 0.0
    for place, value in enumerate(expected):
        spent += value.cpu_s
        if spent > _PIECE_S:
            ends.append(place + 1)
            spent = 0.0
    if not ends or ends[-1] != len(expected):
        ends.append(len(expected))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _outcome(calls: Calls, done: int) -> _Outcome:
    """The status of a run that ended early, as evalplus would call it.

    An exception and a call that takes too long fail; a module that takes too long and a process
    that leaves without a report time out.
    """
    if calls.ending == "fault":
        return _Outcome(None, calls.reason)
    if calls.ending == "module":
        return _Outcome(FAIL, calls.reason)
    if calls.ending in _LATE or not calls.call:
        return _Outcome(TIMEOUT, calls.reason, done if calls.call else None)
    return _Outcome(FAIL, calls.reason, done)


def _difference(wanted: Value, found: Value) -> str:
    """One line that shows both values, shortened."""
    return f"returned {_shown(found)}; expected {_shown(wanted)}"


def _shown(value: Value) -> str:
    text = value.text
    if text is None:
        return f"a {value.type_name}" + (f" of {value.chars} characters" if value.chars > 0 else "")
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
