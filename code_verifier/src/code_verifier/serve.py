"""Serve SandboxFusion's `/run_code` on this machine, so that its clients need no container.

A request is JSON: `code`, and optionally `stdin`, `run_timeout` (processor seconds), `files` (name
to base64; a program reads and imports them from memory). Python is the only language. The files
that a program writes are lost when it ends, so none can be fetched. The address is always the
loopback's, because anyone who reaches it can run programs.
"""

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from code_verifier.errors import CodeVerifierError, SandboxUnavailable, Status
from code_verifier.scripts.runner import ScriptRunner
from code_verifier.user_files import Row

HOST = "127.0.0.1"
QUEUE = 512
"""Most requests that wait or run at a time; more get 503."""
_MOST_BYTES = 1 << 27
_BUSY = "too many requests wait; send fewer at a time, or start more workers"
_SURROGATE = re.compile("[\ud800-\udfff]")
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.I)
_MOST_S = 3600.0


class Server(ThreadingHTTPServer):
    """A server of programs, bound when it is made. port: 0 for any. workers: programs that run at
    a time. queue: see QUEUE. Raises CodeVerifierError for a port that cannot be used."""

    request_queue_size = QUEUE

    def __init__(self, port: int, workers: int, queue: int = QUEUE) -> None:
        self.runner = ScriptRunner(slots=threading.BoundedSemaphore(workers))
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise CodeVerifierError(
                f"cannot listen on port {port} of {HOST}: {error.strerror}; type another --port, "
                "or 0 for a free one"
            ) from None
        self.places = threading.BoundedSemaphore(queue)

    @property
    def url(self) -> str:
        """The address that clients are given."""
        return f"http://{HOST}:{self.server_port}/run_code"

    def server_close(self) -> None:
        """End all processes, and close the port."""
        self.runner.close()
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has gone away."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one piece
    timeout = 30.0  # seconds to wait for more of a request

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer `/v1/ping`, by which clients test whether the server is up."""
        if refusal := self._stranger():
            self._refuse(403, refusal)
        elif self.path == "/v1/ping":
            self._answer(200, "pong")
        else:
            self._refuse(404, f"no {self.path} here; expected POST /run_code")

    def do_POST(self) -> None:
        """Answer `/run_code`. The body is read only if the request is accepted."""
        sizes = self.headers.get_all("Content-Length", [])
        text = sizes[0] if len(sizes) == 1 else ""
        is_number = text.isascii() and text.isdecimal() and len(text) < 12
        if refusal := self._stranger():
            self._refuse(403, refusal)
        elif not is_number or int(text) > _MOST_BYTES or "Transfer-Encoding" in self.headers:
            self._refuse(413, f"expected one number up to {_MOST_BYTES} as Content-Length")
        elif self.path.rstrip("/") != "/run_code":
            self._refuse(404, f"no {self.path} here; expected POST /run_code")
        elif not self.server.places.acquire(blocking=False):
            self._refuse(503, _BUSY)
        else:
            try:
                send, status, content = self._run(int(text))
            finally:
                self.server.places.release()  # first: whoever has the answer may ask again
            send(status, content)

    def _run(self, size: int) -> tuple[Callable[[int, Any], None], int, Any]:
        try:
            return self._answer, 200, run_code(self.server.runner, self._read(size))
        except TimeoutError:
            return self._refuse, 408, f"no whole request of {size} bytes came in time"
        except SandboxUnavailable as error:
            return self._answer, 200, _response("SandboxError", str(error))
        except CodeVerifierError as error:
            return self._answer, 400, {"detail": str(error)}

    def _read(self, size: int) -> bytes:
        """A body of `size` bytes; it may take the time-out and one second a MiB."""
        ends = time.monotonic() + self.timeout + size / (1 << 20)
        body = bytearray()
        while len(body) < size:
            part = self.rfile.read1(min(size - len(body), 1 << 20))
            if not part:
                raise ConnectionError
            if time.monotonic() > ends:
                raise TimeoutError
            body += part
        return bytes(body)

    def _stranger(self) -> str:
        """Why the request may come from a web page in a browser on this machine, or "": such pages
        send their address as origin, or another name as host."""
        hosts = self.headers.get_all("Host", ["localhost"])
        ours = {f"http://{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        foreign = [host for host in hosts if not _LOCAL.fullmatch(host.strip())]
        foreign += [origin for origin in self.headers.get_all("Origin", []) if origin not in ours]
        if foreign or len(hosts) > 1:
            name = (foreign or hosts)[0][:80]
            return f"Host or Origin is {name!r}; only programs on this machine are served"
        return ""

    def _refuse(self, status: int, line: str) -> None:
        """Answer without reading the body, and close the connection."""
        self.close_connection = True
        self._answer(status, {"detail": line})
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            self.rfile.read(1 << 16)  # unread bytes would reset the connection

    def _answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def run_code(runner: ScriptRunner, body: bytes) -> Row:
    """Return the response to one request. Raises CodeVerifierError for one that cannot be used,
    SandboxUnavailable."""
    try:
        row = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CodeVerifierError(f"the request is not JSON: {error}") from None
    row = row if isinstance(row, dict) else {}
    code, stdin, limit = row.get("code"), row.get("stdin"), row.get("run_timeout", 10.0)
    if not isinstance(code, str) or not isinstance(stdin, str | None):
        raise CodeVerifierError("expected 'code', a text, and 'stdin', a text or null")
    if (language := row.get("language", "python")) != "python" or row.get("fetch_files"):
        name = repr(language)[:40]
        raise CodeVerifierError(f"language is {name}; expected 'python', and no 'fetch_files'")
    if stdin and _SURROGATE.search(stdin):
        raise CodeVerifierError("'stdin' holds half of a surrogate pair, which is no character")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= _MOST_S:
        raise CodeVerifierError(
            f"run_timeout is {str(limit)[:40]}; expected up to {_MOST_S:.0f} seconds"
        )
    files = _decode_files(row.get("files") or {})
    run = runner.run(code, stdin or "", cpu_s=limit, files=files)
    if run.status == Status.SANDBOX_ERROR:
        return _response("SandboxError", run.reason)
    late = run.status == Status.TIMEOUT
    exit_code = run.exit_code if run.status == Status.OK else 1
    result = {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": run.cpu_s,
        "return_code": None if late else exit_code,
        "stdout": run.output.decode("utf-8", "replace"),
        "stderr": run.reason,
    }
    return _response("Failed" if late or exit_code else "Success", "", result)


def _decode_files(files: Any) -> dict[str, bytes]:
    with suppress(ValueError, TypeError, AttributeError):
        texts = {name: re.sub(r"[\r\n]", "", text or "") for name, text in files.items()}
        return {name: base64.b64decode(text, validate=True) for name, text in texts.items()}
    raise CodeVerifierError("expected 'files' as an object of names with their content in base64")


def _response(status: str, message: str, result: dict[str, Any] | None = None) -> dict[str, Any]:
    head = {"status": status, "message": message, "compile_result": None, "run_result": result}
    return head | {"executor_pod_name": None, "files": {}}
