"""The fork server of ordinary modules: one child per request, under the walls of the jail.

It serves until its standard input ends; a child never outlives it. See `wire` for the requests:
the `kind` of an order is "calls" or "script", its task is for the child of that kind. A reply is
`wire.HEAD`, a reason, and the bytes that the child wrote, which are not to be believed.
"""

from __future__ import annotations

import gc
import marshal
import mmap
import os
import resource
import select
import signal
import sys
import time

from code_verifier.jail import confine
from code_verifier.jail.protocol import READ, RESULT_FD, receive, send
from code_verifier.modules import calls, libraries, loops, script
from code_verifier.modules.wire import receive_bytes, receive_order, send_reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HIDDEN = ("code_verifier", "ctypes", "_ctypes")
_PAGE = 4096
_BEAT_S = 5.0
_PROGRESS_S = 0.01
_WALL_S, _WALL_FACTOR = 60.0, 100.0  # far off, since a busy machine gives little of its time


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a script need not read all of its input
    body = receive()
    if body is None:
        return
    server = Server(marshal.loads(body))
    send(marshal.dumps(server.layers))
    while (request := receive_order()) is not None:
        server.execute(*request)


class Server:
    """State of a fork server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        sys.set_int_max_str_digits(4300)
        libraries.preload(config["numpy"])
        loops.install()
        self.idle_s: float = config["idle_s"]
        self.layers = confine.confine(config["jail_dir"], config["memory"])
        loaded = {kind: confine.load_filter(filter) for kind, filter in config["filters"].items()}
        self.filters = {kind: program for kind, (program, _) in loaded.items()}
        self._filter_memory = loaded
        self.layers["seccomp"] = bool(loaded) and self._try_filter(self.filters["calls"])
        if not self.layers["seccomp"]:
            self.filters = {}
        self.progress = mmap.mmap(-1, _PAGE)
        sys.stdin = sys.stdout = sys.stderr = None
        for name in list(sys.modules):
            if name.partition(".")[0] in _HIDDEN:
                del sys.modules[name]
        self.pid = os.getpid()
        gc.collect()
        gc.freeze()

    def _try_filter(self, program: confine.Filter) -> bool:
        """Whether a child under the filter still lives to leave by itself."""
        pid = confine.libc.fork()
        if pid == 0:
            os._exit(0 if confine.install_filter(program) else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def execute(self, order: dict[str, Any], size: int) -> None:
        """Fork a child that reads its task of `size` bytes, and send what came of it."""
        self.progress[:] = bytes(_PAGE)  # nothing of an earlier child's
        stdin: bytes = order["stdin"]
        source, feed = os.pipe()
        result, sink = os.pipe()
        pid = confine.libc.fork()
        if pid == 0:
            self._become_child(order, size, source, sink)
        os.close(source)
        os.close(sink)
        if pid < 0 or not os.read(result, 1):
            os._exit(1)  # nobody read the task: the caller makes a new server
        hard_s: float = order["hard_s"]
        # Unmapped before the next fork, so that no later child finds what this one returned.
        room = mmap.mmap(-1, order["output_bytes"] + READ)
        size, seen = self._exchange(pid, feed, stdin, result, hard_s, room)
        os.close(result)
        if seen == "left" and not _ended(pid, self.idle_s):
            seen = "idle"
        if seen != "left":
            _kill(pid)
        _, status, usage = os.wait4(pid, 0)
        spent = usage.ru_utime + usage.ru_stime
        ending, reason = self._ending(status, seen, spent, hard_s)
        call = int.from_bytes(self.progress[:8], "little") & 0xFFFFFFFF
        with room, memoryview(room) as whole, whole[:size] as data:
            send_reply(ending, call, spent, reason, data)

    def _become_child(self, order: dict[str, Any], size: int, source: int, sink: int) -> NoReturn:
        kind = order["kind"]
        try:
            os.setsid()
            confine.die_with_parent()
            if os.getppid() != self.pid:
                os._exit(1)
            data = receive_bytes(size)
            if data is None:
                os._exit(1)
            os.write(sink, b"\0")
            os.dup2(source, 0)
            os.dup2(sink, 1)
            if kind == "calls":
                os.dup2(1, RESULT_FD)
                os.closerange(0, RESULT_FD)
                os.closerange(RESULT_FD + 1, 16)
            else:
                os.closerange(2, 16)
            most = int(order["hard_s"]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            if order["deep"]:
                confine.grow_stack()
            signal.setitimer(signal.ITIMER_PROF, order["cpu_s"])
            if not self.filters:
                resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            elif not confine.install_filter(self.filters[kind]):
                raise OSError("the filter was refused")
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)  # the server is broken: the caller makes a new one
            os._exit(1)
        try:
            task = marshal.loads(data)
            (calls.serve if kind == "calls" else script.serve)(task, self.progress)
        finally:
            os._exit(1)

    def _exchange(
        self, pid: int, feed: int, stdin: bytes, result: int, hard_s: float, room: mmap.mmap
    ) -> tuple[int, str]:
        """Feed the child and collect what it writes, until it leaves or is to be killed; the
        bytes that were written to `room`."""
        poller = select.poll()
        poller.register(0, 0)  # hang-up only: the caller is gone
        poller.register(result, select.POLLIN)
        os.set_blocking(feed, False)
        view = memoryview(stdin)
        if view:
            poller.register(feed, select.POLLOUT)
        else:
            os.close(feed)
            feed = -1
        size = 0
        clock = (~pid << 3) | 2  # CPUCLOCK_SCHED of a process, see clock_getres(2)
        started = moved = time.monotonic()
        cpu = 0.0
        try:
            while True:
                for which, _ in poller.poll(_BEAT_S * 1000.0):
                    if which == 0:
                        return 0, "idle"
                    if which == feed:
                        try:
                            view = view[os.write(feed, view[:READ]) :]
                        except BlockingIOError:
                            continue
                        except OSError:  # it closed its input, or ended
                            view = view[:0]
                        if not view:
                            poller.unregister(feed)
                            os.close(feed)
                            feed = -1
                    elif which == result:
                        with memoryview(room) as whole, whole[size : size + READ] as place:
                            count = os.readv(result, [place])
                        size += count
                        if not count:
                            return size, "left"
                        if size > len(room) - READ:
                            return 0, "flood"
                now = time.monotonic()
                if now - moved < _BEAT_S:
                    continue
                spent = time.clock_gettime(clock)
                if spent - cpu > _PROGRESS_S:
                    cpu, moved = spent, now
                if now - moved > self.idle_s or now - started > _WALL_S + _WALL_FACTOR * hard_s:
                    return size, "idle"
        finally:
            if feed >= 0:
                os.close(feed)

    def _ending(self, status: int, seen: str, spent: float, hard_s: float) -> tuple[str, str]:
        """How it ended, and why, for people."""
        if seen == "flood":
            return "flood", "wrote more than the limit of output"
        if seen == "idle":
            return "idle", "waited for something that does not come"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGPROF:
                return "cpu", "used more processor time than the limit"
            if number == signal.SIGXCPU or spent >= hard_s:
                return "total", "used more processor time than the limit of all calls"
            if number == signal.SIGKILL:
                return "memory", "killed by the kernel, probably for lack of memory"
            return "crash", f"crashed with signal {number}"
        code = os.waitstatus_to_exitcode(status)
        if code == calls.SPENT:
            return "cpu", "slept longer than the limit of time"
        if code == script.RAISED:
            text = bytes(self.progress[8:208]).rstrip(b"\0").decode("utf-8", "replace")
            return "raised", text
        return "left", "" if code == 0 else f"left with exit code {code}"


def _ended(pid: int, within_s: float) -> bool:
    """Whether a child that closed its output ends by itself."""
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(within_s * 1000.0))
    finally:
        os.close(descriptor)


def _kill(pid: int) -> None:
    """End a child with its session; it may be too young to have one."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except OSError:
            continue
