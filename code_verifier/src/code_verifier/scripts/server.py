"""The fork server of ordinary modules and scripts: one child per request, under the jail's walls.

It serves until its standard input ends; a child never outlives it. A request is its length, the
length of the order, the order and the task (both marshal). The order is what the server needs to
know; the task is read by the child, so that the server never holds a program and no later child
can find one of an earlier child's in the memory that it inherits. A reply is its length, `HEAD`, a
reason, and the bytes that the child wrote, which are not to be believed.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import marshal
import mmap
import os
import resource
import select
import signal
import sys
import time

from code_verifier.jail import confine
from code_verifier.jail.protocol import ENDINGS, HEAD, LENGTH, READ, RESULT_FD, receive_config, send
from code_verifier.scripts import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# A child cannot read files, so everything it may import is imported before it is forked: most of
# the standard library. What only an application needs is left out.
_STANDARD = """
    __future__ _strptime abc argparse array ast asyncio base64 bdb binascii bisect builtins bz2
    calendar cmath cmd code codecs collections collections.abc colorsys concurrent.futures
    concurrent.futures.process concurrent.futures.thread configparser contextlib contextvars
    copy copyreg csv dataclasses datetime decimal difflib dis doctest email enum errno fileinput
    fnmatch fractions functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac
    html html.entities html.parser http http.server importlib importlib.util inspect io
    ipaddress itertools json json.decoder keyword linecache locale logging lzma marshal math
    mimetypes multiprocessing multiprocessing.pool numbers opcode operator os os.path pathlib
    pickle pickletools platform pprint profile cProfile pstats queue quopri random re reprlib
    resource sched secrets select selectors shelve shlex shutil signal socket sqlite3 stat
    statistics string stringprep struct subprocess symtable sys sysconfig tempfile textwrap
    threading time timeit token tokenize trace traceback tracemalloc types typing unicodedata
    unittest unittest.mock urllib.parse urllib.request uuid warnings weakref xml.dom.minidom
    xml.etree.ElementTree zipfile zlib zoneinfo
    encodings.ascii encodings.latin_1 encodings.idna encodings.utf_8 encodings.utf_8_sig
    encodings.utf_16 encodings.utf_32 encodings.cp1252 encodings.cp437 encodings.rot_13
    encodings.hex_codec encodings.base64_codec encodings.unicode_escape encodings.punycode
    encodings.raw_unicode_escape
"""
_NUMPY = """
    numpy numpy.linalg numpy.random numpy.fft numpy.polynomial numpy.ma numpy.testing
"""
_HIDDEN = ("code_verifier", "ctypes", "_ctypes")
_PAGE = 4096
_BEAT_S = 5.0
_PROGRESS_S = 0.01
_WALL_S, _WALL_FACTOR = 60.0, 100.0  # far off, since a busy machine gives little of its time


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a script need not read all of its input
    server = Server(receive_config())
    send(marshal.dumps(server.layers))
    while head := _receive(LENGTH.size + LENGTH.size):
        (length,), (size,) = LENGTH.unpack_from(head), LENGTH.unpack_from(head, LENGTH.size)
        server.execute(marshal.loads(_receive(size)), length - LENGTH.size - size)


def _preload(numpy_from: str | None) -> None:
    """Import what programs may; numpy from its folder, or None to leave it out."""
    for name in _STANDARD.split():
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a build of Python without it
    import hashlib

    for name in sorted(hashlib.algorithms_guaranteed):
        hashlib.new(name)  # OpenSSL reads its settings from a file at the first use
    if numpy_from is not None:
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = "1"  # a thread would not survive the fork
        sys.path.append(numpy_from)
        for name in _NUMPY.split():
            importlib.import_module(name)
    sys.path.clear()


class Server:
    """State of a fork server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        sys.set_int_max_str_digits(4300)
        _preload(config["numpy"])
        asyncio.set_event_loop_policy(child.EventLoops())
        self.idle_s: float = config["idle_s"]
        self.layers = confine.confine(config["jail_dir"], config["memory"])
        loaded = {kind: confine.load_filter(filter) for kind, filter in config["filters"].items()}
        self.filters = {kind: program for kind, (program, _) in loaded.items()}
        self._filter_memory = loaded
        self.layers["seccomp"] = bool(loaded) and confine.filter_works(self.filters["calls"])
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

    def execute(self, order: dict[str, Any], size: int) -> None:
        """Fork a child that reads its task of `size` bytes, and send what came of it."""
        self.progress[:] = bytes(_PAGE)  # nothing of an earlier child's
        source, feed = os.pipe()
        result, sink = os.pipe()
        pid = confine.libc.fork()
        if pid == 0:
            self._become_child(order, size, source, sink)
        os.close(source)
        os.close(sink)
        if pid < 0 or not os.read(result, 1):
            os._exit(1)  # the task was not read: the caller makes a new server
        hard_s: float = order["hard_s"]
        # Unmapped before the next fork, so that no later child finds what this one returned.
        room = mmap.mmap(-1, order["output_bytes"] + READ)
        size, seen = self._exchange(pid, feed, order["stdin"], result, hard_s, room)
        os.close(result)
        if seen == "left" and not _ended(pid, self.idle_s):
            seen = "idle"
        if seen != "left":
            confine.kill_session(pid)
        _, status, usage = os.wait4(pid, 0)
        spent = usage.ru_utime + usage.ru_stime
        ending, reason = self._ending(status, seen, spent, hard_s)
        call = int.from_bytes(self.progress[:8], "little") & 0xFFFFFFFF
        text = reason.encode("utf-8", "replace")
        head = HEAD.pack(ENDINGS.index(ending), call, spent, len(text)) + text
        with room, memoryview(room) as whole, whole[:size] as data:
            for part in (LENGTH.pack(len(head) + size) + head, data):
                done = 0
                while done < len(part):
                    done += os.write(1, part[done : done + READ])

    def _become_child(self, order: dict[str, Any], size: int, source: int, sink: int) -> NoReturn:
        kind = order["kind"]
        try:
            os.setsid()
            confine.die_with_parent()
            if os.getppid() != self.pid:
                os._exit(1)
            data = _receive(size)
            if not data:
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
            serve = child.serve_calls if kind == "calls" else child.serve_script
            serve(marshal.loads(data), self.progress)
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
        poller.register(feed, select.POLLOUT)
        os.set_blocking(feed, False)
        view = memoryview(stdin)
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
        if code == child.SPENT:
            return "cpu", "slept longer than the limit of time"
        if code == child.RAISED:
            return "raised", bytes(self.progress[8:208]).rstrip(b"\0").decode("utf-8", "replace")
        return "left", "" if code == 0 else f"left with exit code {code}"


def _receive(count: int) -> bytes:
    """So many bytes of standard input and no more; none when it ends before."""
    data = bytearray()
    while len(data) < count:
        more = os.read(0, min(READ, count - len(data)))
        if not more:
            return b""
        data += more
    return bytes(data)


def _ended(pid: int, within_s: float) -> bool:
    """Whether a child that closed its output ends by itself."""
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(within_s * 1000.0))
    finally:
        os.close(descriptor)
