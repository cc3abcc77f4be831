"""Fork servers as the caller sees them, and the pool that a sandbox keeps of them: started when
first needed, and replaced when they break."""

import marshal
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail import syscalls
from code_verifier.jail.wire import (
    LENGTH,
    LOADING,
    ORDINARY,
    READ,
    READER,
    REPLY,
    STATUSES,
    STRICT,
    frame,
)

_START_S = 60.0
_MAX_REPLY = (1 << 28) + (1 << 20)
"""Bytes of the largest output that a caller allows, and of the reply around it."""
_LONGEST_WAIT_MS = 2**31 - 1
_WORDS_CHARS = 300
_ENDED = "it ended"
DOCTOR = "type `code-verifier doctor`"
_REMEDIES = {
    r"shared (object|librar)|encodings|No module named": "this Python does not find its own files: "
    "set LD_LIBRARY_PATH and PYTHONHOME as where it runs (`module load`)",
    r"(?i)memory|map segment": "free or allow more memory: ulimit -v unlimited",
    r"temporarily unavailable": "allow more processes: ulimit -u 256, or --pids-limit 256 of the "
    "container",
    r"Too many open files": "allow more open files: ulimit -n 1024",
    r"(?i)file (too large|size limit)|files may have": "allow larger files: ulimit -f unlimited",
    r"CPU time": "allow more processor time: ulimit -t unlimited",
    r"No space left": "make room in the folder of temporary files, or export TMPDIR=FOLDER",
}
"""What to type, by the words of an error."""
# A bare package object spares the process every import that it does not need.
_BOOTSTRAP = (
    "import sys; p = type(sys)('code_verifier'); p.__path__ = [sys.argv[1]]; "
    "sys.modules['code_verifier'] = p; import code_verifier.jail.server as m; m.main()"
)


HASH_SEEDS = (
    1, 20_260_501, 3_141_592_653, 42, 2_718_281_828, 1_000_003, 7, 4_000_000_007,
    11, 577_215_664, 1_618_033_988, 23, 3_333_333_333, 69, 271_828, 99_991,
)  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """The kind of a process: the reader of programs, or a fork server of functions of literals
    (strict) or of ordinary modules and scripts.

    memory: bytes of address space that a program may use beyond the bare process. modules: imported
    before the first fork, see `jail.wire`. index: of the hash seed; of a strict process also of its
    clocks, entropy and addresses. clock_s: the time at which its clocks stop. libraries: names,
    each with the folder that holds it.
    """

    kind: str
    memory: int
    modules: str = ""
    index: int = 0
    clock_s: float = 0.0
    libraries: tuple[tuple[str, str], ...] = ()

    def filters(self) -> dict[str, bytes]:
        """Return the filters of system calls, by the kind of child; none for unknown machines."""
        build = syscalls.build
        filters = {
            READER: {"reader": build(1, 0, timer=True)},
            STRICT: {"function": build()},
            ORDINARY: {"calls": build(mild=True), "script": build(1, 0, mild=True)},
        }[self.kind]
        return {name: filter for name, filter in filters.items() if filter is not None}


@dataclass(frozen=True)
class Order:
    """The part of a request that a server reads: `kind` (`function`, `calls` or `script`), limits
    (see `jail.server`), and the standard input of a script."""

    kind: str
    cpu_s: float = 0.0
    hard_s: float = 0.0
    call_wall_s: float = 0.0
    wall_s: float = 0.0
    idle_s: float = 0.0
    output_bytes: int = 0
    stdin: bytes = b""
    deep: bool = False


class Reply(NamedTuple):
    """The reply to a request, see `jail.wire`; the report may be forged."""

    status: str
    flags: int
    number: int
    cpu_s: float
    wall_ms: float
    reason: str
    report: bytes


class ProcessLost(Exception):
    """The process ended, stopped answering, or sent nonsense. code: its return code, or None."""

    code: int | None = None


