"""How every command ends: 0 done, 1 the work found a problem or was stopped, 2 wrong usage or
unusable input, 130 interrupted. What is to be said of it is one line on standard error."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec

from code_verifier.commands.terminal import tell
from code_verifier.errors import CodeVerifierError, SandboxUnavailable

_P = ParamSpec("_P")
_WRONG_PATH = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class Stopped(KeyboardInterrupt):
    """A TERM or HUP signal asked the command to end."""


def exit_code(command: Callable[_P, int]) -> Callable[_P, None]:
    """Make the command end with the code it returns, or with the one of its error."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            with _signals():
                code = command(*args, **kwargs)
        except CodeVerifierError as error:
            tell(f"error: {error}")
            code = 1 if isinstance(error, SandboxUnavailable) else 2
        except KeyboardInterrupt as stop:
            tell("interrupted; finished results are kept")
            code = 1 if isinstance(stop, Stopped) else 130
        except BrokenPipeError:  # whoever read the output went away
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nothing to flush at the end)
            code = 1
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            tell(f"error: {place}{error.strerror or error}")
            code = 2 if isinstance(error, _WRONG_PATH) else 1
        sys.exit(code)

    return wrapped


@contextmanager
def _signals() -> Iterator[None]:
    """Let TERM and HUP end the work as an interrupt does."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
