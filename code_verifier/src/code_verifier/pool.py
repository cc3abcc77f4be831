"""The pool of processes that a sandbox keeps: started when first needed, and replaced when they
break."""

import marshal
import os
import tempfile
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail.wire import READER, REPLY, STATUSES, frame
from code_verifier.process import DOCTOR, OUT_OF_BUDGET, Order, Process, ProcessLost, Profile, Reply

REQUIRED_LAYERS = ("seccomp", "no_new_privs")
DETERMINISM = {
    "addresses": "a program that can reach chance or makes texts of values is refused even if all "
    "executions agree, because they see much the same addresses",
    "clocks": "a program that gets round the simulated clocks can read the real ones, and be "
    "accepted by chance",
}
"""Layers of strict servers without which chance may decide, and what follows."""
_PATIENCE_S = 0.05  # about the time to start a process


class Pool:
    """Fork servers by profile, each used by one thread at a time and started when first used.

    slots: makes the semaphore that an execution holds, again after a fork. most: processes to keep.
    """

    def __init__(
        self,
        slots: Callable[[], AbstractContextManager[object]],
        allow_weak: bool,
        most: int = 1 << 10,
    ) -> None:
        self._new_slots = slots
        self._allow_weak = allow_weak
        self._most = most
        self._closed = False
        with suppress(OSError):
            # Here, and not first in a thread: `tempfile` holds a lock while it looks for its folder
            # and makes its source of names, and a fork at that time would wait for it for good.
            tempfile.mktemp()  # a name that is not used
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._lent: Counter[Profile] = Counter()
        self._slots = self._new_slots()
        self._idle: list[tuple[Profile, Process]] = []  # used last, last
        self._all: set[Process] = set()

    def ask(self, profile: Profile, order: Order, task: bytes, grace_s: float) -> Reply:
        """Return the reply to a request; if a server is lost, ask a new one, once. grace_s: seconds
        until a server counts as lost. Raises ProcessLost, SandboxUnavailable."""
        request = frame(marshal.dumps(vars(order))) + frame(task)
        try:
            with self._lend(profile) as process:
                reply = process.ask(request, time.monotonic() + grace_s)
        except ProcessLost as error:  # the idle ones may be lost, too
            if error.code == OUT_OF_BUDGET:
                raise  # it would happen again
            with self._lend(profile, fresh=True) as process:
                reply = process.ask(request, time.monotonic() + grace_s)
        status, flags, number, cpu_s, wall_ms, size = REPLY.unpack_from(reply)
        start = REPLY.size + size
        reason = reply[REPLY.size : start].decode("utf-8", "replace")
        numbers = flags, number, cpu_s, wall_ms
        return Reply(STATUSES[status], *numbers, reason, reply[start:])

    def layers(self, profile: Profile) -> dict[str, bool]:
        """Return the protection layers that a server of this profile reports."""
        with self._lend(profile) as server:
            return dict(server.layers)

    def pids(self) -> list[int]:
        """Return the ids of the running processes."""
        with self._lock:
            return [pid for process in self._all if (pid := process.pid) and process.alive]

    def close(self) -> None:
        """End all processes. A thread that still waits for one gets SandboxUnavailable."""
        self._closed = True
        self._end_idle()
        with self._lock:
            running = list(self._all)
        for process in running:
            process.end()

    def forget(self) -> None:
        """Forget all processes after a fork: they belong to the parent."""
        for process in self._all:
            process.abandon()
        self._reset()

    @contextmanager
    def _lend(self, profile: Profile, fresh: bool = False) -> Iterator[Process]:
        """Lend a process, and hold a slot for it, unless it is the reader."""
        with nullcontext() if profile.kind == READER else self._slots:
            process = self._take(profile, fresh)
            try:
                if process.pid is None:
                    self._start(process)
                self._inspect(process)
                yield process
            except ProcessLost:
                if self._closed:
                    raise SandboxUnavailable(_CLOSED) from None
                raise
            finally:
                self._give(profile, process)

    def _start(self, process: Process) -> None:
        """Start a process; where it cannot, as files or processes are few, end the idle ones."""
        try:
            process.start()
        except SandboxUnavailable:
            if not self._end_idle():
                raise
            process.start()

    def _end_idle(self) -> bool:
        """End the processes that are not in use; return whether there were any."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._all.difference_update(process for _, process in idle)
        for _, process in idle:
            process.close()
        return bool(idle)

    def _take(self, profile: Profile, fresh: bool) -> Process:
        surplus = None
        with self._lock:
            if profile.index > 1 and not fresh:  # rare: a short wait is better than another process
                self._returned.wait_for(lambda: not self._lent[profile], _PATIENCE_S)
            if self._closed:
                raise SandboxUnavailable(_CLOSED)
            self._lent[profile] += 1
            idle = [process for of, process in self._idle if of == profile and not fresh]
            if idle:
                self._idle.remove((profile, idle[-1]))
                return idle[-1]
            process = Process(profile)
            self._all.add(process)
            if len(self._all) > self._most and self._idle:
                _, surplus = self._idle.pop(0)
                self._all.discard(surplus)
        if surplus is not None:
            surplus.close()
        return process

    def _give(self, profile: Profile, process: Process) -> None:
        with self._lock:
            self._lent[profile] -= 1
            self._returned.notify_all()
            keep = bool(process.pid and process.layers) and not self._closed  # it has started
            if keep:
                self._idle.append((profile, process))
            else:
                self._all.discard(process)
        if not keep:
            process.close()

    def _inspect(self, process: Process) -> None:
        missing = [name for name in REQUIRED_LAYERS if not process.layers.get(name)]
        if missing and not self._allow_weak:
            process.close()
            raise SandboxUnavailable(
                f"this machine lacks {' and '.join(missing)}, without which a program could reach "
                "files and the network; type `code-verifier doctor`, or allow it with "
                "--allow-weak (Python: Sandbox(allow_weak=True)) for programs that you trust"
            )
        for name in DETERMINISM if not missing else ():
            if not process.layers.get(name, True) and name not in _lacking:
                _lacking.add(name)
                text = f"this machine lacks the layer {name!r}: {DETERMINISM[name]}; {DOCTOR}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)


_lacking: set[str] = set()
"""Those of which a warning was given."""
_CLOSED = "the sandbox is closed; open it with `with`"
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
