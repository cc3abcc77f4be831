"""A fork server or reader as the caller sees it: its start, its requests, why it was lost."""

import marshal
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail import syscalls, wire

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
    r"(?i)memory|map segment|without exception": "free or allow more memory: ulimit -v unlimited",
    r"temporarily unavailable": "allow more processes: ulimit -u 256, or --pids-limit 256 of the "
    "container",
    r"Too many open files": "allow more open files: ulimit -n 1024",
    r"(?i)file (too large|size limit)|files may have": "allow larger files: ulimit -f unlimited",
    r"CPU time": "allow more processor time: ulimit -t unlimited",
    r"No space left|no temporary folder|code-verifier-[0-9a-f]{16}": "make room, name a folder "
    "that can be written (export TMPDIR=FOLDER), or allow files (ulimit -f unlimited)",
}
"""What to type, by the words of an error."""
_VARIABLES = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "LD_BIND_NOW": "1"}
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
            wire.READER: {"reader": build(1, 0, timer=True)},
            wire.STRICT: {"function": build()},
            wire.ORDINARY: {"calls": build(mild=True), "script": build(1, 0, mild=True)},
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


OUT_OF_BUDGET = -getattr(signal, "SIGPROF", 27)  # which Windows lacks
"""The code of a reader that took too long."""


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
            with suppress(ProcessLost):
                return self._start()
            self._start()
        except ProcessLost as error:
            raise _unavailable(f"a confined process did not start: {error}") from None

    def _start(self) -> None:
        try:
            jail = os.path.join(tempfile.gettempdir(), f"code-verifier-{secrets.token_hex(8)}")
        except OSError as error:
            raise _unavailable(f"no temporary folder can be made: {error.strerror}") from None
        try:
            self._spawn()
            deadline = time.monotonic() + _START_S
            config = asdict(self._profile) | {"filters": self._profile.filters()}
            self._write(wire.frame(marshal.dumps(config | {"jail_dir": jail})), deadline)
            self.layers = marshal.loads(self._read(deadline))
        except ProcessLost as error:
            raise self._last_words(error) from None
        finally:
            with suppress(OSError):  # it is gone, unless the process was killed in that moment
                os.rmdir(jail)

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
        process, data = self._process, b""
        if process is not None and process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            with suppress(BlockingIOError):
                data = os.read(process.stderr.fileno(), wire.READ)
        code = self.close()
        lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]
        lines = [line for line in lines if "rror" in line] or lines
        if not lines and code is not None and code < 0 and str(error) == _ENDED:
            lines = [str(signal.strsignal(-code))]
        lost = ProcessLost(": ".join([str(error), *(x.strip()[:_WORDS_CHARS] for x in lines[-1:])]))
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
                    env=_loading() | _VARIABLES | {"PYTHONHASHSEED": str(seed)},
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                raise _unavailable(f"cannot start {sys.executable}: {error}") from None
        pipes = (process.stdin, process.stdout)
        self._in, self._out = (pipe.fileno() for pipe in pipes if pipe is not None)
        os.set_blocking(self._in, False)

    def _write(self, body: bytes, deadline: float) -> None:
        if self._process is None:
            raise ProcessLost("it is not running")
        view = memoryview(body)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                self._wait(self._in, select.POLLOUT, deadline)
            except OSError:  # it has ended, or another thread closed it
                raise ProcessLost(_ENDED) from None

    def _read(self, deadline: float) -> bytes:
        data = bytearray()
        size = wire.LENGTH.size
        while len(data) < size:
            self._wait(self._out, select.POLLIN, deadline)
            part = os.read(self._out, wire.READ if not data else min(wire.READ, size - len(data)))
            if not part:
                raise ProcessLost(_ENDED)
            data += part
            if size == wire.LENGTH.size and len(data) >= size:
                size += wire.LENGTH.unpack_from(data)[0]
                if size > _MAX_REPLY:
                    raise ProcessLost("it sent a reply without end")
        del data[: wire.LENGTH.size]
        return bytes(data)

    def _wait(self, file: int, event: int, deadline: float) -> None:
        poller = select.poll()
        poller.register(file, event)
        left_ms = 1000.0 * (deadline - time.monotonic())
        if left_ms <= 0 or not poller.poll(min(left_ms, _LONGEST_WAIT_MS)):
            raise ProcessLost("it stopped answering")


def _loading() -> dict[str, str]:
    """The variables by which this Python found its own files."""
    variables = {name: os.environ[name] for name in wire.LOADING if name in os.environ}
    if variables.get("PYTHONHOME", "").partition(os.pathsep)[0] != sys.base_prefix:
        variables.pop("PYTHONHOME", None)  # set after the start: it did not serve this process
    return variables


def remedy(words: str) -> str:
    """Return what to do about an error of a process."""
    advice = (text for pattern, text in _REMEDIES.items() if re.search(pattern, words))
    return next(advice, DOCTOR)


def _unavailable(words: str) -> SandboxUnavailable:
    return SandboxUnavailable(f"{words}; {remedy(words)}")
