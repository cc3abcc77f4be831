"""The caller's end of one confined process: start it, ask it, end it."""

import marshal
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail.protocol import LENGTH, READ

_START_S = 60.0
_MAX_REPLY = 1 << 28
_BEAT_S = 1.0
# A bare package object spares the process every import that it does not need.
_BOOTSTRAP = (
    "import sys; p = type(sys)('code_verifier'); p.__path__ = [sys.argv[1]]; "
    "sys.modules['code_verifier'] = p; import code_verifier.{module} as m; m.main()"
)


class ProcessLost(Exception):
    """The process ended, stopped answering, or answered nonsense."""


class Process:
    """A confined process that answers frames: a fork server or an examiner.

    module: its module in `code_verifier`, as "jail.server". hash_seed: its PYTHONHASHSEED.
    config: what its `main` expects first. Not for use by two threads at once, but for `end`. It is
    started by `subprocess`, which is safe in a process with threads.
    """

    def __init__(self, module: str, hash_seed: int, config: dict[str, Any]) -> None:
        self.layers: dict[str, bool] = {}
        self.idle_since = 0.0
        self._module = module
        self._hash_seed = hash_seed
        self._config = config
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
        """Whether it runs, as far as is known without asking it."""
        process = self._process
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start the process and wait for its first frame. Raises SandboxUnavailable."""
        if sys.platform != "linux":
            raise SandboxUnavailable(
                f"the sandbox needs Linux, and this is {sys.platform}; run it in a Linux "
                "container or virtual machine"
            )
        with tempfile.TemporaryDirectory(prefix="code-verifier-") as jail:
            os.chmod(jail, 0o755)
            self._spawn()
            try:
                deadline = time.monotonic() + _START_S
                self._write(marshal.dumps(self._config | {"jail_dir": jail}), deadline)
                self.layers = marshal.loads(self._read(deadline))
            except ProcessLost as error:
                self.close()
                raise SandboxUnavailable(
                    f"a confined process did not start ({error}); type `code-verifier doctor`"
                ) from None

    def ask(self, request: bytes, deadline: float) -> bytes:
        """The reply to one request by `deadline` (monotonic). Raises ProcessLost. After any
        exception the process is closed: a late reply must not answer the next request."""
        try:
            self._write(request, deadline)
            return self._read(deadline)
        except BaseException:
            self.close()
            raise

    def end(self) -> None:
        """Kill the process, from any thread; a thread that waits for it gets ProcessLost."""
        self._ended = True
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Kill the process and reap it; its child ends with it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with process:  # which closes its pipes and waits for it
                process.kill()

    def abandon(self) -> None:
        """Forget a process that belongs to the parent of this (forked) process."""
        process, self._process = self._process, None
        if process is not None:
            with process:  # which closes its pipes
                process.returncode = 0  # not ours to wait for

    def _spawn(self) -> None:
        code = _BOOTSTRAP.format(module=self._module), str(Path(__file__).resolve().parents[1])
        with self._lock:
            if self._ended:
                raise ProcessLost("the sandbox is closed")
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-sSPB", "-Wignore", "-c", *code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={"PYTHONHASHSEED": str(self._hash_seed), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                raise SandboxUnavailable(f"cannot start {sys.executable}: {error}") from None
        if process.stdin is None or process.stdout is None:
            raise SandboxUnavailable("a confined process has no pipes")
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._readable = select.poll()
        self._readable.register(self._out, select.POLLIN)

    def _write(self, body: bytes, deadline: float) -> None:
        if self._process is None:
            raise ProcessLost("it is not running")
        view = memoryview(LENGTH.pack(len(body)) + body)
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
        data = b""
        size = LENGTH.size
        while len(data) < size:
            self._wait(self._readable, deadline)
            part = os.read(self._out, READ if not data else min(READ, size - len(data)))
            if not part:
                raise ProcessLost("it ended")
            data += part
            if size == LENGTH.size and len(data) >= size:
                size += LENGTH.unpack_from(data)[0]
                if size > _MAX_REPLY:
                    raise ProcessLost("it sent a reply without end")
        return data[LENGTH.size :]

    def _wait(self, poller: Any, deadline: float) -> None:
        """Until the poller has an event. A process that is stopped (SIGSTOP) is lost."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProcessLost("it stopped answering")
            if poller.poll(min(left, _BEAT_S) * 1000.0):
                return
            if self._ended:
                raise ProcessLost("the sandbox is closed")
            if _is_stopped(self.pid):
                raise ProcessLost("it is stopped")


def _is_stopped(pid: int | None) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False
