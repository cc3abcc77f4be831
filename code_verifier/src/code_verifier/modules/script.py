"""The child that runs a program as a script, with real pipes as its standard streams."""

from __future__ import annotations

import io
import os
import sys
import time

from code_verifier.modules.calls import Nowhere, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

RAISED = 73
"""Exit code of a script that ended with an exception; its type is in the shared memory."""


def serve(request: dict[str, Any], progress: Any) -> NoReturn:
    """Run the script to its end; never returns. `exit()` is an end like any other."""
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
        _join_threads()
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


def _join_threads() -> None:
    """As at the end of an interpreter: threads that are no daemons end first."""
    import threading

    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