class Process:
    """A fork server of a profile, started by `subprocess`, which is safe in a process with threads.

    Only `end` may be called while another thread uses it.
    """

    def __init__(self, profile: Profile) -> None:
        self.layers: dict[str, bool] = {}
        self._profile = profile
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._in = self._out = -1
        self._readable: Any = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        process = self._process
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start the process and wait for its first frame; if it is lost before, start it again,
        once. Raises SandboxUnavailable."""
        if sys.platform != "linux":
            raise SandboxUnavailable(
                f"the sandbox needs Linux, and this is {sys.platform}; run it in a Linux "
                "container or virtual machine"
            )
        try:
            try:
                self._start()
            except ProcessLost:
                self._start()
        except ProcessLost as error:
            raise SandboxUnavailable(
                f"a confined process did not start: {error}; {remedy(str(error))}"
            ) from None

    def _start(self) -> None:
        try:
            folder = tempfile.TemporaryDirectory(prefix="code-verifier-")
        except OSError as error:
            raise SandboxUnavailable(
                f"no temporary folder can be made: {error.strerror}; make room, name a folder that "
                "can be written (export TMPDIR=FOLDER), or allow files (ulimit -f unlimited)"
            ) from None
        with folder as jail:
            os.chmod(jail, 0o755)
            self._spawn()
            try:
                deadline = time.monotonic() + _START_S
                config = asdict(self._profile) | {"filters": self._profile.filters()}
                self._write(frame(marshal.dumps(config | {"jail_dir": jail})), deadline)
                self.layers = marshal.loads(self._read(deadline))
            except ProcessLost as error:
                raise self._last_words(error) from None

    def ask(self, request: bytes, deadline: float) -> bytes:
        """Return the reply to one request by `deadline` (monotonic). Raises ProcessLost. After any
        exception the process is closed, so that a late reply cannot answer the next request."""
        try:
            self._write(request, deadline)
            return self._read(deadline)
        except BaseException as error:
            if isinstance(error, ProcessLost):
                raise self._last_words(error) from None
            self.close()
            raise

    def _last_words(self, error: ProcessLost) -> ProcessLost:
        """Close a lost process; return the error with what the process last said, and its code."""
        process, said = self._process, b""
        if process is not None and process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            with suppress(BlockingIOError):
                said = os.read(process.stderr.fileno(), READ)
        code = self.close()
        lines = [line for line in said.decode("utf-8", "replace").split("\n") if line.strip()]
        lines = [line for line in lines if "rror" in line] or lines
        if not lines and code is not None and code < 0 and str(error) == _ENDED:
            lines = [str(signal.strsignal(-code))]
        words = f": {lines[-1].strip()[:_WORDS_CHARS]}" if lines else ""
        lost = ProcessLost(f"{error}{words}")
        lost.code = code
        return lost

    def end(self) -> None:
        """Kill the process, from any thread; a waiting thread gets ProcessLost."""
        self._ended = True
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def close(self) -> int | None:
        """Kill the process with its child, and reap it. Returns its return code, if it ran."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return None
        with process:  # which closes its pipes and waits for it
            process.kill()
        return process.returncode

    def abandon(self) -> None:
        """Forget a process that belongs to the parent of this (forked) process."""
        process, self._process = self._process, None
        if process is not None:
            with process:  # which closes its pipes
                process.returncode = 0  # not ours to wait for

    def _spawn(self) -> None:
        code = _BOOTSTRAP, str(Path(__file__).resolve().parent)
        seed = HASH_SEEDS[self._profile.index]
        with self._lock:
            if self._ended:
                raise ProcessLost("the sandbox is closed")
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-sSPB", "-Wignore", "-c", *code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=_loading()
                    | {
                        "PYTHONHASHSEED": str(seed),
                        "LC_ALL": "C.UTF-8",
                        "TZ": "UTC",
                        "LD_BIND_NOW": "1",
                    },
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                raise SandboxUnavailable(
                    f"cannot start {sys.executable}: {error}; {remedy(str(error))}"
                ) from None
        pipes = (process.stdin, process.stdout)
        self._in, self._out = (pipe.fileno() for pipe in pipes if pipe is not None)
        os.set_blocking(self._in, False)
        self._readable = select.poll()
        self._readable.register(self._out, select.POLLIN)

    def _write(self, body: bytes, deadline: float) -> None:
        if self._process is None:
            raise ProcessLost("it is not running")
        view = memoryview(body)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                poller = select.poll()
                poller.register(self._in, select.POLLOUT)
                self._wait(poller, deadline)
            except OSError as error:
                raise ProcessLost(f"it closed its pipe: {error.strerror}") from None

    def _read(self, deadline: float) -> bytes:
        data = bytearray()
        size = LENGTH.size
        while len(data) < size:
            self._wait(self._readable, deadline)
            part = os.read(self._out, READ if not data else min(READ, size - len(data)))
            if not part:
                raise ProcessLost(_ENDED)
            data += part
            if size == LENGTH.size and len(data) >= size:
                size += LENGTH.unpack_from(data)[0]
                if size > _MAX_REPLY:
                    raise ProcessLost("it sent a reply without end")
        del data[: LENGTH.size]
        return bytes(data)

    def _wait(self, poller: Any, deadline: float) -> None:
        """Until the poller has an event."""
        left_ms = 1000.0 * (deadline - time.monotonic())
        if left_ms <= 0 or not poller.poll(min(left_ms, _LONGEST_WAIT_MS)):
            raise ProcessLost("it stopped answering")


