"""The child that calls one function of an ordinary module with many inputs, and reports values.

The report is lines of JSON, a list of values each and the ending last, and nothing in it is
believed: whoever reads it compares the values outside, and this process never holds what they are
compared with.
"""

from __future__ import annotations

import gc
import io
import json
import marshal
import os
import signal
import sys
import time

from code_verifier.jail.protocol import RESULT_FD
from code_verifier.modules.values import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SPENT = 72
"""Exit code of a program that slept longer than it may run."""
_FLUSH_BYTES = 1 << 16
_VALUE_BYTES = 80
_DIGITS = 4300
_REASON_CHARS = 300


def serve(request: dict[str, Any], progress: Any) -> NoReturn:
    """Load the module, make the calls, report; never returns.

    request: see `runner`. progress: shared memory; its first eight bytes say which call runs
    (from 1 on), so that the caller knows where a process was killed.
    """
    report = Report(request["text_chars"])
    silence()
    time.sleep = sleep
    try:
        entry = _load(request)
    except BaseException as error:
        report.end("module", error)
    inputs = marshal.loads(request["inputs"])
    draw, full = request["draw"], frozenset(request["full"])
    for number, (args, limit) in enumerate(zip(inputs, request["limits"], strict=True)):
        progress[:8] = (number + 1).to_bytes(8, "little")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            value = entry(*args)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            sys.settrace(None)
            sys.setprofile(None)
            spent = time.process_time() - started
            report.value(describe_fully(value, draw), spent, number in full)
        except BaseException as error:
            report.end("exception", error)
    report.end("done", None)


def describe_fully(value: Any, draw: bool) -> tuple[str, str, str | None, int, bool]:
    """`describe` with room for deep values, whatever limits the program has set."""
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(_DIGITS)
    sys.setrecursionlimit(max(depth, 10_000))
    try:
        return describe(value, draw)
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


class Report:
    """Lines for the caller, many values in each. text_chars: longer texts are left out."""

    def __init__(self, text_chars: int) -> None:
        self._most = text_chars
        self._values: list[tuple[Any, ...]] = []
        self._size = 0

    def value(
        self, found: tuple[str, str, str | None, int, bool], spent: float, full: bool
    ) -> None:
        """One value: its description, and the processor seconds that it took."""
        name, digest, text, chars, floats = found
        sent = text if chars <= self._most or full else None
        self._values.append((name, digest, sent, chars, floats, spent))
        self._size += _VALUE_BYTES + (len(sent) if sent else 0)
        if self._size > _FLUSH_BYTES:
            self._send(self._values)
            self._values, self._size = [], 0

    def end(self, how: str, error: BaseException | None) -> NoReturn:
        """The last line; then the process leaves without finalisers."""
        gc.disable()
        if self._values:
            self._send(self._values)
        self._send([how, "" if error is None else reason(error)])
        os._exit(0)

    def _send(self, line: list[Any]) -> None:
        view = memoryview(json.dumps(line).encode() + b"\n")
        while view:
            view = view[os.write(RESULT_FD, view) :]


def reason(error: BaseException) -> str:
    """Type and first argument of an exception, without calling the program's own methods."""
    name = str(type.__dict__["__name__"].__get__(type(error)))
    args = BaseException.__dict__["args"].__get__(error)
    message = args[0] if args and type(args[0]) is str else ""
    return (f"{name}: {message}" if message else name)[:_REASON_CHARS]


def sleep(seconds: Any, /) -> None:
    """Sleeping takes from the time that the call may run, and does not wait."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    left = signal.getitimer(signal.ITIMER_PROF)[0] - seconds
    if left <= 0:
        os._exit(SPENT)
    signal.setitimer(signal.ITIMER_PROF, left)


class Nowhere(io.TextIOBase):
    """A text stream that takes everything and holds nothing."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        return len(text)


def silence() -> None:
    """Standard streams that lead nowhere; reading the standard input fails."""
    sys.stdin = sys.__stdin__ = Nowhere()  # type: ignore[assignment, misc]
    sys.stdout = sys.__stdout__ = sys.stderr = sys.__stderr__ = Nowhere()  # type: ignore


def _load(request: dict[str, Any]) -> Any:
    """Execute the module; the function to call."""
    sys.setrecursionlimit(request["recursion"])
    module = type(sys)("solution")
    sys.modules["solution"] = module
    names = module.__dict__
    for part in ("prelude", "program"):
        exec(compile(request[part], f"<{part}>", "exec", dont_inherit=True), names)
    if request["owner"] in names:
        return getattr(names[request["owner"]](), request["entry"])
    return names[request["entry"]]
