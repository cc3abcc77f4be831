"""The fork server of ordinary modules and scripts: one child per request, under the jail's walls.

It serves until its standard input ends; a child never outlives it. A request is its length, the
length of the order, the order and the task (both marshal). The order is what the server needs to
know; the task is read by the child, so that the server never holds a program and no later child
can find one of an earlier child's in the memory that it inherits. A reply is its length, `HEAD`, a
reason, and the bytes that the child wrote, which are not to be believed.

A child calls a function of an ordinary module with many inputs and reports the values, or runs a
program as a script with pipes as its standard streams. The report is lines of JSON in memory that
it shares with the server, a value each and the ending last: it costs no system call, and outlives a
child that is killed. The caller compares the values outside, and no process here ever holds what
they are compared with.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import marshal
import mmap
import os
import resource
import select
import signal
import site
import sys
import threading
import time

from code_verifier.errors import Status
from code_verifier.jail import confine, files, protocol
from code_verifier.jail.protocol import CODES, HEAD, LENGTH, READ, RESULT_FD
from code_verifier.jail.server import ForkServer, load_hashes
from code_verifier.scripts.values import describe

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
_encode = json.JSONEncoder().encode
_PAGE = 4096
_INPUT_BYTES = 1 << 28
_BEAT_S = 1.0
_PROGRESS_S = 0.01
_SPENT, _RAISED, _FULL = 72, 73, 74
"""Exit codes of a child's own, behind 0 for a whole report or the end of a script."""
_EXITS = {
    0: (Status.OK, ""),
    _SPENT: (Status.TIMEOUT, "slept longer than the limit of time"),
    _RAISED: (Status.EXCEPTION, ""),  # the shared memory holds its type
    _FULL: (Status.TOO_LONG, "returned more than the limit of output"),
}
_SEEN = {
    Status.TOO_LONG: "wrote more than the limit of output",
    Status.TIMEOUT: "waited for something that does not come",
}
"""Why the server ends a child."""
_DIGITS = 4300
_REASON_CHARS = 300
_WALL_FACTOR = 10.0  # of processor time, since a busy machine gives little of its time


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a script need not read all of its input
    server = OrdinaryServer(protocol.receive_config())
    protocol.send(marshal.dumps(server.layers))
    while head := protocol.read(LENGTH.size + LENGTH.size):
        (length,), (size,) = LENGTH.unpack_from(head), LENGTH.unpack_from(head, LENGTH.size)
        server.execute(marshal.loads(protocol.read(size)), length - LENGTH.size - size)


def _preload(numpy_from: str | None) -> None:
    """Import what programs may; numpy from its folder, or None to leave it out."""
    for name in _STANDARD.split():
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a build of Python without it
    load_hashes()
    if numpy_from is not None:
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = "1"  # a thread would not survive the fork
        sys.path.append(numpy_from)
        for name in _NUMPY.split():
            importlib.import_module(name)
    sys.path.clear()


