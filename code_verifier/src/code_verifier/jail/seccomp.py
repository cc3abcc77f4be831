"""The system-call filter of a child: computing, sleeping, and writing to one descriptor.

A classic BPF program for `prctl(PR_SET_SECCOMP)`, for x86-64 and aarch64. Everything about
files fails with ENOENT, questions of identity and environment with EPERM; the rest kills.
"""

import ctypes
import errno
import platform
import sys
from dataclasses import dataclass

RESULT_FD = 3
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARG0, _ARG2 = 0, 4, 16, 32  # offsets in struct seccomp_data
_PROT_EXEC = 4
_X32_BIT = 0x40000000


@dataclass(frozen=True)
class Calls:
    """System-call numbers of one architecture, by what the filter does with them."""

    arch: int
    write: int
    no_exec: tuple[int, ...]  # mmap, mprotect: allowed unless they ask for executable memory
    allow: tuple[int, ...]
    missing: tuple[int, ...]  # ENOENT
    refused: tuple[int, ...]  # EPERM


TABLES = {
    "x86_64": Calls(
        arch=0xC000003E,
        write=1,
        no_exec=(9, 10),
        # munmap brk rt_sigprocmask rt_sigreturn sched_yield mremap madvise nanosleep exit
        # gettimeofday time futex clock_gettime clock_getres clock_nanosleep exit_group
        allow=(11, 12, 14, 15, 24, 25, 28, 35, 60, 96, 201, 202, 228, 229, 230, 231),
        # open stat lstat access getcwd readlink openat newfstatat readlinkat faccessat statx
        # openat2 faccessat2 getdents chdir mkdir unlink
        missing=(2, 4, 6, 21, 79, 89, 257, 262, 267, 269, 332, 437, 439, 78, 80, 83, 87),
        # read close fstat poll lseek rt_sigaction ioctl pipe dup dup2 getpid uname fcntl
        # getrlimit getrusage sysinfo times getuid getgid geteuid getegid getppid sigaltstack
        # gettid tkill sched_getaffinity tgkill pipe2 prlimit64 getrandom getcpu
        refused=(
            *(0, 3, 5, 7, 8, 13, 16, 22, 32, 33, 39, 63, 72, 97, 98, 99, 100, 102, 104, 107),
            *(108, 110, 131, 186, 200, 204, 234, 293, 302, 318, 309),
        ),
    ),
    "aarch64": Calls(
        arch=0xC00000B7,
        write=64,
        no_exec=(222, 226),
        # futex nanosleep exit exit_group clock_gettime clock_getres clock_nanosleep sched_yield
        # rt_sigprocmask rt_sigreturn gettimeofday brk munmap mremap madvise
        allow=(98, 101, 93, 94, 113, 114, 115, 124, 135, 139, 169, 214, 215, 216, 233),
        # getcwd mkdirat unlinkat faccessat chdir openat readlinkat newfstatat statx openat2
        # faccessat2 getdents64
        missing=(17, 34, 35, 48, 49, 56, 78, 79, 291, 437, 439, 61),
        # dup dup3 fcntl ioctl close pipe2 lseek read ppoll fstat sched_getaffinity tkill tgkill
        # sigaltstack rt_sigaction times uname getrlimit getrusage getcpu getpid getppid getuid
        # geteuid getgid getegid gettid sysinfo prlimit64 getrandom
        refused=(
            *(23, 24, 25, 29, 57, 59, 62, 63, 73, 80, 123, 130, 131, 132, 134, 153, 160, 163),
            *(165, 168, 172, 173, 174, 175, 176, 177, 178, 179, 261, 278),
        ),
    ),
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def build() -> Program | None:
    """The filter for this machine, or None where there is no table for it."""
    calls = TABLES.get(platform.machine())
    if calls is None or sys.platform != "linux" or sys.byteorder != "little":
        return None
    if sys.maxsize < 2**32:
        return None
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, calls.arch),
        (_RET, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if calls.arch == TABLES["x86_64"].arch:
        lines += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, _KILL)]
    lines += [  # write(3, ...) only: both halves of the 64-bit argument are compared.
        (_JEQ, 0, 6, calls.write),
        (_LOAD, 0, 0, _ARG0),
        (_JEQ, 0, 3, RESULT_FD),
        (_LOAD, 0, 0, _ARG0 + 4),
        (_JEQ, 0, 1, 0),
        (_RET, 0, 0, _ALLOW),
        (_RET, 0, 0, _ERRNO | errno.EPERM),
    ]
    for number in calls.no_exec:
        lines += [
            (_JEQ, 0, 4, number),
            (_LOAD, 0, 0, _ARG2),
            (_JSET, 0, 1, _PROT_EXEC),
            (_RET, 0, 0, _ERRNO | errno.EPERM),
            (_RET, 0, 0, _ALLOW),
        ]
    for numbers, result in (
        (calls.allow, _ALLOW),
        (calls.missing, _ERRNO | errno.ENOENT),
        (calls.refused, _ERRNO | errno.EPERM),
    ):
        for number in numbers:
            lines += [(_JEQ, 0, 1, number), (_RET, 0, 0, result)]
    lines.append((_RET, 0, 0, _KILL))
    array = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    return Program(len(lines), array)
