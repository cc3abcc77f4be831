"""Clocks and entropy that differ between the executions of one check.

Clock calls need no system call, so no filter sees them. Each fork server shifts every clock by
an amount of its own (an odd number of seconds that changes the year, weekday, hour, minute and
second), and the pure-Python `datetime` reads the shifted clock.
"""

import random
import time
from collections.abc import Callable
from typing import Any

STEP_S = 34_567_891  # about 400 days and 2 hours


def shift(server: int) -> None:
    """Shift the clocks of this process by `server` steps."""
    seconds = server * STEP_S
    nanoseconds = seconds * 1_000_000_000
    module: Any = time
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(module, name, _shifted(getattr(time, name), float(seconds)))
        setattr(module, f"{name}_ns", _shifted(getattr(time, f"{name}_ns"), nanoseconds))
    now = time.time
    for name in ("gmtime", "localtime", "ctime"):
        setattr(module, name, _of_now(getattr(time, name), now))
    local = time.localtime
    asctime, strftime = time.asctime, time.strftime

    def shifted_asctime(t: Any = None, /) -> str:
        return asctime(local() if t is None else t)

    def shifted_strftime(format: str, t: Any = None, /) -> str:
        return strftime(format, local() if t is None else t)

    module.asctime, module.strftime = shifted_asctime, shifted_strftime


def reseed(entropy: bytes) -> None:
    """Give the shared generator of `random` a state of this execution's own."""
    random.seed(int.from_bytes(entropy, "little"))


def _shifted(function: Callable[[], Any], amount: float) -> Callable[[], Any]:
    def read() -> Any:
        return function() + amount

    return read


def _of_now(function: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    def read(seconds: Any = None, /) -> Any:
        return function(now() if seconds is None else seconds)

    return read