class OrdinaryServer(ForkServer):
    """State of the server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        sys.set_int_max_str_digits(_DIGITS)
        _preload(config["numpy"])
        self.idle_s: float = config["idle_s"]
        for set_names in (site.setquit, site.setcopyright, site.sethelper):
            set_names()  # which -S leaves out
        super().__init__(config, config["memory"], _HIDDEN, _INPUT_BYTES)
        self.progress = mmap.mmap(-1, _PAGE)
        gc.collect()
        gc.freeze()  # out of the collector's way, in the children too

    def execute(self, order: dict[str, Any], size: int) -> None:
        """Fork a child that reads its task of `size` bytes, and send what came of it."""
        self.progress[:] = bytes(_PAGE)  # nothing of an earlier child's
        source = _file(order["stdin"])
        result, sink = os.pipe()
        # Unmapped before the next fork, so that no later child finds what this one returned.
        room = mmap.mmap(-1, order["output_bytes"] + READ)
        task = b""

        def enter() -> None:
            nonlocal task
            task = protocol.read(size)
            if not task:
                os._exit(1)
            os.write(sink, b"\0")
            os.dup2(source, 0)
            os.dup2(sink, 1)
            if order["kind"] == "calls":
                os.dup2(1, RESULT_FD)
                os.closerange(0, RESULT_FD)
                os.closerange(RESULT_FD + 1, 16)
            else:
                os.closerange(2, 16)
            if order["deep"]:
                _, most = resource.getrlimit(resource.RLIMIT_STACK)
                resource.setrlimit(resource.RLIMIT_STACK, (most, most))

        def run() -> None:
            if order["kind"] == "calls":
                _serve_calls(marshal.loads(task), self.progress, room)
            _serve_script(marshal.loads(task), self.progress)

        hard_s: float = order["hard_s"]
        pid = self.fork(order["kind"], order["cpu_s"], hard_s, enter, run, threads=True)
        os.close(source)
        os.close(sink)
        if pid < 0 or not os.read(result, 1):
            os._exit(1)  # the task was not read: the caller makes a new server
        seen, written = _watch(pid, result, room, self.progress, self.idle_s, order)
        os.close(result)
        status, reason, code, spent = self.reap(pid, bool(seen), hard_s)
        number = int.from_bytes(self.progress[:8], "little") & 0xFFFFFFFF
        if seen:
            status, reason = seen, _SEEN[seen]
        elif code in _EXITS and status == Status.VIOLATION:
            status, reason = _EXITS[code]
            reason = reason or bytes(self.progress[8:208]).rstrip(b"\0").decode("utf-8", "replace")
        if status == Status.TIMEOUT and code not in (signal.SIGPROF, _SPENT):
            number = 0  # the time of the whole process, and not of a call
        if order["kind"] == "calls":
            written = max(0, room.find(b"\0"))
        text = reason.encode("utf-8", "replace")
        head = HEAD.pack(CODES[status], number, spent, len(text)) + text
        with room, memoryview(room) as whole, whole[:written] as data:
            protocol.write(1, LENGTH.pack(len(head) + written) + head)
            protocol.write(1, data)


def _watch(
    pid: int,
    result: int,
    room: mmap.mmap,
    progress: mmap.mmap,
    idle_s: float,
    order: dict[str, Any],
) -> tuple[str, int]:
    """Take what a child writes into `room` until it has left ("") or is to be killed: it wrote too
    much (`too_long`), does nothing for `idle_s`, takes longer than all or than the call that
    `progress` names may take, or has lost its caller (`timeout`). Also the bytes that it wrote."""
    call_s, wall_s = _WALL_FACTOR * order["call_s"], _WALL_FACTOR * order["hard_s"]
    end = os.pidfd_open(pid)
    clock = (~pid << 3) | 2  # CPUCLOCK_SCHED of a process, see clock_getres(2)
    poller = select.poll()
    poller.register(0, 0)  # hang-up only: the caller is gone
    poller.register(result, select.POLLIN)
    started = begun = moved = now = time.monotonic()
    written, cpu, call = 0, 0.0, bytes(8)
    beat_s = min(_BEAT_S, idle_s)
    try:
        while True:
            wait_s = max(0.0, min(begun + call_s, started + wall_s) - now)
            for source, _ in poller.poll(min(beat_s, wait_s) * 1000.0 + 1.0):
                if source == 0:
                    return Status.TIMEOUT, written
                if source == end:
                    return "", written
                with memoryview(room) as whole, whole[written : written + READ] as place:
                    count = os.readv(result, [place])
                written += count
                if not count:  # it ends now, as a rule
                    poller.unregister(result)
                    poller.register(end, select.POLLIN)
                if written > len(room) - READ:
                    return Status.TOO_LONG, 0
            now = time.monotonic()
            if progress[:8] != call:
                call, begun = progress[:8], now
            if now - moved >= beat_s:
                spent = time.clock_gettime(clock)
                if spent - cpu > _PROGRESS_S:
                    cpu, moved = spent, now
            if now > min(moved + idle_s, begun + call_s, started + wall_s):
                return Status.TIMEOUT, written
    finally:
        os.close(end)


def _file(data: bytes) -> int:
    """A file in memory that holds the data: programs ask for its size, and seek in it."""
    file = os.memfd_create("stdin")
    resource.setrlimit(resource.RLIMIT_FSIZE, (_INPUT_BYTES, _INPUT_BYTES))
    protocol.write(file, data)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, _INPUT_BYTES))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _serve_calls(request: dict[str, Any], progress: Any, room: mmap.mmap) -> NoReturn:
    """Load the module, make the calls, report.

    request: see `runner`. progress, room: shared memory; the first eight bytes of the former say
    which call runs (from 1 on), so that the caller knows where a process was killed; the latter is
    for the report.
    """
    sys.stdin, sys.stdout, sys.stderr = (files.stream(n, files.Nowhere(n)) for n in range(3))
    _settle({})
    try:
        entry = _load(request)
    except BaseException as error:
        _end(room, Status.EXCEPTION, error)
    calls = zip(marshal.loads(request["inputs"]), request["limits"], strict=True)
    for number, (args, limit) in enumerate(calls):
        progress[:8] = (number + 1).to_bytes(8, "little")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            value = entry(*args)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            sys.settrace(None)
            sys.setprofile(None)
            spent = time.process_time() - started
            name, digest, text, chars, floats = _described(value, request["draw"])
            text = text if chars <= request["text_chars"] else None
            line = _encode([name, digest, text, chars, floats])
            _send(room, f"{line[:-1]}, {spent:.9f}]\n")
        except BaseException as error:
            _end(room, Status.EXCEPTION, error)
    _end(room, Status.OK, None)


def _load(request: dict[str, Any]) -> Any:
    """Execute the module; the function to call."""
    sys.setrecursionlimit(request["recursion"])
    module = type(sys)("solution")
    sys.modules["solution"] = module
    names = module.__dict__
    for part in ("prelude", "program"):
        exec(compile(request[part], f"<{part}>", "exec", dont_inherit=True), names)
    if request["owner"] in names:
        return getattr(names[request["owner"]](), request["entry"])
    return names[request["entry"]]


def _described(value: Any, draw: bool) -> tuple[str, str, str | None, int, bool]:
    """`describe` with room for deep values, whatever limits the program has set."""
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(_DIGITS)
    sys.setrecursionlimit(max(depth, 10_000))
    try:
        return describe(value, draw)
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


def _end(room: mmap.mmap, status: str, error: BaseException | None) -> NoReturn:
    """Send the last line, and leave without finalisers."""
    gc.disable()
    reason = "" if error is None else _reason(error)
    _send(room, f"{_encode([status, reason])}\n")
    os._exit(0)


def _send(room: mmap.mmap, line: str) -> None:
    try:
        room.write(line.encode())
    except ValueError:
        os._exit(_FULL)


def _reason(error: BaseException) -> str:
    """Type and first argument of an exception, without calling the program's own methods."""
    name = str(type.__dict__["__name__"].__get__(type(error)))
    args = BaseException.__dict__["args"].__get__(error)
    message = args[0] if args and type(args[0]) is str else ""
    return (f"{name}: {message}" if message else name)[:_REASON_CHARS]


