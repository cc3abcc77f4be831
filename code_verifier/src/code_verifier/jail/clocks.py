"""Simulated clocks of strict programs: the same for execution `index` of every check, so that a
verdict depends on the program alone, and different in each execution, so that outputs that depend
on them differ.

The module `time` of a child reads a counter. Each reading advances it by about a microsecond, and
sleeping by the time to sleep, without waiting. Every server has its own start and speed. A program
whose clocks pass its time limit blocks until it is killed. The real clocks are out of reach.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time

from code_verifier.jail.walls import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STARTS = (
    1_350_736_247, 1_609_477_260, 2_249_885_228, 1_652_454_133, 1_788_975_185, 1_735_604_148,
    987_933_570, 1_881_270_017, 1_181_283_994, 1_909_592_579, 2_876_953_855, 2_540_059_916,
    1_835_448_264, 957_411_929, 1_268_653_081, 2_142_770_022,
)  # fmt: skip
"""Seconds since 1970, searched: they show every weekday and month, no hour, minute, second, day of
the month or year twice, a leap day and a year's end. The first two differ in all that has two
sides: parities, halves and working days."""
_SECOND = 1_000_000_000
_FRACTION = 618_033_988  # of a second, the golden ratio: even, for the parity is the tick's
_state = {"now": 0, "tick": 1000, "left": 10 * _SECOND}


def install(index: int, wall_s: float) -> None:
    """Give the module `time` of this process the clocks of execution `index`."""
    module: Any = time
    start = STARTS[index] * _SECOND + index * _FRACTION % _SECOND
    _state["left"] = int(wall_s * _SECOND)
    _state["tick"] = 800 + 127 * index
    boot = 20_011 * 5 ** (index % 8) * _SECOND + 104_729 * (index + 1)  # hours to years
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


_READABLE, _WRITABLE, _EXECUTABLE = 1, 2, 4
_AT_SYSINFO_EHDR, _PT_LOAD = 33, 1
_X86 = {"clock_gettime": 228, "clock_getres": 229, "gettimeofday": 96, "time": 201, "getcpu": 309}
_ARM = {"clock_gettime": 113, "clock_getres": 114, "gettimeofday": 169}
_CLOCKS = {
    "x86_64": {  # endbr64; mov eax, number; syscall; ret
        f"__vdso_{name}": b"\xf3\x0f\x1e\xfa\xb8" + struct.pack("<I", number) + b"\x0f\x05\xc3"
        for name, number in _X86.items()
    },
    "aarch64": {  # mov x8, number; svc 0; ret
        f"__kernel_{name}": struct.pack("<III", 0xD2800008 | number << 5, 0xD4000001, 0xD65F03C0)
        for name, number in _ARM.items()
    },
}
"""Machine code that replaces the kernel's functions: plain system calls."""


def find_vdso() -> tuple[int, int]:
    """Return address and size of the kernel's code for reading clocks without a system call (the
    vDSO); zeros if there is none, and for unknown machines."""
    libc.getauxval.restype = ctypes.c_ulong
    base = libc.getauxval(ctypes.c_ulong(_AT_SYSINFO_EHDR))
    if not base or os.uname().machine not in _CLOCKS:
        return 0, 0
    table, entry, count = struct.unpack("<Q14xHH", ctypes.string_at(base + 32, 26))
    places = range(base + table, base + table + entry * count, entry)
    parts = [struct.unpack("<IIQQQQQQ", ctypes.string_at(place, 56)) for place in places]
    return base, max(part[3] + part[6] for part in parts if part[0] == _PT_LOAD)


def disable_vdso(base: int, size: int) -> bool:
    """Overwrite the vDSO, which no filter sees, with plain system calls, which a child's filter
    refuses; here and in all children. Returns whether all functions that exist are system calls
    now."""
    clocks = _CLOCKS.get(os.uname().machine)
    if not base or clocks is None:
        return clocks is not None  # without such code every clock call is a system call
    try:
        image: Any = ctypes.CDLL("linux-vdso.so.1", os.RTLD_NOLOAD)
    except OSError:
        return False  # a C library that does not know it
    pages = ctypes.c_void_p(base), ctypes.c_size_t(size)
    if libc.mprotect(*pages, _READABLE | _WRITABLE | _EXECUTABLE) != 0:
        return False
    for name, code in clocks.items():
        if hasattr(image, name):
            ctypes.memmove(getattr(image, name), code, len(code))
    libc.mprotect(*pages, _READABLE | _EXECUTABLE)
    return True


def unmap_vdso(base: int, size: int) -> bool:
    """Remove the vDSO from this process, in which reading a clock then is a crash; return whether
    the kernel let it go. For children, where it cannot be overwritten."""
    return size > 0 and libc.munmap(ctypes.c_void_p(base), ctypes.c_size_t(size)) == 0
