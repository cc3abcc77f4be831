"""What a confined process gives up at its start, once, for itself and the children it forks; and
the fork server, which forks a child for each request and says how that one ended.

What children do is up to `strict` and `ordinary`. A server serves until its standard input ends; a
child never outlives it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import struct
import sys

from code_verifier.errors import Status

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

libc = ctypes.PyDLL(None, use_errno=True)
_DEATH = tuple(ctypes.c_ulong(word) for word in (_PR_SET_PDEATHSIG, 9, 0, 0, 0))


class Filter(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.c_void_p))
    memory: Any
    """What `instructions` points to."""


def confine(
    jail_dir: str, memory: int, file_bytes: int = 0, user: int = _NOBODY
) -> dict[str, bool]:
    """Give up files, network, users and memory; which layers are active now.

    jail_dir: an empty folder, the root of this process from now on where that is allowed.
    memory: bytes of address space that a child may use beyond what this process has now.
    file_bytes: size of a file up to which this process may raise its limit of 0 bytes. user: what
    root becomes, if it can; else nobody.
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
    """Undo what the caller ignores or blocks. Ctrl-C in the caller must not reach this process."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def prctl(option: int, value: int, pointer: int = 0) -> bool:
    """Whether the kernel took the setting."""
    words = [ctypes.c_ulong(word) for word in (value, pointer, 0, 0)]
    return int(libc.prctl(option, *words)) == 0


def load_filter(instructions: bytes) -> Filter:
    """The filter as the kernel takes it."""
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = Filter(len(instructions) // 8, ctypes.addressof(memory))
    program.memory = memory
    return program


def install_filter(program: Filter) -> bool:
    """Put this process under the filter, for the rest of its life."""
    return prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(program))


def filter_works(program: Filter) -> bool:
    """Whether a child under the filter still lives to leave by itself."""
    pid = libc.fork()
    if pid == 0:
        os._exit(0 if install_filter(program) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def kill_session(pid: int) -> None:
    """Kill a child with its session; it may be too young to have one, or gone already."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
            return
        except OSError:
            continue


def disable_vdso() -> bool:
    """Make clock calls without a system call into system calls, here and in all children.

    The kernel maps code for reading clocks (the vDSO) into every process; no filter sees its use.
    Its functions are overwritten with the plain calls, which the filter of a child then refuses.
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


def leave_session(parent: int) -> None:
    """Give this child a session of its own, and have the kernel kill it when its parent ends."""
    os.setsid()
    libc.prctl(*_DEATH)
    if os.getppid() != parent:
        os._exit(1)


def hide_modules(names: tuple[str, ...]) -> None:
    """Have these packages look as if they had never been imported, and close the streams."""
    sys.stdin = sys.stdout = sys.stderr = None
    for name in list(sys.modules):
        if name.partition(".")[0] in names:
            del sys.modules[name]


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
    """Bytes of address space this process has now; a guess where /proc is missing."""
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


_THREADS = 64
_FIRST_USER = 1 << 30
"""The first of the users that are no one's, of which a server takes its own."""
NO_MEMORY = 71
"""Exit code of a child that ran out of memory."""


class ForkServer:
    """A confined process that starts children under its filters.

    config: `jail_dir` and `filters`, by name; none where the kernel has no seccomp. memory: bytes
    of address space that a child may use. hidden: packages that look never imported from now on.
    """

    def __init__(
        self, config: dict[str, Any], memory: int, hidden: tuple[str, ...], file_bytes: int = 0
    ) -> None:
        root = os.geteuid() == 0
        user = _FIRST_USER + os.getpid() if file_bytes else _NOBODY
        self.layers = confine(config["jail_dir"], memory, file_bytes, user)
        # Whether the kernel counts processes and threads for this server and its child alone.
        self.alone = os.geteuid() == user if root else self.layers["namespaces"]
        filters: dict[str, bytes] = config["filters"]
        self.filters = {name: load_filter(filter) for name, filter in filters.items()}
        if not all(map(filter_works, self.filters.values())):
            self.filters = {}
        self.layers["seccomp"] = bool(self.filters)
        hide_modules(hidden)
        self.memory = memory
        self.pid = os.getpid()

    def freeze(self) -> None:
        """Keep what is loaded out of the garbage collector's way, here and in the children."""
        gc.collect()
        gc.freeze()

    def fork(
        self,
        filter: str,
        cpu_s: float,
        hard_s: float,
        enter: Callable[[], None],
        run: Callable[[], None],
        threads: bool = False,
    ) -> int:
        """Fork a child; return its id, or a negative number when that failed.

        The child has a session of its own, gets its descriptors by `enter`, and does `run` under
        limits and the filter of this name. cpu_s: until its timer ends it, which a program may set
        anew; hard_s: until the kernel does. threads: whether it may have threads, 64 of them.
        """
        pid = int(libc.fork())
        if pid != 0:
            return pid
        try:
            leave_session(self.pid)
            enter()
            most = int(hard_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            if not (threads and self.filters):
                resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            elif self.alone:  # this server counts, too
                resource.setrlimit(resource.RLIMIT_NPROC, (_THREADS + 1, _THREADS + 1))
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            if self.filters and not install_filter(self.filters[filter]):
                raise OSError("the filter was refused")
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)  # the server is broken: the caller makes a new one
            os._exit(1)
        try:
            run()
        except MemoryError:
            os._exit(NO_MEMORY)
        finally:
            os._exit(1)

    def reap(self, pid: int, kill: bool, hard_s: float) -> tuple[str, str, int, float]:
        """Wait for a child, killed if need be: the status and the reason of its end as far as the
        kernel knows (`violation` if it left by itself), its exit code or signal, its processor
        seconds."""
        if kill:
            kill_session(pid)
        _, status, usage = os.wait4(pid, 0)
        spent = usage.ru_utime + usage.ru_stime
        code = abs(os.waitstatus_to_exitcode(status))
        return *self._ending(os.WIFSIGNALED(status), code, spent >= hard_s), code, spent

    def _ending(self, signalled: bool, code: int, late: bool) -> tuple[str, str]:
        if signalled and code == signal.SIGPROF:
            return Status.TIMEOUT, "used more processor time than the limit"
        if signalled and (code == signal.SIGXCPU or (code == signal.SIGKILL and late)):
            return Status.TIMEOUT, "used more processor time than the limit of it all"
        if signalled and code == signal.SIGSYS:
            return Status.VIOLATION, "made a system call that is not allowed"
        if signalled and code == signal.SIGKILL:
            return Status.MEMORY, "killed by the kernel, probably for lack of memory"
        if signalled:
            name = signal.Signals(code).name
            return Status.EXCEPTION, f"crashed with {name} (often by recursion without end)"
        if code == NO_MEMORY:
            return Status.MEMORY, f"used more than {self.memory >> 20} MiB of memory"
        return Status.VIOLATION, f"left without a result (exit code {code})"


def load_hashes() -> None:
    """Make every hash once: OpenSSL reads its settings from a file at the first use."""
    import hashlib

    for name in sorted(hashlib.algorithms_guaranteed):
        hashlib.new(name)
