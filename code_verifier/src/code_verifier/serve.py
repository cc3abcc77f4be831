"""Serve SandboxFusion's `/run_code` on this machine, so that its clients need no container.

A request is JSON: `code`, and optionally `stdin`, `run_timeout` (processor seconds), `files` (name
to base64; a program reads and imports them from memory). Python is the only language, and a program
cannot write files, so that none can be fetched. The address is the loopback's, and cannot be
another: whoever reaches it runs programs.
"""

import base64
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from code_verifier.errors import CodeVerifierError, SandboxUnavailable, Status
from code_verifier.scripts.runner import ScriptRun, ScriptRunner

HOST = "127.0.0.1"
QUEUE = 512
"""Requests that wait or run at a time; more are answered 503."""
_MOST_BYTES = 1 << 27
_TIMEOUT_S, _MOST_S = 10.0, 3600.0
_FILES = """
def _give_files_(files):
    import builtins, importlib.util, io, os, sys
    plain = builtins.open

    def open(file, mode="r", *more, encoding=None, **others):
        name = os.path.normpath(file) if isinstance(file, str | os.PathLike) else file
        if name not in files or set(mode) & set("wax+"):
            return plain(file, mode, *more, encoding=encoding, **others)
        raw = io.BytesIO(files[name])
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding=encoding or "utf-8")

    class Finder:
        def find_spec(self, name, path=None, target=None):
            there = f"{name}.py" in files
            return importlib.util.spec_from_loader(name, self) if there else None

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            name = f"{module.__name__}.py"
            exec(compile(files[name], name, "exec"), module.__dict__)

    builtins.open = open
    sys.meta_path.insert(0, Finder())
"""


class Server(ThreadingHTTPServer):
    """A server of programs, bound when it is made. port: 0 for any. workers: programs that run at
    a time. queue: see QUEUE. Raises OSError for a port in use."""

    request_queue_size = QUEUE

    def __init__(self, port: int, workers: int, queue: int = QUEUE) -> None:
        super().__init__((HOST, port), _Handler)
        self.runner = ScriptRunner(slots=threading.BoundedSemaphore(workers))
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
        """A client that has gone away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one piece

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing for each request."""

    def do_GET(self) -> None:
        """`/v1/ping`, by which clients find out whether the server is up."""
        if self.path == "/v1/ping":
            self._answer(200, "pong")
        else:
            self._refuse(404, f"no {self.path} here; expected POST /run_code")

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            self.close_connection = True  # its body is not read
            self._refuse(413, f"Content-Length is {size!r}; expected up to {_MOST_BYTES}")
            return
        body = self.rfile.read(int(size))
        if self.path.rstrip("/") != "/run_code":
            self._refuse(404, f"no {self.path} here; expected POST /run_code")
        elif not self.server.places.acquire(blocking=False):
            self._refuse(503, "too many requests wait; send fewer at a time, or start more workers")
        else:
            try:
                self._answer(200, run_code(self.server.runner, body))
            except SandboxUnavailable as error:
                self._answer(200, _response("SandboxError", str(error), None))
            except CodeVerifierError as error:
                self._refuse(400, str(error))
            finally:
                self.server.places.release()

    def _refuse(self, status: int, line: str) -> None:
        self._answer(status, {"detail": line})

    def _answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def run_code(runner: ScriptRunner, body: bytes) -> dict[str, Any]:
    """Return the response to one request. Raises CodeVerifierError for one that cannot be used,
    SandboxUnavailable."""
    try:
        row = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CodeVerifierError(f"the request is not JSON: {error}") from None
    row = row if isinstance(row, dict) else {}
    code, stdin, limit = row.get("code"), row.get("stdin"), row.get("run_timeout", _TIMEOUT_S)
    if not isinstance(code, str) or not isinstance(stdin, str | None):
        raise CodeVerifierError("expected 'code', a text, and 'stdin', a text or null")
    if row.get("language", "python") != "python" or row.get("fetch_files"):
        raise CodeVerifierError("expected the language 'python', and no 'fetch_files'")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= _MOST_S:
        raise CodeVerifierError(f"run_timeout is {limit!r}; expected up to {_MOST_S:.0f} seconds")
    files = _decoded(row.get("files") or {})
    prelude = f"{_FILES}\n_give_files_({files!r})\ndel _give_files_" if files else ""
    return _result(runner.run(code, stdin or "", cpu_s=limit, prelude=prelude))


def _decoded(files: Any) -> dict[str, bytes]:
    with suppress(ValueError, TypeError, AttributeError):
        return {name: base64.b64decode(text or "") for name, text in files.items()}
    raise CodeVerifierError("expected 'files' as an object of names with their content in base64")


def _result(run: ScriptRun) -> dict[str, Any]:
    if run.status == Status.SANDBOX_ERROR:
        return _response("SandboxError", run.reason, None)
    late = run.status == Status.TIMEOUT
    code = run.exit_code if run.status == Status.OK else 1
    result = {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": run.cpu_s,
        "return_code": None if late else code,
        "stdout": run.output.decode("utf-8", "replace"),
        "stderr": run.reason,
    }
    return _response("Failed" if late or code else "Success", "", result)


def _response(status: str, message: str, result: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": None,
        "run_result": result,
        "executor_pod_name": None,
        "files": {},
    }
