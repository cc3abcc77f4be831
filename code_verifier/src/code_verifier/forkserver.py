"""The caller's end of one fork server: start it, ask it, replace it when it breaks."""

import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from code_verifier.errors import SandboxUnavailable

_LENGTH = struct.Struct("<I")
_START_S = 60.0
_GRACE_S = 10.0
_MAX_REPLY = 1 << 28
# A bare package object spares the server every import that it does not need.
_BOOTSTRAP = (
    "import sys, types; p = types.ModuleType('code_verifier'); p.__path__ = [sys.argv[1]]; "
    "sys.modules['code_verifier'] = p; from code_verifier.jail.server import main; "
    "main(int(sys.argv[2]), sys.argv[3])"
)
HASH_SEEDS = (1, 20_260_501, 3_141_592_653, 42, 2_718_281_828, 1_000_003, 7, 4_000_000_007)


class ServerLost(Exception):
    """The fork server ended, stopped answering, or answered nonsense."""


class ForkServer:
    """One fork server process. `index` selects its hash seed and its clocks.

    Not for use by two threads at once. The process is started by `subprocess`, which is safe
    in a process with threads.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.layers: dict[str, bool] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Start the process without waiting for it."""
        if self._process is not None:
            return
        if sys.platform != "linux":
            raise SandboxUnavailable(
                f"the sandbox needs Linux, and this is {sys.platform}; run it in a Linux "
                "container or virtual machine"
            )
        with tempfile.TemporaryDirectory(prefix="code-verifier-") as jail:
            self._process = self._spawn(jail)
            self._ready = False
            self._wait_ready()

    def _spawn(self, jail: str) -> subprocess.Popen[bytes]:
        package = str(Path(__file__).resolve().parent)
        seed = str(HASH_SEEDS[self.index % len(HASH_SEEDS)])
        command = [sys.executable, "-sSPB", "-Wignore", "-c", _BOOTSTRAP, package]
        os.chmod(jail, 0o755)
        try:
            return subprocess.Popen(
                [*command, str(self.index), jail],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": seed, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise SandboxUnavailable(f"cannot start {sys.executable}: {error}") from None

    def _wait_ready(self) -> None:
        try:
            hello = self._read(time.monotonic() + _START_S)
        except ServerLost as error:
            self.close()
            raise SandboxUnavailable(
                f"the fork server did not start ({error}); type `code-verifier doctor`"
            ) from None
        self.layers = dict(hello["layers"])
        self._ready = True

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ask(self, request: dict[str, Any], wall_s: float) -> dict[str, Any]:
        """The reply to one request. Raises ServerLost, after which the server is closed."""
        self.start()
        deadline = time.monotonic() + wall_s + _GRACE_S
        body = json.dumps(request).encode()
        try:
            self._write(_LENGTH.pack(len(body)) + body, deadline)
            return self._read(deadline)
        except BaseException:
            self.close()  # also on KeyboardInterrupt: a late reply must not answer the next one
            raise

    def close(self) -> None:
        """End the process and reap it; its child ends with it."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()

    def abandon(self) -> None:
        """Forget a process that belongs to the parent of this (forked) process."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.returncode = 0  # not ours to wait for

    def _descriptors(self) -> tuple[int, int]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ServerLost("it is not running")
        return process.stdin.fileno(), process.stdout.fileno()

    def _write(self, data: bytes, deadline: float) -> None:
        fd, _ = self._descriptors()
        os.set_blocking(fd, False)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                _wait(fd, select.POLLOUT, deadline)
            except OSError as error:
                raise ServerLost(f"it closed its pipe: {error}") from None

    def _read(self, deadline: float) -> dict[str, Any]:
        size = _LENGTH.unpack(self._read_exactly(_LENGTH.size, deadline))[0]
        if size > _MAX_REPLY:
            raise ServerLost("it sent a reply without end")
        try:
            reply = json.loads(self._read_exactly(size, deadline))
        except ValueError:
            raise ServerLost("it sent a reply that is not JSON") from None
        if not isinstance(reply, dict):
            raise ServerLost("it sent a reply that is not an object")
        return reply

    def _read_exactly(self, size: int, deadline: float) -> bytes:
        _, fd = self._descriptors()
        data = b""
        while len(data) < size:
            _wait(fd, select.POLLIN, deadline)
            part = os.read(fd, size - len(data))
            if not part:
                raise ServerLost("it ended")
            data += part
        return data


def _wait(fd: int, event: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(fd, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poller.poll(left * 1000.0):
        raise ServerLost("it stopped answering")
