"""The fork server: it confines itself, forks a child for each request, and sends the result.

A server has one profile: `strict` servers fork functions of literals, with simulated clocks,
entropy and addresses; `ordinary` servers fork modules and scripts. A server reads orders, never a
program, and serves until its standard input ends; a child never outlives it.
"""

from __future__ import annotations

import gc
import marshal
import mmap
import os
import resource
import select
import signal
import time

from code_verifier.errors import Status
from code_verifier.jail import addresses, clocks, walls, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_THREADS = 64
_FIRST_USER = 1 << 30  # user ids from here on are free; each server takes its own
_INPUT_BYTES = 1 << 28
_HIDDEN = ("code_verifier", "ctypes", "_ctypes")
_BEAT_S = 1.0
_PROGRESS_S = 0.01
_TURN_S = 0.02
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT  # the child is still there to be waited for
_now, _clock = time.monotonic, time.clock_gettime  # a strict server replaces the module's own


def main() -> None:
    """Serve until standard input ends; the last words of an error go to standard error."""
    os.set_blocking(2, False)  # the caller reads it only after the end
    try:
        _serve()
    except BaseException as error:
        walls.complain(error)
        os._exit(1)


def _serve() -> None:
    """The first frame is the configuration."""
    walls.reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a script need not read all of its input
    body = wire.receive()
    if not body:
        os._exit(0)  # the caller is gone
    config: dict[str, Any] = marshal.loads(body)
    if config["kind"] == wire.READER:
        from code_verifier.jail import reader

        reader.serve(config)
        return
    server = Server(config)
    wire.write(1, wire.frame(marshal.dumps(server.layers)))
    while order := wire.receive():
        server.execute(marshal.loads(order))


