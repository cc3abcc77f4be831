"""The system-call filters: they allow computing, and the descriptors that a process keeps.

A filter is a classic BPF program for x86-64 and aarch64, as the bytes that the kernel takes. It
finds the number of a call by a binary tree, which makes installing it cheap. Calls that Python
itself may make on descriptors, signals or clocks fail with EPERM; others, files first of all, kill.
"""

import errno
import platform
import struct
import sys
from itertools import groupby

_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _JEQ, _JGE, _JSET, _JUMP, _RET = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32  # offsets in struct seccomp_data
_PROT_EXEC = 4
_CLONE_THREAD = 0x10000
_X32_BIT = 0x40000000
_F_SETFL = 4
_LAST = 1024
_INSTRUCTION = struct.Struct("<HBBI")

_Line = tuple[int, int, int, int]


_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES = {
    "x86_64": {
        "read": (0,),
        "write": (1,),
        # mmap mprotect, of memory that is not to be executed
        "no_exec": (9, 10),
        # munmap brk rt_sigprocmask rt_sigreturn sched_yield mremap madvise nanosleep exit futex
        # clock_nanosleep exit_group getrandom
        "allow": (11, 12, 14, 15, 24, 25, 28, 35, 60, 202, 230, 231, 318),
        # close fstat poll lseek ioctl fcntl rt_sigaction sigaltstack gettimeofday time
        # clock_gettime clock_getres
        "refuse": (3, 5, 7, 8, 16, 72, 13, 131, 96, 201, 228, 229),
        # getitimer getpid gettid sched_getaffinity set_robust_list rseq
        "ordinary": (36, 39, 186, 204, 273, 334),
        "setitimer": (38,),
        "fcntl": (72,),
        "clone": (56,),
        "clone3": (435,),
    },
    "aarch64": {
        "read": (63,),
        "write": (64,),
        "no_exec": (222, 226),
        # futex nanosleep exit exit_group clock_nanosleep sched_yield rt_sigprocmask rt_sigreturn
        # brk munmap mremap madvise getrandom
        "allow": (98, 101, 93, 94, 115, 124, 135, 139, 214, 215, 216, 233, 278),
        # close fstat ppoll lseek ioctl fcntl rt_sigaction sigaltstack gettimeofday
        # clock_gettime clock_getres
        "refuse": (57, 80, 73, 62, 29, 25, 134, 132, 169, 113, 114),
        # getitimer getpid gettid sched_getaffinity set_robust_list rseq
        "ordinary": (102, 172, 178, 123, 99, 293),
        "setitimer": (103,),
        "fcntl": (25,),
        "clone": (220,),
        "clone3": (435,),
    },
}
"""System-call numbers of each architecture, by the rule of the filters."""


def build(
    write_fd: int | None = None,
    read_fd: int | None = None,
    machine: str | None = None,
    mild: bool = False,
    timer: bool = False,
) -> bytes | None:
    """Return the filter (an array of struct sock_filter), or None for an unknown machine.

    write_fd, read_fd: the descriptors that may be written and read. machine: as
    `platform.machine()` gives it; this one by default. mild: for ordinary programs, which may have
    threads, clocks and timers, and to which the rest fails with EPERM instead of killing. timer:
    allow setitimer, by which a process limits its own work.
    """
    name = machine if machine is not None else platform.machine()
    calls = TABLES.get(name)
    fits = sys.platform == "linux" and sys.byteorder == "little" and sys.maxsize > 2**32
    if calls is None or not fits:
        return None
    rules = {
        "allow": _ALLOWED,
        "refuse": _REFUSED,
        "no_exec": _NOT_EXECUTABLE,
        "write": _REFUSED if write_fd is None else _only(write_fd),
        "read": _REFUSED if read_fd is None else _only(read_fd),
    }
    if mild:
        rules |= {"refuse": _ALLOWED, "ordinary": _ALLOWED, "fcntl": _FLAGS}
        rules |= {"clone": _THREAD, "clone3": [(_RET, 0, 0, _ERRNO | errno.ENOSYS)]}
    if mild or timer:
        rules["setitimer"] = _ALLOWED
    leaves = {number: leaf for rule, leaf in rules.items() for number in calls[rule]}
    lines: list[_Line] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, _ARCHES[name]),
        (_RET, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if name == "x86_64":
        lines += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, _KILL)]
    lines += _tree(_ranges(leaves, _ERRNO | errno.EPERM if mild else _KILL))
    return b"".join(_INSTRUCTION.pack(*line) for line in lines)


_ALLOWED: list[_Line] = [(_RET, 0, 0, _ALLOW)]
_REFUSED: list[_Line] = [(_RET, 0, 0, _ERRNO | errno.EPERM)]
_NOT_EXECUTABLE = [(_LOAD, 0, 0, _ARG2), (_JSET, 0, 1, _PROT_EXEC), *_REFUSED, *_ALLOWED]


# The C library tries clone3 first, whose flags lie in memory, out of a filter's sight.
_THREAD = [(_LOAD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_THREAD), *_ALLOWED, *_REFUSED]
# F_DUPFD to F_SETFL. The commands above name an owner of the descriptor, a process of the program's
# choice that the kernel then sends signals of its choice.
_FLAGS = [(_LOAD, 0, 0, _ARG1), (_JGE, 0, 1, _F_SETFL + 1), *_REFUSED, *_ALLOWED]


def _only(fd: int) -> list[_Line]:
    """Allow a call on one descriptor: both halves of the 64-bit argument are compared."""
    return [
        (_LOAD, 0, 0, _ARG0),
        (_JEQ, 0, 3, fd),
        (_LOAD, 0, 0, _ARG0 + 4),
        (_JEQ, 0, 1, 0),
        *_ALLOWED,
        *_REFUSED,
    ]


def _ranges(leaves: dict[int, list[_Line]], other: int) -> list[tuple[int, list[_Line]]]:
    """First number and leaf of every range of numbers with the same rule."""
    rest = [(_RET, 0, 0, other)]
    alike = groupby(range(_LAST), key=lambda number: leaves.get(number, rest))
    return [(next(numbers), leaf) for leaf, numbers in alike]


def _tree(ranges: list[tuple[int, list[_Line]]]) -> list[_Line]:
    """A search tree over the ranges; a jump over more than 255 lines takes another instruction."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    low, high = _tree(ranges[:middle]), _tree(ranges[middle:])
    first = ranges[middle][0]
    if len(low) < 256:
        return [(_JGE, len(low), 0, first), *low, *high]
    return [(_JGE, 0, 1, first), (_JUMP, 0, 0, len(low)), *low, *high]
