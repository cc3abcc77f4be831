"""The rights that a process gives up at its start, for itself and its children."""

from __future__ import annotations

import ctypes
import os
import posix
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_FILTER = 2
_NOBODY = 65534
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # the same numbers on every architecture
_LANDLOCK_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))  # since version, rights to files
_CAPABILITY_VERSION = 0x20080522
_MEMORY_OF_OWN = 64 * 2**20
_STACK = 8 * 2**20  # Linux's default
# By number, because some builds of Python have no functions for them (conda's, older ones of uv).
_PIDFD_OPEN = 434  # the same on every architecture
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_F_SETFL = 4

libc = ctypes.PyDLL(None, use_errno=True)
_DEATH = tuple(ctypes.c_ulong(word) for word in (_PR_SET_PDEATHSIG, 9, 0, 0, 0))


class Filter(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.c_char_p))


def confine(folder: str, memory: int, file_bytes: int = 0, user: int = _NOBODY) -> dict[str, bool]:
    """Give up files, network, users and memory; return which layers are active.

    folder: is made, becomes the new root of this process if the kernel allows it, and is removed
    at once, here, as the caller may be killed. memory: bytes of address space that a child may use
    beyond the present size. file_bytes: up to which this process may raise its limit of file sizes,
    which is 0. user: the user id that replaces root's; if it cannot, that of `nobody`.
    """
    space = _address_space() + memory
    os.mkdir(folder)
    os.chmod(folder, 0o755)  # whatever the caller's mask
    os.chdir(os.path.dirname(folder))
    spaces = _NEWNET | _NEWIPC | _NEWUTS | _NEWNS  # with a namespace of users if need be
    layers = {"namespaces": libc.unshare(spaces) == 0 or libc.unshare(spaces | _NEWUSER) == 0}
    layers["empty_root"] = _try(os.chroot, folder)
    if layers["empty_root"]:
        _try(os.rmdir, os.path.basename(folder))  # from outside, where this process still is
        os.chdir("/")
    else:
        os.chdir(folder)
        _try(os.rmdir, folder)
    layers["other_user"] = os.geteuid() != 0 or _try(_become, user) or _try(_become)
    # A user namespace of its own gave this process all capabilities in it.
    libc.capset(struct.pack("<Ii", _CAPABILITY_VERSION, 0), bytes(24))
    layers["no_new_privs"] = prctl(_PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    layers["landlock"] = _landlock()
    limit(resource.RLIMIT_AS, space, space)
    limit(resource.RLIMIT_FSIZE, 0, file_bytes)
    limit(resource.RLIMIT_CORE, 0, 0)
    limit(resource.RLIMIT_NOFILE, 16, 16)
    limit(resource.RLIMIT_STACK, _STACK, resource.getrlimit(resource.RLIMIT_STACK)[1])
    return layers


def limit(kind: int, soft: int, hard: int) -> None:
    """Set a resource limit, or the hard limit that is there if it is lower (`ulimit -v`)."""
    resource.setrlimit(kind, (cap(kind, soft), cap(kind, hard)))


def cap(kind: int, value: int) -> int:
    """Return the value, or the hard limit of this resource if that is lower."""
    most = resource.getrlimit(kind)[1]
    return value if most == resource.RLIM_INFINITY else min(value, most)


def fork() -> int:
    """Fork this process. Raises OSError."""
    pid = int(libc.fork())
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot fork: {os.strerror(number)}")
    return pid


def watch_process(pid: int) -> int:
    """Return a descriptor, readable once the process has ended; -1 where the kernel gives none."""
    return int(libc.syscall(ctypes.c_long(_PIDFD_OPEN), ctypes.c_int(pid), ctypes.c_uint(0)))


def nameless_file(path: str) -> int:
    """Return a descriptor of an empty file: in memory or, where that is refused, at this path."""
    number = ctypes.c_long(_MEMFD_CREATE.get(os.uname().machine, -1))
    file = int(libc.syscall(number, b"stdin", ctypes.c_uint(1)))
    if file < 0:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    return file


def empty(file: int) -> int:
    """Empty a file that an earlier child had, which may have set its flags; return another
    descriptor of it."""
    libc.fcntl(file, _F_SETFL, os.O_RDWR)
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    return os.dup(file)


def forget(variables: tuple[str, ...]) -> None:
    """Remove variables from the environment of this process, and their values from its memory."""
    libc.getenv.restype = ctypes.c_void_p
    for name in variables:
        if place := libc.getenv(name.encode()):
            ctypes.memset(place, 0, len(ctypes.string_at(place)))
        os.environ.pop(name, None)
        posix.environ.pop(name.encode(), None)


def complain(error: BaseException) -> None:
    """Write type and message of an error for the caller, which reads the last line."""
    words = f"{type(error).__name__}: {error}".removesuffix(": ")
    _try(os.write, 2, f"{words}\n".encode("utf-8", "replace"))


def reset_signals() -> None:
    """Restore signals that the caller ignores or blocks; ignore Ctrl-C, which is for the caller."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        _try(signal.signal, number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def prctl(option: int, value: int) -> bool:
    """Return whether the kernel accepted the setting."""
    return int(libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))) == 0


def load_filter(instructions: bytes) -> tuple[Any, ...]:
    """Return the system call that installs a filter; made before the fork, for speed."""
    set_filter, zero = ctypes.c_ulong(_PR_SET_SECCOMP), ctypes.c_ulong(0)
    program = ctypes.byref(Filter(len(instructions) // 8, instructions))
    return set_filter, ctypes.c_ulong(_SECCOMP_FILTER), program, zero, zero


def install_filter(call: tuple[Any, ...]) -> bool:
    """Put this process under the filter for good; return whether the kernel accepted it."""
    return int(libc.prctl(*call)) == 0


def succeeds(function: Callable[..., bool], *arguments: object) -> bool:
    """Return whether a function returns true in a child, which then ends normally."""
    pid = fork()
    if pid == 0:
        os._exit(0 if function(*arguments) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def kill_session(pid: int) -> None:
    """Kill a child with its session, if it has one yet, and if it still runs."""
    if not _try(os.killpg, pid, signal.SIGKILL):
        _try(os.kill, pid, signal.SIGKILL)


def die_with(parent: int) -> None:
    """Have the kernel kill this child when its parent ends."""
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


def mark_changed(kind: type) -> None:
    """Tell the interpreter that a built-in type has been changed."""
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


IMMUTABLE = 1 << 8
"""The flag of types whose attributes cannot be set."""


def flags_of(kinds: set[type]) -> list[Any]:
    """Return the flags of those types whose attributes can be set, where they lie in memory; none
    where the interpreter does not keep them as CPython does."""
    word = ctypes.c_ulong
    samples = (int, bool, list, TypeError)
    for place in range(0, object.__basicsize__ + 256, ctypes.sizeof(word)):
        if all(word.from_address(id(k) + place).value == k.__flags__ for k in samples):
            return [word.from_address(id(k) + place) for k in kinds if not k.__flags__ & IMMUTABLE]
    return []


def all_types() -> set[type]:
    """Return every class of the process."""
    kinds: set[type] = set()
    stack: list[type] = [object]
    while stack:
        kind = stack.pop()
        if kind not in kinds:
            kinds.add(kind)
            stack += type.__subclasses__(kind)
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
    except (OSError, ValueError):
        return False
    return True