def _loading() -> dict[str, str]:
    """The variables by which this Python found its own files."""
    variables = {name: os.environ[name] for name in LOADING if name in os.environ}
    if variables.get("PYTHONHOME", "").partition(os.pathsep)[0] != sys.base_prefix:
        variables.pop("PYTHONHOME", None)  # set after the start: it did not serve this process
    return variables


def remedy(words: str) -> str:
    """Return what to do about an error of a process."""
    advice = (text for pattern, text in _REMEDIES.items() if re.search(pattern, words))
    return next(advice, DOCTOR)


OUT_OF_BUDGET = -getattr(signal, "SIGPROF", 27)  # which Windows lacks
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
            # Found here, and not by a thread: `tempfile` holds a lock for as long as it looks, and
            # a process that is forked then would wait for it for good.
            tempfile.gettempdir()
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._lent: Counter[Profile] = Counter()
        self._slots = self._new_slots()
        self._idle: list[tuple[Profile, Process]] = []  # used last, last
        self._all: set[Process] = set()

    def ask(self, profile: Profile, order: Order, task: bytes, grace_s: float) -> Reply:
        """Return the reply to a request; if a server is lost, ask a new one, once. grace_s: seconds
        until a server counts as lost. Raises ProcessLost, SandboxUnavailable."""
        if self._pid != os.getpid():
            self.forget()
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
        if self._pid != os.getpid():
            self.forget()
            return
        with self._lock:
            running, idle = list(self._all), self._idle
            self._idle = []
            self._all.difference_update(process for _, process in idle)
        for process in running:
            process.end()
        for _, process in idle:
            process.close()

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
            with self._lock:
                idle, self._idle = self._idle, []
                self._all.difference_update(other for _, other in idle)
            if not idle:
                raise
            for _, other in idle:
                other.close()
            process.start()

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
            keep = process.pid is not None and not self._closed
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
        if not missing:
            for name in DETERMINISM:
                if not process.layers.get(name, True):
                    _warn_once(name)


_lacking: set[str] = set()


def _warn_once(layer: str) -> None:
    if layer in _lacking:
        return
    _lacking.add(layer)
    warnings.warn(
        f"this machine lacks the layer {layer!r}: {DETERMINISM[layer]}; {DOCTOR}",
        RuntimeWarning,
        stacklevel=2,
    )


_CLOSED = "the sandbox is closed; open it with `with`"
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
