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
_CALLS = {
    "read": "read:0:63",
    "write": "write:1:64",
    # Of memory that is not to be executed.
    "no_exec": "mmap:9:222 mprotect:10:226",
    "allow": "munmap:11:215 brk:12:214 rt_sigprocmask:14:135 rt_sigreturn:15:139 nanosleep:35:101 "
    "mremap:25:216 madvise:28:233 sched_yield:24:124 exit:60:93 futex:202:98 exit_group:231:94 "
    "clock_nanosleep:230:115 getrandom:318:278",
    "refuse": "close:3:57 fstat:5:80 poll:7: ppoll::73 lseek:8:62 ioctl:16:29 fcntl:72:25 "
    "rt_sigaction:13:134 sigaltstack:131:132 time:201: gettimeofday:96:169 clock_gettime:228:113 "
    "clock_getres:229:114",
    "ordinary": "getitimer:36:102 getpid:39:172 gettid:186:178 sched_getaffinity:204:123 "
    "set_robust_list:273:99 rseq:334:293",
    "setitimer": "setitimer:38:103",
    "fcntl": "fcntl:72:25",
    "clone": "clone:56:220",
    "clone3": "clone3:435:435",
}
"""System calls by the rule of the filters, each with its number on the two architectures."""
TABLES = {
    machine: {
        rule: tuple(int(n) for call in calls.split() if (n := call.split(":")[place]))
        for rule, calls in _CALLS.items()
    }
    for place, machine in enumerate(_ARCHES, 1)
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
    other = [(_RET, 0, 0, _ERRNO | errno.EPERM if mild else _KILL)]
    alike = groupby(range(_LAST), key=lambda number: leaves.get(number, other))
    lines += _tree([(next(numbers), leaf) for leaf, numbers in alike])
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


def _tree(ranges: list[tuple[int, list[_Line]]]) -> list[_Line]:
    """A search tree over the ranges of numbers with the same rule, each its first number and its
    leaf; a jump over more than 255 lines takes another instruction."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    low, high = _tree(ranges[:middle]), _tree(ranges[middle:])
    first = ranges[middle][0]
    if len(low) < 256:
        return [(_JGE, len(low), 0, first), *low, *high]
    return [(_JGE, 0, 1, first), (_JUMP, 0, 0, len(low)), *low, *high]
