"""The fork server: it confines itself, forks a child for each request, and says how that one ended.

What its children do is up to `strict` and `ordinary`. It serves until its standard input ends; a
child never outlives it.
"""

from __future__ import annotations

import os
import resource
import signal

from code_verifier.errors import Status
from code_verifier.jail import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_THREADS = 64
_NOBODY, _FIRST = 65534, 1 << 30
"""Users: nobody, and the first of those that are no one's, of which a server takes its own."""
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
        user = _FIRST + os.getpid() if file_bytes else _NOBODY
        self.layers = confine.confine(config["jail_dir"], memory, file_bytes, user)
        # Whether the kernel counts processes and threads for this server and its child alone.
        self.alone = os.geteuid() == user if root else self.layers["namespaces"]
        filters: dict[str, bytes] = config["filters"]
        self.filters = {name: confine.load_filter(filter) for name, filter in filters.items()}
        if not all(map(confine.filter_works, self.filters.values())):
            self.filters = {}
        self.layers["seccomp"] = bool(self.filters)
        confine.hide_modules(hidden)
        self.memory = memory
        self.pid = os.getpid()

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
        pid = int(confine.libc.fork())
        if pid != 0:
            return pid
        try:
            confine.leave_session(self.pid)
            enter()
            most = int(hard_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            if not (threads and self.filters):
                resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            elif self.alone:  # this server counts, too
                resource.setrlimit(resource.RLIMIT_NPROC, (_THREADS + 1, _THREADS + 1))
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            if self.filters and not confine.install_filter(self.filters[filter]):
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
            confine.kill_session(pid)
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
