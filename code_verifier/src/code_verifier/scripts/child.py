"""The children of the fork server: one calls a function of an ordinary module with many inputs and
reports the values, one runs a program as a script with pipes as its standard streams.

The report is lines of JSON, a value each and the ending last, and nothing in it is believed: the
caller compares the values outside, and this process never holds what they are compared with.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import marshal
import os
import selectors
import signal
import sys
import threading
import time

from code_verifier.jail.protocol import RESULT_FD
from code_verifier.scripts.values import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SPENT, RAISED = 72, 73
"""Exit codes: slept longer than the limit; a script ended with an exception, whose type is in the
shared memory."""
_DIGITS = 4300
_REASON_CHARS = 300


def serve_calls(request: dict[str, Any], progress: Any) -> NoReturn:
    """Load the module, make the calls, report.

    request: see `runner`. progress: shared memory; its first eight bytes say which call runs
    (from 1 on), so that the caller knows where a process was killed.
    """
    sys.stdin = sys.__stdin__ = Nowhere()  # type: ignore[assignment, misc]
    sys.stdout = sys.__stdout__ = sys.stderr = sys.__stderr__ = Nowhere()  # type: ignore
    time.sleep = sleep
    try:
        entry = _load(request)
    except BaseException as error:
        _end("module", error)
    calls = zip(marshal.loads(request["inputs"]), request["limits"], strict=True)
    for number, (args, limit) in enumerate(calls):
        progress[:8] = (number + 1).to_bytes(8, "little")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            value = entry(*args)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            sys.settrace(None)
            sys.setprofile(None)
            spent = time.process_time() - started
            name, digest, text, chars, floats = _described(value, request["draw"])
            if chars > request["text_chars"] and number not in request["full"]:
                text = None
            _send([name, digest, text, chars, floats, spent])
        except BaseException as error:
            _end("exception", error)
    _end("done", None)


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


def _described(value: Any, draw: bool) -> tuple[str, str, str | None, int, bool]:
    """`describe` with room for deep values, whatever limits the program has set."""
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(_DIGITS)
    sys.setrecursionlimit(max(depth, 10_000))
    try:
        return describe(value, draw)
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


def _end(how: str, error: BaseException | None) -> NoReturn:
    """Send the last line, and leave without finalisers."""
    gc.disable()
    _send([how, "" if error is None else _reason(error)])
    os._exit(0)


def _send(line: list[Any]) -> None:
    view = memoryview(json.dumps(line).encode() + b"\n")
    while view:
        view = view[os.write(RESULT_FD, view) :]


def _reason(error: BaseException) -> str:
    """Type and first argument of an exception, without calling the program's own methods."""
    name = str(type.__dict__["__name__"].__get__(type(error)))
    args = BaseException.__dict__["args"].__get__(error)
    message = args[0] if args and type(args[0]) is str else ""
    return (f"{name}: {message}" if message else name)[:_REASON_CHARS]


def serve_script(request: dict[str, Any], progress: Any) -> NoReturn:
    """Run the script to its end. `exit()` is an end like any other."""
    time.sleep = sleep
    sys.stdin = sys.__stdin__ = _stream(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = output = _stream(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = Nowhere()  # type: ignore[assignment, misc]
    sys.argv = ["solution.py"]
    sys.setrecursionlimit(request["recursion"])
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    code = 0
    try:
        exec(compile(request["prelude"], "<prelude>", "exec"), main.__dict__)
        exec(compile(request["program"], "<solution>", "exec", dont_inherit=True), main.__dict__)
        for thread in threading.enumerate():  # as at the end of an interpreter
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except SystemExit:
        pass
    except BaseException as error:
        name = type.__dict__["__name__"].__get__(type(error)).encode()[:200]
        progress[8 : 8 + len(name)] = name
        code = RAISED
    for stream in (sys.stdout, output):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # closed or replaced by the program
    os._exit(code)


def _stream(descriptor: int, mode: str) -> Any:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape", newline=None)


class Nowhere(io.TextIOBase):
    """A text stream that takes everything and holds nothing."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        return len(text)


def sleep(seconds: Any, /) -> None:
    """Sleeping takes from the time that the call may run, and does not wait."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    left = signal.getitimer(signal.ITIMER_PROF)[0] - seconds
    if left <= 0:
        os._exit(SPENT)
    signal.setitimer(signal.ITIMER_PROF, left)


class _Waiter(selectors.BaseSelector):
    """Waits for another thread, or for time to pass, which the limit of time pays for."""

    def __init__(self) -> None:
        self.wake = threading.Event()

    def register(self, fileobj: Any, events: int, data: Any = None) -> NoReturn:
        raise PermissionError("no descriptor can be waited for")

    def unregister(self, fileobj: Any) -> NoReturn:
        raise KeyError(fileobj)

    def get_map(self) -> Any:
        return {}

    def select(self, timeout: float | None = None) -> Any:
        started = time.monotonic()
        if timeout is None or timeout > 0:
            left = signal.getitimer(signal.ITIMER_PROF)[0]
            self.wake.wait(left if timeout is None else min(timeout, left))
            sleep(time.monotonic() - started)
        self.wake.clear()
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop of timers, tasks and threads without descriptors, which the filter refuses."""

    def __init__(self) -> None:
        self._waiter = _Waiter()
        super().__init__(self._waiter)

    def _make_self_pipe(self) -> None:
        """Other threads set an event instead."""

    def _close_self_pipe(self) -> None:
        """There is none."""

    def _write_to_self(self) -> None:
        self._waiter.wake.set()


class EventLoops(asyncio.DefaultEventLoopPolicy):
    """The loops that asyncio opens in a child."""

    _loop_factory = _Loop
