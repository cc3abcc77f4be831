"""The code for reading clocks that the kernel maps into every process (the vDSO).

No filter sees its use. So its functions are overwritten with the plain system calls, which the
filter of a child then refuses.
"""

from __future__ import annotations

import ctypes
import os
import struct

from code_verifier.jail.confine import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READ, _WRITE, _EXECUTE = 1, 2, 4
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
"""What the kernel's functions of each machine become: plain system calls."""


def disable() -> bool:
    """Make clock calls without a system call into system calls, here and in all children.

    Returns whether all that were found are system calls now.
    """
    libc.getauxval.restype = ctypes.c_ulong
    base, clocks = libc.getauxval(ctypes.c_ulong(_AT_SYSINFO_EHDR)), _CLOCKS.get(os.uname().machine)
    if not base or clocks is None:
        return clocks is not None  # without such code every clock call is a system call
    try:
        image: Any = ctypes.CDLL("linux-vdso.so.1", os.RTLD_NOLOAD)
    except OSError:
        return False  # a C library that does not know it
    table, entry, count = struct.unpack("<Q14xHH", ctypes.string_at(base + 32, 26))
    places = range(base + table, base + table + entry * count, entry)
    parts = [struct.unpack("<IIQQQQQQ", ctypes.string_at(place, 56)) for place in places]
    size = max(part[3] + part[6] for part in parts if part[0] == _PT_LOAD)
    pages = ctypes.c_void_p(base), ctypes.c_size_t(size)
    if libc.mprotect(*pages, _READ | _WRITE | _EXECUTE) != 0:
        return False
    for name, code in clocks.items():
        if hasattr(image, name):
            ctypes.memmove(getattr(image, name), code, len(code))
    libc.mprotect(*pages, _READ | _EXECUTE)
    return True
