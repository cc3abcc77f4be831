"""The fork server of strict programs, which are a function of literals: one child per request.

It preloads what programs may import. `child` is what the child does, `protocol` has the frames.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time
from os import urandom

from code_verifier.errors import Status
from code_verifier.jail import child, confine, modules, nondeterminism, protocol
from code_verifier.jail.server import ForkServer, load_hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_CHILD = frozenset(
    (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG, protocol.MISSING)
)
"""What a child may report."""
_HIDDEN = ("code_verifier", "ctypes", "_ctypes", "marshal", "select", "signal")
_now = time.monotonic


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    server = StrictServer(protocol.receive_config())
    protocol.send(marshal.dumps(server.layers))
    while (request := protocol.receive()) is not None:
        server.execute(request)


class StrictServer(ForkServer):
    """State of the server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.limits: dict[str, Any] = config["limits"]
        self.cpu_s = float(self.limits["cpu_s"])
        self.wall_s = float(self.limits["wall_s"])
        frame = protocol.FRAME.size + protocol.RESULT.size
        self.most = frame + 4 * self.limits["output_chars"] + 4096  # bytes of a whole frame
        nondeterminism.install_clocks(config["index"], self.wall_s)
        modules.preload(config["tier"])
        if config["tier"] == modules.ALL:
            load_hashes()
        nondeterminism.install_entropy(config["index"])
        sys.set_int_max_str_digits(self.limits["int_digits"])
        hidden = confine.disable_vdso()
        super().__init__(config, self.limits["memory_mb"] * 2**20, _HIDDEN)
        self.layers["clocks"] = hidden and self.layers["seccomp"]
        sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
        self.namespace = child.prepare(config["tier"])
        child.seal(config["tier"])
        self.poller = select.poll()
        self.poller.register(0, 0)  # hang-up only: the caller is gone
        self.freeze()
        nondeterminism.shuffle_memory(config["index"])

    def execute(self, request: bytes) -> None:
        """Fork a child for the request, and send its result."""
        code, arguments = marshal.loads(request)
        nonce = urandom(16)
        reader, writer = os.pipe()
        started = _now()

        def enter() -> None:
            if writer != protocol.RESULT_FD:
                os.dup2(writer, protocol.RESULT_FD)
            os.closerange(0, protocol.RESULT_FD)
            os.closerange(protocol.RESULT_FD + 1, 16)

        def run() -> None:
            child.serve(code, arguments, self.namespace, nonce, self.limits)

        pid = self.fork("strict", self.cpu_s, self.cpu_s, enter, run)
        os.close(writer)
        if pid < 0:
            os.close(reader)
            result = protocol.pack_result(Status.SANDBOX_ERROR, b"the server could not fork")
            self._send(0.0, result)
            return
        data, in_time = self._collect(reader, started + self.wall_s)
        wall_ms = (_now() - started) * 1000.0
        os.close(reader)
        if _is_answer(data, nonce):
            confine.kill_session(pid)
            self._send(wall_ms, data[protocol.FRAME.size :])
            os.waitpid(pid, 0)
            return
        kill = not in_time or _is_complete(data)
        status, reason, _, _ = self.reap(pid, kill, self.cpu_s)
        if len(data) > self.most or (in_time and data and status != Status.TIMEOUT):
            status, reason = Status.VIOLATION, "wrote to the result pipe itself"
        elif not in_time:
            status, reason = Status.TIMEOUT, f"ran longer than {self.wall_s:g} s"
        elif status == Status.TIMEOUT:
            reason = f"used more than {self.cpu_s:g} s of processor time"
        self._send(wall_ms, protocol.pack_result(status, reason.encode()))

    def _send(self, wall_ms: float, result: bytes) -> None:
        protocol.send(protocol.REPLY.pack(wall_ms) + result)

    def _collect(self, fd: int, deadline: float) -> tuple[bytes, bool]:
        """What the child wrote until it left, had written a frame or too much, or ran out of time,
        and whether that was in time."""
        self.poller.register(fd, select.POLLIN)
        data = b""
        try:
            while (left := deadline - _now()) > 0:
                events = self.poller.poll(left * 1000.0 + 1.0)
                if any(source == 0 for source, _ in events):
                    return data, False
                if events:
                    chunk = os.read(fd, protocol.READ)
                    data += chunk
                    if not chunk or len(data) > self.most or _is_complete(data):
                        return data, len(data) <= self.most
            return data, False
        finally:
            self.poller.unregister(fd)


def _is_complete(data: bytes) -> bool:
    """Whether the data hold a whole frame, or more than one."""
    size = protocol.FRAME.size
    return len(data) >= size and len(data) >= size + protocol.FRAME.unpack_from(data)[1]


def _is_answer(data: bytes, nonce: bytes) -> bool:
    """Whether this is one whole frame with the right nonce, and a result as a child may give it."""
    size = protocol.FRAME.size
    if (
        len(data) < size
        or data[:16] != nonce
        or len(data) != size + protocol.FRAME.unpack_from(data)[1]
    ):
        return False
    results = protocol.unpack_results(data, size) or []
    return len(results) == 1 and results[0][0] in _OF_CHILD
