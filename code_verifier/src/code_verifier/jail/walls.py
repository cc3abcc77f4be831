"""The rights that a process gives up at its start, for itself and its children."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_FILTER = 2
_NOBODY = 65534
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # the same numbers on every architecture
_LANDLOCK_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))  # since version, rights to files
_CAPABILITY_VERSION = 0x20080522
_MEMORY_OF_OWN = 64 * 2**20

libc = ctypes.PyDLL(None, use_errno=True)
_DEATH = tuple(ctypes.c_ulong(word) for word in (_PR_SET_PDEATHSIG, 9, 0, 0, 0))


class Filter(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.c_void_p))
    memory: Any
    """What `instructions` points to."""
    call: Any
    """The arguments of the system call that installs it."""


def confine(
    jail_dir: str, memory: int, file_bytes: int = 0, user: int = _NOBODY
) -> dict[str, bool]:
    """Give up files, network, users and memory; return which layers are active.

    jail_dir: an empty folder, the new root of this process if the kernel allows it. memory: bytes
    of address space that a child may use beyond the present size. file_bytes: up to which this
    process may raise its limit of file sizes, which is 0. user: the user id that replaces root's;
    if it cannot, that of `nobody`.
    """
    space = _address_space() + memory
    os.chdir(jail_dir)
    spaces = _NEWNET | _NEWIPC | _NEWUTS | _NEWNS  # with a namespace of users if need be
    layers = {
        "namespaces": libc.unshare(spaces) == 0 or libc.unshare(spaces | _NEWUSER) == 0,
        "empty_root": _try(os.chroot, "."),
        "other_user": os.geteuid() != 0 or _try(_become, user) or _try(_become),
    }
    # A user namespace of its own gave this process all capabilities in it.
    libc.capset(struct.pack("<Ii", _CAPABILITY_VERSION, 0), bytes(24))
    layers["no_new_privs"] = prctl(_PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    layers["landlock"] = _landlock()
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    return layers


def reset_signals() -> None:
    """Restore signals that the caller ignores or blocks; ignore Ctrl-C, which is for the caller."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def prctl(option: int, value: int, pointer: int = 0) -> bool:
    """Return whether the kernel accepted the setting."""
    words = [ctypes.c_ulong(word) for word in (value, pointer, 0, 0)]
    return int(libc.prctl(option, *words)) == 0


def load_filter(instructions: bytes) -> Filter:
    """Return the filter in the form that the kernel takes."""
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = Filter(len(instructions) // 8, ctypes.addressof(memory))
    program.memory = memory
    words = (_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(program), 0, 0)
    program.call = tuple(map(ctypes.c_ulong, words))  # made before the fork, for speed
    return program


def install_filter(program: Filter) -> bool:
    """Put this process under the filter for good; return whether the kernel accepted it."""
    return int(libc.prctl(*program.call)) == 0


def filter_works(program: Filter) -> bool:
    """Return whether a child under the filter can end normally."""
    pid = libc.fork()
    if pid == 0:
        os._exit(0 if install_filter(program) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def kill_session(pid: int) -> None:
    """Kill a child with its session, if it has one yet, and if it still runs."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
            return
        except OSError:
            continue


def leave_session(parent: int) -> None:
    """Give this child a session of its own, and have the kernel kill it when its parent ends."""
    os.setsid()
    libc.prctl(*_DEATH)
    if os.getppid() != parent:
        os._exit(1)


def hide_modules(names: tuple[str, ...]) -> None:
    """Remove these packages from the imported modules, and close the streams."""
    sys.stdin = sys.stdout = sys.stderr = None
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
    for name in list(sys.modules):
        if name.partition(".")[0] in names:
            del sys.modules[name]


def changed(kind: type) -> None:
    """Tell the interpreter that a built-in type has been changed."""
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def all_types() -> set[type]:
    """Return every class of the process."""
    kinds: set[type] = set()
    rest: list[type] = [object]
    while rest:
        kind = rest.pop()
        if kind not in kinds:
            kinds.add(kind)
            rest += type.__subclasses__(kind)
    return kinds


def _become(user: int = _NOBODY) -> None:
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(user, user, user)


def _landlock() -> bool:
    """Deny all files, and network and signals where the kernel's version knows them."""
    syscall = libc.syscall
    version = int(syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    if version < 1:
        return False
    rights = max(bits for since, bits in _LANDLOCK_FILES if version >= since)
    fields = [(1 << rights) - 1]
    if version >= 4:
        fields.append(0b11)  # binding and connecting TCP
    if version >= 6:
        fields.append(0b11)  # abstract sockets and signals of others
    attributes = struct.pack(f"<{len(fields)}Q", *fields)
    size = ctypes.c_size_t(len(attributes))
    rules = int(syscall(_LANDLOCK_CREATE, attributes, size, ctypes.c_uint32(0)))
    if rules < 0:
        return False
    active = int(syscall(_LANDLOCK_RESTRICT, rules, ctypes.c_uint32(0))) == 0
    os.close(rules)
    return active


def _address_space() -> int:
    """Bytes of address space of this process; a guess without /proc."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize() + _MEMORY_OF_OWN // 16
    except (OSError, ValueError):
        return _MEMORY_OF_OWN * 4


def _try(function: Any, *arguments: Any) -> bool:
    try:
        function(*arguments)
    except OSError:
        return False
    return True