def _serve_script(request: dict[str, Any], progress: Any) -> NoReturn:
    """Run the script to its end. `exit()` is an end like any other; the first eight bytes of
    `progress` say with which code."""
    sys.stdin = files.stream(0, io.FileIO(0, "r", closefd=False))
    sys.stdout = output = files.stream(1, io.FileIO(1, "w", closefd=False))
    sys.stderr = files.stream(2, files.Nowhere(2))
    _settle(request["files"])
    sys.argv = ["solution.py"]
    sys.setrecursionlimit(request["recursion"])
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    code = 0
    try:
        exec(compile(request["prelude"], "<prelude>", "exec"), main.__dict__)
        exec(compile(request["program"], "<solution>", "exec", dont_inherit=True), main.__dict__)
        for thread in threading.enumerate():  # as at the end of an interpreter
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        progress[:8] = (status & 0xFF).to_bytes(8, "little")
    except BaseException as error:
        name = type.__dict__["__name__"].__get__(type(error)).encode()[:200]
        progress[8 : 8 + len(name)] = name
        code = _RAISED
    for stream in (sys.stdout, output):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # closed or replaced by the program
    os._exit(code)


def _settle(given: dict[str, bytes]) -> None:
    """What both kinds of programs find at their start, with their streams in place."""
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    time.sleep = _sleep
    files.install(given)


def _sleep(seconds: Any, /) -> None:
    """Sleeping takes from the time that the call may run, and does not wait."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    left = signal.getitimer(signal.ITIMER_PROF)[0] - seconds
    if left <= 0:
        os._exit(_SPENT)
    signal.setitimer(signal.ITIMER_PROF, left)
