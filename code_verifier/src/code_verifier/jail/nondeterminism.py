"""What differs between the executions of one check: clocks and entropy (and `addresses`).

Both are made up, and the same for execution `index` at every check, so that a verdict depends
on the program alone.

Clocks: reading a clock needs no system call, so no filter sees it. The module `time` of a child
reads a counter instead, and the real clocks are out of reach (see `vdso.disable`). Every
fork server has its own start and its own pace; each reading moves all clocks on by about a
microsecond, and sleeping by the time slept, without waiting. A program whose clocks pass its limit
of time waits for its end.

Entropy: the seeds were searched so that the executions disagree early. In the first two,
`random() < 0.5`, `getrandbits(1)` and `choice` of two come out differently, the third starts with
a number below 0.0005, the fourth with one above 0.9995, the fifth and sixth with a normal deviate
beyond 2.5 on either side. `os.urandom` gives the second execution the complement of the first one's
bits, and so on in pairs.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STARTS = (  # seconds since 1970: year, month, day, weekday, half of the day and parities differ
    981_173_106,  # 2001-02-03 04:05:06
    2_172_692_837,  # 2038-11-06 20:27:17
    1_434_540_671,  # 2015-06-17 11:31:11
    1_798_761_599,  # 2026-12-31 23:59:59
    1_709_164_800,  # 2024-02-29 00:00:00
    1_891_864_443,  # 2029-12-13 13:34:03
    1_254_903_262,  # 2009-10-07 08:14:22
    2_533_992_090,  # 2050-04-19 17:21:30
)
_SECOND = 1_000_000_000
_STEP = 34_567_891  # about 400 days and 2 hours
_state = {"now": 0, "tick": 1000, "left": 10 * _SECOND}


def install_clocks(index: int, wall_s: float) -> None:
    """Give the module `time` of this process the clocks of execution `index`."""
    module: Any = time
    turn, place = divmod(index, len(STARTS))
    start = (STARTS[place] + turn * _STEP) * _SECOND
    _state["left"] = int(wall_s * _SECOND)
    _state["tick"] = 800 + 127 * index
    boot = 20_011 * 5 ** (index % len(STARTS)) * _SECOND + 104_729 * (index + 1)  # hours to years
    work = 31 * 1_000_000 * (index + 1) + 7 * index
    offsets = {
        "time": start,
        "monotonic": boot,
        "perf_counter": boot + 3 * work,
        "process_time": work,
        "thread_time": work // 2,
    }
    for name, offset in offsets.items():
        setattr(module, name, _clock(offset, seconds=True))
        setattr(module, f"{name}_ns", _clock(offset, seconds=False))
    for name in ("gmtime", "localtime", "ctime"):
        setattr(module, name, _of_now(getattr(time, name), module.time))
    module.asctime = _of_now(time.asctime, module.localtime)
    local, strftime = module.localtime, time.strftime

    def own_strftime(format: str, t: Any = None, /) -> str:
        return strftime(format, local() if t is None else t)

    def clock_gettime(clk_id: int, /) -> float:
        return float((module.time if clk_id in _REAL else module.monotonic)())

    def clock_gettime_ns(clk_id: int, /) -> int:
        return int((module.time_ns if clk_id in _REAL else module.monotonic_ns)())

    def sleep(seconds: float, /) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        _read(int(seconds * _SECOND))

    module.strftime, module.sleep = own_strftime, sleep
    module.clock_gettime, module.clock_gettime_ns = clock_gettime, clock_gettime_ns
    for name in ("clock_settime", "clock_settime_ns", "pthread_getcpuclockid"):
        if hasattr(module, name):
            delattr(module, name)


_REAL = frozenset({0, 5, 8, 11})  # CLOCK_REALTIME, _COARSE, _ALARM, CLOCK_TAI


def _read(step: int) -> int:
    now = _state["now"] + step + _state["tick"]
    _state["now"] = now
    if now > _state["left"]:
        import _thread

        lock = _thread.allocate_lock()
        lock.acquire()
        lock.acquire()  # until the limit of real time ends the process
    return now


def _clock(offset: int, seconds: bool) -> Callable[[], float]:
    def read() -> float:
        now = offset + _read(0)
        return now / _SECOND if seconds else now

    return read


def _of_now(function: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    def read(seconds: Any = None, /) -> Any:
        return function(now() if seconds is None else seconds)

    return read


SEEDS = (
    710_000_009, 820_000_001, 930_000_196, 140_001_062,
    250_000_189, 360_000_626, 470_000_002, 580_000_009,
)  # fmt: skip
_STRIDE = 1_000_003


def install_entropy(index: int) -> None:
    """Give `random` and `os.urandom`, where they are loaded, the entropy of execution `index`."""
    random: Any = sys.modules.get("random")
    if random is None:
        return
    turn, place = divmod(index, len(SEEDS))
    first = SEEDS[place] + turn
    real_seed = random.Random.seed
    turns = [0]

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        """Initialize internal state from a seed."""
        if a is None:
            a = first + _STRIDE * turns[0]
            turns[0] += 1
        real_seed(self, a, version)

    random.Random.seed = seed
    bits = random.Random(2 * (index // 2) + 1)
    flip = index % 2 * 0xFF

    def urandom(size: int, /) -> bytes:
        return bytes(byte ^ flip for byte in bits.randbytes(size))

    os: Any = sys.modules["os"]
    os.urandom = random._urandom = urandom
    random.seed = random._inst.seed
    random.seed()
