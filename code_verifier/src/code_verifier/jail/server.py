"""The fork server: preloads what programs may import, then forks one child per request. It serves
until its standard input ends; a child never outlives it. See `protocol` for the frames."""

from __future__ import annotations

import gc
import itertools
import marshal
import os
import resource
import select
import signal
import sys
import time
from os import urandom

from code_verifier.jail import child, confine, modules, nondeterminism, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_OF_CHILD = frozenset({"ok", "exception", "memory", "not_literal", "too_long", "missing_module"})
_NO_MEMORY = 71
_SHARE = 16
"""Of the limit of real time, so much is all that several share; memory they share by halves. What
one needs more of, it gets alone, and never less than in company."""
_HIDDEN = ("code_verifier", "ctypes", "_ctypes", "marshal", "select", "signal")
_now = time.monotonic


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    server = Server(protocol.receive_config())
    protocol.send(marshal.dumps(server.layers))
    while (request := protocol.receive()) is not None:
        server.execute(request)


class Server:
    """State of a fork server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.limits: dict[str, Any] = config["limits"]
        self.cpu_s = float(self.limits["cpu_s"])
        self.wall_s = float(self.limits["wall_s"])
        nondeterminism.install_clocks(config["index"], self.wall_s)
        modules.preload(config["tier"])
        nondeterminism.install_entropy(config["index"])
        sys.set_int_max_str_digits(self.limits["int_digits"])
        hidden = confine.disable_vdso()
        self.layers = confine.confine(config["jail_dir"], self.limits["memory_mb"] * 2**20)
        self.filter = None
        if config["filter"] is not None:
            program = confine.load_filter(config["filter"])
            self.filter = program if confine.filter_works(program) else None
        self.layers["seccomp"] = self.filter is not None
        self.layers["clocks"] = hidden and self.filter is not None
        confine.hide_modules(_HIDDEN)
        sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
        self.space = resource.getrlimit(resource.RLIMIT_AS)
        self.namespace = child.prepare(config["tier"])
        child.seal(config["tier"])
        self.pid = os.getpid()
        self.poller = select.poll()
        self.poller.register(0, 0)  # hang-up only: the caller is gone
        gc.collect()
        gc.freeze()
        nondeterminism.shuffle_memory(config["index"])

    def execute(self, request: bytes) -> None:
        """Fork a child for the request, and send its results."""
        entries = marshal.loads(request)
        count = len(entries)
        nonce = urandom(16)
        reader, writer = os.pipe()
        started = _now()
        pid = confine.libc.fork()
        if pid == 0:
            self._become_child(entries, nonce, writer)
        os.close(writer)
        if pid < 0:
            os.close(reader)
            self._send_end(0.0, b"", "sandbox_error", "the fork server could not fork")
            return
        limit = count * (
            protocol.FRAME.size + protocol.RESULT.size + 4 * self.limits["output_chars"] + 4096
        )
        wall_s = self.wall_s if count == 1 else self.wall_s / _SHARE
        frames, data, in_time = self._collect(reader, started + wall_s, limit, count)
        wall_ms = (_now() - started) * 1000.0
        os.close(reader)
        good = list(itertools.takewhile(lambda frame: _is_answer(frame, nonce), frames))
        answers = b"".join(frame[protocol.FRAME.size :] for frame in good)
        data = b"".join(frames[len(good) :]) + data
        if data:
            answers = b""
        elif len(good) == count:
            confine.kill_session(pid)
            protocol.send(protocol.REPLY.pack(wall_ms, 0) + answers)
            os.waitpid(pid, 0)
            return
        if not in_time:
            confine.kill_session(pid)
        _, status, usage = os.wait4(pid, 0)
        cpu_spent = usage.ru_utime + usage.ru_stime >= self.cpu_s
        name, reason = self._ending(status, in_time, cpu_spent, data, limit)
        self._send_end(wall_ms, answers, name, reason)

    def _send_end(self, wall_ms: float, answers: bytes, status: str, reason: str) -> None:
        """What answers there are, and how the process as such ended."""
        result = protocol.pack_result(status, reason.encode())
        protocol.send(protocol.REPLY.pack(wall_ms, 1) + answers + result)

    def _become_child(
        self, entries: list[tuple[bytes, bytes]], nonce: bytes, writer: int
    ) -> NoReturn:
        try:
            confine.leave_session(self.pid)
            if writer != protocol.RESULT_FD:
                os.dup2(writer, protocol.RESULT_FD)
            os.closerange(0, protocol.RESULT_FD)
            os.closerange(protocol.RESULT_FD + 1, 16)
            soft = int(self.cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (soft, soft))
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            if len(entries) > 1:
                half = self.space[0] - self.limits["memory_mb"] * 2**19
                resource.setrlimit(resource.RLIMIT_AS, (half, self.space[1]))
            signal.setitimer(signal.ITIMER_PROF, self.cpu_s)
            if self.filter is not None and not confine.install_filter(self.filter):
                raise OSError("the filter was refused")
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)  # the server is broken: the caller makes a new one
            os._exit(1)
        try:
            child.serve(entries, self.namespace, nonce, self.limits)
        except MemoryError:
            os._exit(_NO_MEMORY)
        finally:
            os._exit(1)

    def _collect(
        self, fd: int, deadline: float, limit: int, count: int
    ) -> tuple[list[bytes], bytes, bool]:
        """The frames that the child wrote and what followed them, until it left, sent so many
        frames, or ran out of time, and whether that was in time."""
        self.poller.register(fd, select.POLLIN)
        frames: list[bytes] = []
        data = b""
        try:
            while (left := deadline - _now()) > 0:
                events = self.poller.poll(left * 1000.0 + 1.0)
                for which, _ in events:
                    if which == 0:
                        return frames, data, False
                if events:
                    chunk = os.read(fd, protocol.READ)
                    data += chunk
                    while len(frames) < count and (size := _complete(data)):
                        frames.append(data[:size])
                        data = data[size:]
                    if not chunk or len(data) > limit or len(frames) == count:
                        return frames, data, len(data) <= limit
            return frames, data, False
        finally:
            self.poller.unregister(fd)

    def _ending(
        self, status: int, in_time: bool, cpu_spent: bool, data: bytes, limit: int
    ) -> tuple[str, str]:
        """Status and reason for a child that left no valid frame."""
        if len(data) > limit:
            return "violation", "wrote to the result pipe itself"
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if not in_time:
            return "timeout", f"ran longer than {self.wall_s:g} s"
        if number in (signal.SIGXCPU, signal.SIGPROF) or (number == signal.SIGKILL and cpu_spent):
            return "timeout", f"used more than {self.cpu_s:g} s of processor time"
        if number == signal.SIGSYS:
            return "violation", "made a system call that is not allowed"
        if data:
            return "violation", "wrote to the result pipe itself"
        if number == signal.SIGKILL:
            return "memory", "killed by the kernel, probably for lack of memory"
        if number:
            name = signal.Signals(number).name
            return "exception", f"crashed with {name} (often by recursion without end)"
        code = os.waitstatus_to_exitcode(status)
        if code == _NO_MEMORY:
            return "memory", f"used more than {self.limits['memory_mb']} MiB of memory"
        return "violation", f"left without a result (exit code {code})"


def _complete(data: bytes) -> int:
    """The size of the whole frame that the data begin with, or 0."""
    if len(data) < protocol.FRAME.size:
        return 0
    size = protocol.FRAME.size + int(protocol.FRAME.unpack_from(data)[1])
    return size if len(data) >= size else 0


def _is_answer(data: bytes, nonce: bytes) -> bool:
    """Whether this is a whole frame with the right nonce, and a result as a child may give it."""
    if _complete(data) != len(data) or data[:16] != nonce:
        return False
    results = protocol.unpack_results(data, protocol.FRAME.size) or []
    return len(results) == 1 and all(status in _OF_CHILD for status, _ in results)
