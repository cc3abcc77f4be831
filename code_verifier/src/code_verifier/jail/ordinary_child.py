"""The children for ordinary programs, behind the walls.

- A module's calls: report the value of each, as `values` describes it.
- A script, with pipes as its standard streams.

The caller compares the values outside; no process here ever holds the expected ones.
"""

import atexit
import gc
import io
import locale
import marshal
import mmap
import os
import resource
import signal
import site
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

from code_verifier.errors import Status
from code_verifier.jail import in_process, memory_files, wire
from code_verifier.jail.literal_child import OWN_DIGITS, OWN_RECURSION, reason_of
from code_verifier.jail.wire import FULL, RAISED, SPENT
from code_verifier.values import describe, encode


def prepare() -> None:
    """Prepare the interpreter for programs, once, before the fork."""
    sys.set_int_max_str_digits(OWN_DIGITS)
    for set_names in (site.setquit, site.setcopyright, site.sethelper):
        set_names()  # -S leaves them out
    with suppress(locale.Error):  # a C library without it
        locale.setlocale(locale.LC_ALL, "")  # C.UTF-8, of which a program finds no file
    memory_files.install_event_loop()
    in_process.prepare()


def _end(room: mmap.mmap, status: str, text: str) -> NoReturn:
    """Send the last line, and leave without finalisers."""
    gc.disable()
    _send(room, f"{encode([status, text])}\n")
    os._exit(0)


def _send(room: mmap.mmap, line: str) -> None:
    try:
        room.write(line.encode())
    except ValueError:
        os._exit(FULL)


def calls(task: bytes, room: mmap.mmap) -> NoReturn:
    """Load the module, make the calls, report. The first eight bytes of `room` hold the number of
    the call that runs, from 1, so that the caller knows where a process was killed."""
    request = marshal.loads(task)
    streams = [memory_files.stream(n, memory_files.Nowhere(n)) for n in range(3)]
    _settle(streams, {}, request["recursion"])
    room.seek(wire.ROOM)
    try:
        module = type(sys)("solution")
        names = module.__dict__
        exec(compile(request["prelude"], "<prelude>", "exec", dont_inherit=True), names)
        test = request["test"] and in_process.Test(request["test"], request["entry"], names)
        sys.modules["solution"] = module
        entry = _load(request, names)
        if test:
            room[:8] = (1).to_bytes(8, "little")
            test.run(entry, names)
            _end(room, Status.OK, request["mark"])
    except BaseException as error:
        _end(room, Status.EXCEPTION, reason_of(error))
    for number, args in enumerate(marshal.loads(request["inputs"])):
        room[:8] = (number + 1).to_bytes(8, "little")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, request["limits"][number])
        try:
            value = entry(*args)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            sys.settrace(None)
            sys.setprofile(None)
            spent = time.process_time() - started
            name, digest, text, chars, floats = _describe(value, request["draw"])
            text = text if chars <= request["text_chars"] else None
            line = encode([name, digest, text, chars, floats])
            _send(room, f"{line[:-1]}, {spent:.9f}]\n")
        except BaseException as error:
            _end(room, Status.EXCEPTION, reason_of(error))
    _end(room, Status.OK, "")


def _load(request: dict[str, Any], names: dict[str, Any]) -> Any:
    """Execute the module in these names, and return the function to call."""
    code = compile(request["program"], "<program>", "exec", dont_inherit=True)
    if request["test"]:
        in_process.refuse_reaching(code)
    exec(code, names)
    if request["owner"] in names:
        return getattr(names[request["owner"]](), request["entry"])
    return names[request["entry"]]


def _describe(value: Any, draw: bool) -> tuple[str, str, str | None, int, bool]:
    """`describe` with room for deep values, whatever limits the program has set."""
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(OWN_DIGITS)
    sys.setrecursionlimit(max(depth, OWN_RECURSION))
    try:
        return describe(value, draw)
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


def script(task: bytes, room: mmap.mmap) -> NoReturn:
    """Run the script to its end. The first eight bytes of `room` hold its exit code, the following
    ones the exception that it raised."""
    request = marshal.loads(task)
    raw = (io.FileIO(n, mode, closefd=False) for n, mode in enumerate("rw"))
    streams = [memory_files.stream(n, file) for n, file in enumerate(raw)]
    streams.append(memory_files.stream(2, memory_files.Nowhere(2)))
    _settle(streams, request["files"], request["recursion"])
    sys.argv = ["solution.py"]
    main = type(sys)("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    code = 0
    try:
        exec(compile(request["prelude"], "<prelude>", "exec"), main.__dict__)
        exec(compile(request["program"], "<solution>", "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        room[:8] = (status & 0xFF).to_bytes(8, "little")
    except BaseException as error:
        name = type.__dict__["__name__"].__get__(type(error)).encode()[:200]
        room[8 : 8 + len(name)] = name
        code = RAISED
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # waits, as at an interpreter's end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, streams[1]):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # closed or replaced by the program
    os._exit(code)


def _settle(streams: list[Any], files: dict[str, bytes], recursion: int) -> None:
    """Prepare the modules for either kind of ordinary programs."""
    for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    time.sleep = in_process.own_function(_sleep, signal=signal, os=os, SPENT=SPENT)
    # Contest programs ask for a larger stack.
    resource.setrlimit = in_process.own_function(lambda *_: None)
    resource.getrlimit = in_process.own_function(lambda *_: (-1, -1))
    sys.modules["__main__"] = type(sys)("__main__")  # the real one leads to this module
    memory_files.install(files)
    sys.setrecursionlimit(recursion)
    gc.enable()


def _sleep(seconds: Any, /) -> None:
    """Take the time to sleep from the time limit of the call, without waiting."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    remaining = signal.getitimer(signal.ITIMER_PROF)[0] - seconds
    if remaining <= 0:
        os._exit(SPENT)
    signal.setitimer(signal.ITIMER_PROF, remaining)
