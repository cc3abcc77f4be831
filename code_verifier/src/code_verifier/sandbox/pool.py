"""The confined processes of one sandbox: started when first needed, replaced when they break."""

import os
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail import seccomp
from code_verifier.jail.modules import TIERS
from code_verifier.jail.protocol import RESULT_FD
from code_verifier.sandbox.process import Process, ProcessLost
from code_verifier.tasks.limits import Limits

HASH_SEEDS = (
    *(1, 20_260_501, 3_141_592_653, 42, 2_718_281_828, 1_000_003, 7, 4_000_000_007),
    *(11, 577_215_664, 1_618_033_988, 23, 3_333_333_333, 69, 271_828, 99_991),
)
REQUIRED_LAYERS = ("seccomp", "no_new_privs")
_EXAMINER_MEMORY = 1 << 30
_KEPT = 24
_PER_WORKER = 6

Kind = tuple[int, int]
EXAMINER: Kind = (-1, 0)


class Pool:
    """Confined processes by kind: EXAMINER, or (index of hash seed and clocks, tier). At most
    `width` executions run at a time. Each process is used by one thread at a time."""

    def __init__(self, width: int, limits: Limits, allow_weak: bool) -> None:
        self._width = width
        self._limits = limits
        self._allow_weak = allow_weak
        self._closed = False
        self._filters = seccomp.build(RESULT_FD), seccomp.build(1, 0)
        with suppress(OSError):
            # Found here, and not by a thread: `tempfile` holds a lock for as long as it looks, and
            # a process that is forked then would wait for it for good.
            tempfile.gettempdir()
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._width)
        self._idle: dict[Kind, list[Process]] = {}
        self._all: set[Process] = set()

    def ask(self, kind: Kind, request: bytes, grace_s: float) -> bytes:
        """The reply of a process of this kind, asked again in a new one if it is lost. grace_s:
        seconds until it counts as lost. Raises ProcessLost, SandboxUnavailable."""
        if self._pid != os.getpid():
            self.forget()
        try:
            with self._lend(kind) as process:
                return process.ask(request, time.monotonic() + grace_s)
        except ProcessLost:  # where one was lost, the idle ones may be lost too
            with self._lend(kind, fresh=True) as process:
                return process.ask(request, time.monotonic() + grace_s)

    def layers(self) -> dict[str, bool]:
        """Protection layers that a fork server of this pool reports."""
        with self._lend((0, 0)) as server:
            return dict(server.layers)

    def pids(self) -> list[int]:
        """Process ids of the running processes."""
        with self._lock:
            return [pid for process in self._all if (pid := process.pid) and process.alive]

    def close(self) -> None:
        """End all processes. A thread that still waits for one gets SandboxUnavailable."""
        self._closed = True
        if self._pid != os.getpid():
            self.forget()
            return
        with self._lock:
            busy = set(self._all)
            idle = [process for some in self._idle.values() for process in some]
            self._idle = {}
            self._all -= set(idle)
        for process in busy:
            process.end()
        for process in idle:
            process.close()

    def forget(self) -> None:
        """After a fork: the processes belong to the parent; this process starts its own."""
        for process in self._all:
            process.abandon()
        self._reset()

    @contextmanager
    def _lend(self, kind: Kind, fresh: bool = False) -> Iterator[Process]:
        """A process in a slot of its own; examining takes none."""
        with nullcontext() if kind == EXAMINER else self._slots:
            process = self._take(kind, fresh)
            try:
                if process.pid is None:
                    process.start()
                    self._inspect(process)
                yield process
            except ProcessLost:
                if self._closed:
                    raise SandboxUnavailable(_CLOSED) from None
                raise
            finally:
                self._give(kind, process)

    def _take(self, kind: Kind, fresh: bool) -> Process:
        surplus: list[Process] = []
        with self._lock:
            if self._closed:
                raise SandboxUnavailable(_CLOSED)
            idle = self._idle.get(kind)
            if idle and not fresh:
                process = idle.pop()
            else:
                process = self._made(kind)
                self._all.add(process)
                if len(self._all) > _KEPT + self._width * _PER_WORKER:
                    waiting = filter(None, self._idle.values())
                    longest = min(waiting, key=lambda some: some[0].idle_since, default=[])
                    surplus = longest[:1]
                    del longest[:1]
                    self._all -= set(surplus)
        for unused in surplus:
            unused.close()
        return process

    def _give(self, kind: Kind, process: Process) -> None:
        with self._lock:
            keep = process.pid is not None and not self._closed
            if keep:
                process.idle_since = time.monotonic()
                self._idle.setdefault(kind, []).append(process)
            else:
                self._all.discard(process)
        if not keep:
            process.close()

    def _made(self, kind: Kind) -> Process:
        if kind == EXAMINER:
            config: dict[str, Any] = {"memory": _EXAMINER_MEMORY, "filter": self._filters[1]}
            return Process("jail.examiner", HASH_SEEDS[0], config)
        index, tier = kind
        if not 0 <= index < len(HASH_SEEDS) or not 0 <= tier < TIERS:
            raise ValueError(f"no fork server of kind {kind}")
        config = {"index": index, "tier": tier, "filter": self._filters[0]}
        config["limits"] = self._limits.as_dict()
        return Process("jail.server", HASH_SEEDS[index], config)

    def _inspect(self, process: Process) -> None:
        missing = [name for name in REQUIRED_LAYERS if not process.layers.get(name)]
        if missing and not self._allow_weak:
            process.close()
            raise SandboxUnavailable(
                f"this machine lacks {' and '.join(missing)}, without which a program could reach "
                "files and the network; type `code-verifier doctor`, or allow it with "
                "--allow-weak (Python: Sandbox(allow_weak=True)) for programs that you trust"
            )


_CLOSED = "the sandbox is closed; open it with `with Sandbox()`"
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