class Server:
    """The state of a server, with which its children start.

    config: the fields of a `process.Profile`, its `filters`, and `jail_dir`, a new folder.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        strict = config["kind"] == wire.STRICT
        self.unmaps = False
        if strict:
            scrambled = addresses.scramble(config["index"])  # before any import
            clocks.install(config["index"], config["clock_s"])
            vdso = clocks.find_vdso()
            hides = clocks.disable_vdso(*vdso)
            # Where this process must keep its clocks, each child gives up its own.
            self.unmaps = not hides and walls.succeeds(clocks.unmap_vdso, *vdso)
        from code_verifier.jail import imports, literal_child

        imports.preload(config["modules"], config["libraries"])
        self.lacks_modules = config["modules"] == wire.COMMON
        self.run: dict[str, Any] = {wire.FUNCTION: literal_child.function}
        if config["modules"] == wire.ALL:
            from code_verifier.jail import entropy

            entropy.install(config["index"])
        if strict:
            literal_child.prepare(config["modules"])
        else:
            from code_verifier.jail import ordinary_child

            ordinary_child.prepare()
            self.run = {wire.CALLS: ordinary_child.calls, wire.SCRIPT: ordinary_child.script}
        self.input = -1 if strict else walls.nameless_file(config["jail_dir"])
        root, user = os.geteuid() == 0, _FIRST_USER + os.getpid()
        # Less for every other execution, so that outputs that depend on it differ.
        memory = config["memory"] - (config["memory"] >> 5) * (strict and config["index"] % 2)
        self.layers = walls.confine(config["jail_dir"], memory, _INPUT_BYTES, user)
        # Whether the kernel counts processes and threads for this server and its child alone.
        self.alone = os.geteuid() == user if root else self.layers["namespaces"]
        filters: dict[str, bytes] = config["filters"]
        self.filters = {name: walls.load_filter(filter) for name, filter in filters.items()}
        if not all(walls.succeeds(walls.install_filter, x) for x in self.filters.values()):
            self.filters = {}
        self.layers["seccomp"] = bool(self.filters)
        if strict:
            hides |= self.unmaps
            self.layers |= {"clocks": hides and bool(self.filters), "addresses": scrambled}
        walls.forget(wire.LOADING)
        walls.hide_modules(_HIDDEN)
        self.memory: int = config["memory"]
        self.pid = os.getpid()
        gc.collect()
        gc.freeze()  # out of the collector's way, in the children too
        gc.disable()  # until the program runs
        if strict:
            addresses.shuffle_memory(config["index"])

    def execute(self, order: dict[str, Any]) -> None:
        """Fork a child that reads its task, and send its result.

        order: `kind`; `cpu_s`, limit by a timer, which a program may change; `hard_s`, limit by the
        kernel; `call_wall_s`, `wall_s` and `idle_s`, limits of real time; `output_bytes`; `stdin`;
        `deep`, whether the stack may grow like the memory.
        """
        kind = order["kind"]
        source = self._file(order["stdin"]) if kind == wire.SCRIPT else -1
        result, sink = os.pipe() if kind == wire.SCRIPT else (-1, -1)
        # Unmapped before the next fork, so that no later child finds this one's report.
        room = mmap.mmap(-1, wire.ROOM + order["output_bytes"] + wire.READ)
        started = _now()
        pid = walls.fork()
        if pid == 0:
            self._be_child(order, room, sink, source)
        if kind == wire.SCRIPT:
            os.close(sink)
            os.close(source)
        end = walls.watch_process(pid)
        status, reason, size = self._watch(order, pid, end, result, room)
        if status:
            walls.kill_session(pid)
        has_read = os.getpgid(pid) == pid
        _, how, usage = os.wait4(pid, 0)
        wall_ms = (_now() - started) * 1000.0
        for file in (end, result):
            if file >= 0:
                os.close(file)
        if how and not has_read:
            os._exit(1)  # what is left of the task, or still to come, would be taken for an order
        spent = usage.ru_utime + usage.ru_stime
        number = int.from_bytes(room[:8], "little") & 0xFFFFFFFF
        if how or status:
            code = os.waitstatus_to_exitcode(how)
            if not status:
                most_s = walls.cap(resource.RLIMIT_CPU, order["hard_s"])
                status, reason = self._ending(code, spent >= most_s)
            if code == wire.RAISED:
                reason = room[8 : wire.ROOM].rstrip(b"\0").decode("utf-8", "replace")
            if status == Status.TIMEOUT and code not in (-signal.SIGPROF, wire.SPENT):
                number = 0  # the time of the whole process, and not of a call
        if kind != wire.SCRIPT:
            size = max(0, room.find(b"\0", wire.ROOM) - wire.ROOM)
        text = reason.encode("utf-8", "replace")
        numbers = wire.CODES[status or Status.OK], 0, number, spent, wall_ms, len(text)
        head = wire.REPLY.pack(*numbers) + text
        with room, memoryview(room) as whole, whole[wire.ROOM : wire.ROOM + size] as report:
            wire.write(1, wire.LENGTH.pack(len(head) + size) + head, report)

    def _be_child(self, order: dict[str, Any], room: mmap.mmap, sink: int, source: int) -> NoReturn:
        """Read the task, go behind the walls, and run it."""
        kind = order["kind"]
        try:
            walls.die_with(self.pid)
            task = wire.receive()
            if not task:
                os._exit(1)
            os.setsid()  # which tells the server that the task was read
            if kind == wire.SCRIPT:
                os.dup2(source, 0)
                os.dup2(sink, 1)
            if order["deep"]:
                _, most = resource.getrlimit(resource.RLIMIT_STACK)
                resource.setrlimit(resource.RLIMIT_STACK, (most, most))
            most = int(order["hard_s"]) + 1
            walls.limit(resource.RLIMIT_CPU, most, most)
            walls.limit(resource.RLIMIT_FSIZE, 0, 0)
            if kind == wire.FUNCTION or not self.filters:
                walls.limit(resource.RLIMIT_NPROC, 0, 0)
            elif self.alone:  # this server counts, too
                walls.limit(resource.RLIMIT_NPROC, _THREADS + 1, _THREADS + 1)
            signal.setitimer(signal.ITIMER_PROF, order["cpu_s"])
            if self.unmaps and not clocks.unmap_vdso(*clocks.find_vdso()):
                raise OSError("the kernel's code for reading clocks was kept")
            os.closerange(2 if kind == wire.SCRIPT else 0, 16)
            if self.filters and not walls.install_filter(self.filters[kind]):
                raise OSError("the filter was refused")
        except BaseException as error:
            walls.complain(error)
            os.kill(self.pid, signal.SIGKILL)  # the server is broken: the caller makes a new one
            os._exit(1)
        try:
            self.run[kind](task, room)
        except MemoryError:
            os._exit(wire.NO_MEMORY)
        finally:
            os._exit(1)

    def _watch(
        self, order: dict[str, Any], pid: int, end: int, result: int, room: mmap.mmap
    ) -> tuple[str, str, int]:
        """Wait for a child. Returns status and reason, "" if it has left, else why it must be
        killed: it wrote too much, was idle for `idle_s`, exceeded a time limit or lost its caller;
        and the number of bytes of a script's output in `room`."""
        poller = select.poll()
        poller.register(0, 0)  # hang-up only: the caller is gone
        for file in (end, result):
            if file >= 0:
                poller.register(file, select.POLLIN)
        call_s, wall_s, idle_s = order["call_wall_s"], order["wall_s"], order["idle_s"]
        clock = (~pid << 3) | 2  # CPUCLOCK_SCHED of a process, see clock_getres(2)
        written, cpu, call, ended = 0, 0.0, bytes(8), False
        started = begun = moved = now = _now()
        beat_s = min(_BEAT_S, idle_s) if idle_s < wall_s else wall_s
        while True:
            wait_s = min(beat_s, max(0.0, min(begun + call_s, started + wall_s) - now))
            if end < 0:  # ask again and again, in turns of at most a quarter of its time
                wait_s = min(wait_s, (now - started) / 4.0, _TURN_S)
            events = dict(poller.poll(0 if ended else wait_s * 1000.0 + 1.0))
            if 0 in events:
                return Status.TIMEOUT, "lost its caller", written
            if result in events:
                place = wire.ROOM + written
                with memoryview(room) as whole, whole[place : place + wire.READ] as part:
                    count = os.readv(result, [part])
                written += count
                if written > len(room) - wire.ROOM - wire.READ:
                    return Status.TOO_LONG, "wrote more than the limit of output", 0
                if count == 0:  # closed
                    poller.unregister(result)
            elif ended or end in events:
                return "", "", written
            if end < 0 and (ended := os.waitid(os.P_PID, pid, _ENDED) is not None):
                continue  # to read what it wrote before
            now = _now()
            if room[:8] != call:
                call, begun = room[:8], now
            if now - moved >= beat_s:
                spent = _clock(clock)
                if spent - cpu > _PROGRESS_S:
                    cpu, moved = spent, now
            if now > moved + idle_s:
                return Status.TIMEOUT, "waited for something that does not come", written
            if now > min(begun + call_s, started + wall_s):
                return Status.TIMEOUT, f"ran longer than {min(call_s, wall_s):g} s", written

    def _file(self, data: bytes) -> int:
        """A file that holds the data, because programs ask for its size, and seek in it."""
        file = walls.empty(self.input)
        most = walls.cap(resource.RLIMIT_FSIZE, _INPUT_BYTES)
        if len(data) > most:
            raise OSError(f"a standard input of {len(data)} bytes; files may have {most}")
        walls.limit(resource.RLIMIT_FSIZE, most, most)
        wire.write(file, data)
        walls.limit(resource.RLIMIT_FSIZE, 0, most)
        os.lseek(file, 0, os.SEEK_SET)
        return file

    def _ending(self, code: int, late: bool) -> tuple[str, str]:
        """Status and reason of a child's exit code, not 0, or of its signal (negative)."""
        if code == wire.MISSED and self.lacks_modules:
            return wire.MISSING, ""
        if code == -signal.SIGKILL and late:
            code = -signal.SIGXCPU
        endings = {
            -signal.SIGPROF: (Status.TIMEOUT, "used more processor time than the limit"),
            -signal.SIGXCPU: (Status.TIMEOUT, "used more processor time than the limit of it all"),
            -signal.SIGSYS: (Status.VIOLATION, "made a system call that is not allowed"),
            -signal.SIGKILL: (Status.MEMORY, "killed by the kernel, probably for lack of memory"),
            wire.NO_MEMORY: (Status.MEMORY, f"used more than {self.memory >> 20} MiB of memory"),
            wire.SPENT: (Status.TIMEOUT, "slept longer than the limit of time"),
            wire.RAISED: (Status.EXCEPTION, ""),  # the shared memory holds its type
            wire.FULL: (Status.TOO_LONG, "returned more than the limit of output"),
        }
        if code < 0 and code not in endings:
            name = signal.Signals(-code).name
            return Status.EXCEPTION, f"crashed with {name} (often by recursion without end)"
        return endings.get(code, (Status.VIOLATION, f"left without a result (exit code {code})"))
