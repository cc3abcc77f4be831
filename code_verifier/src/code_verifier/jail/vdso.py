"""Clock calls without a system call, made into system calls (ELF64).

The kernel maps code for reading clocks (the vDSO) into every process; no filter sees its use. Its
functions are overwritten, in this process and the children it forks, with the plain system calls,
which the filter of a child then refuses.
"""

from __future__ import annotations

import ctypes
import os
import struct

_AT_SYSINFO_EHDR = 33
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB = 4, 5, 6
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PAGE = 4096
_X86 = {"clock_gettime": 228, "clock_getres": 229, "gettimeofday": 96, "time": 201, "getcpu": 309}
_ARM = {"clock_gettime": 113, "clock_getres": 114, "gettimeofday": 169}


def _x86_code(number: int) -> bytes:
    """endbr64; mov eax, number; syscall; ret"""
    return b"\xf3\x0f\x1e\xfa\xb8" + struct.pack("<I", number) + b"\x0f\x05\xc3"


def _arm_code(number: int) -> bytes:
    """mov x8, number; svc 0; ret"""
    return struct.pack("<III", 0xD2800008 | number << 5, 0xD4000001, 0xD65F03C0)


def disable() -> bool:
    """Overwrite the clock functions; whether all that were found are now system calls."""
    machine = os.uname().machine
    if machine == "x86_64":
        numbers, code = {f"__vdso_{name}": call for name, call in _X86.items()}, _x86_code
    elif machine == "aarch64":
        numbers, code = {f"__kernel_{name}": call for name, call in _ARM.items()}, _arm_code
    else:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getauxval.restype = ctypes.c_ulong
    base = int(libc.getauxval(ctypes.c_ulong(_AT_SYSINFO_EHDR)))
    if not base:
        return True  # a kernel without a vDSO: every clock call is a system call
    size, symbols = _symbols(base)
    pages = ctypes.c_void_p(base), ctypes.c_size_t(-(-size // _PAGE) * _PAGE)
    if libc.mprotect(*pages, _READ | _WRITE | _EXECUTE) != 0:
        return False
    for name, offset in symbols.items():
        if name in numbers:
            text = code(numbers[name])
            ctypes.memmove(base + offset, text, len(text))
    libc.mprotect(*pages, _READ | _EXECUTE)
    return True


def _symbols(base: int) -> tuple[int, dict[str, int]]:
    """Size of the image in memory, and offset of every dynamic symbol."""
    header = ctypes.string_at(base, 64)
    (table,) = struct.unpack_from("<Q", header, 32)
    entry, count = struct.unpack_from("<HH", header, 54)
    size = dynamic = 0
    for index in range(count):
        segment = ctypes.string_at(base + table + index * entry, entry)
        kind, _, _, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", segment)
        if kind == _PT_LOAD:
            size = max(size, address + length)
        elif kind == _PT_DYNAMIC:
            dynamic = address
    tags = {}
    while True:
        tag, value = struct.unpack("<QQ", ctypes.string_at(base + dynamic, 16))
        if tag == 0:
            break
        tags[tag] = value
        dynamic += 16
    names, symbols = tags[_DT_STRTAB], tags[_DT_SYMTAB]
    if _DT_HASH in tags:  # without it there are as many as lie before the names
        total = int(struct.unpack("<II", ctypes.string_at(base + tags[_DT_HASH], 8))[1])
    else:
        total = max(0, names - symbols) // 24
    offsets = {}
    for index in range(total):
        name, _, _, _, offset, _ = struct.unpack(
            "<IBBHQQ", ctypes.string_at(base + symbols + 24 * index, 24)
        )
        if offset:
            offsets[ctypes.string_at(base + names + name).decode()] = offset
    return size, offsets
