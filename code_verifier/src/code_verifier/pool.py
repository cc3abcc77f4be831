"""A pool of fork servers: `width` per hash seed, started when first needed."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from code_verifier.errors import SandboxUnavailable
from code_verifier.forkserver import ForkServer, ServerLost

REQUIRED_LAYERS = ("seccomp", "no_new_privs")
_RETRIES = 1


class Pool:
    """Fork servers by index. Each is used by one thread at a time; a lost one is replaced."""

    def __init__(self, width: int, allow_weak: bool) -> None:
        self._width = width
        self._allow_weak = allow_weak
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._condition = threading.Condition()
        self._idle: dict[int, list[ForkServer]] = {}
        self._all: list[ForkServer] = []
        self._count: dict[int, int] = {}

    def ask(self, index: int, request: dict[str, Any], wall_s: float) -> dict[str, Any]:
        """The reply of a server of this index; retried once in a new server if it is lost."""
        with self._lend(index) as server:
            reason = ""
            for _ in range(_RETRIES + 1):
                try:
                    server.start()
                    self._inspect(server)
                    reply = server.ask(request, wall_s)
                    if reply.get("status") != "sandbox_error":
                        return reply
                    reason = str(reply.get("text", ""))
                except ServerLost as error:
                    reason = f"the fork server was lost: {error}"
            return {"status": "sandbox_error", "text": reason, "wall_ms": 0.0, "unstable": False}

    def layers(self) -> dict[str, bool]:
        """Protection layers that a server of this pool reports."""
        with self._lend(0) as server:
            server.start()
            return dict(server.layers)

    def pids(self) -> list[int]:
        """Process ids of the running fork servers."""
        return [server.pid for server in list(self._all) if server.pid is not None]

    def close(self) -> None:
        """End all servers. A thread that still waits for one gets `sandbox_error`."""
        self._closed = True
        if self._pid != os.getpid():
            self._forget()
            return
        with self._condition:
            servers, self._all, self._idle = self._all, [], {}
            self._condition.notify_all()
        for server in servers:
            server.close()

    def _inspect(self, server: ForkServer) -> None:
        missing = [name for name in REQUIRED_LAYERS if not server.layers.get(name)]
        if missing and not self._allow_weak:
            raise SandboxUnavailable(
                f"this machine lacks {' and '.join(missing)}, without which a program could reach "
                "files and the network; type `code-verifier doctor`, or allow it with "
                "--allow-weak (Python: Sandbox(allow_weak=True)) for programs that you trust"
            )

    @contextmanager
    def _lend(self, index: int) -> Iterator[ForkServer]:
        if self._pid != os.getpid():
            self._forget()
            self._reset()
        server = self._take(index)
        try:
            yield server
        finally:
            with self._condition:
                if self._closed:
                    server.close()
                else:
                    self._idle.setdefault(index, []).append(server)
                    self._condition.notify_all()

    def _take(self, index: int) -> ForkServer:
        with self._condition:
            while True:
                if self._closed:
                    raise SandboxUnavailable("the sandbox is closed; open it with `with Sandbox()`")
                idle = self._idle.get(index)
                if idle:
                    return idle.pop()
                if self._count.get(index, 0) < self._width:
                    self._count[index] = self._count.get(index, 0) + 1
                    server = ForkServer(index)
                    self._all.append(server)
                    return server
                self._condition.wait()

    def _forget(self) -> None:
        for server in self._all:
            server.abandon()
        self._all = []
