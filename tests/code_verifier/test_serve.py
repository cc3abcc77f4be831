"""SandboxFusion's protocol on loopback: what clients send, what they get, and what is refused."""

import base64
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest
from meanwhile import dying, serving

from code_verifier import serve
from code_verifier.serve import Server


@pytest.fixture(scope="module")
def server():
    with serving(Server(0, workers=2, queue=64)) as opened:
        yield opened


def post(server, request, path="/run_code"):
    """The status and the JSON of a response."""
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    url = server.url.removesuffix("/run_code") + path
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def run(server, code, **more):
    status, found = post(server, {"code": code, "language": "python", **more})
    assert status == 200
    assert found["compile_result"] is None
    assert found["files"] == {}
    return found


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "output", "error"),
    [
        ("print(input()[::-1])", "Success", 0, "fed\n", ""),
        ("1 / 0", "Failed", 1, "", "ZeroDivisionError"),
        ("print(", "Failed", 1, "", "SyntaxError"),
        ("import sys\nprint(1)\nsys.exit(-1)", "Failed", 255, "1\n", ""),
        ("exit('a message')", "Failed", 1, "", ""),
        ("import os\nos._exit(3)", "Failed", 1, "", "exit code 3"),
        ("open('/etc/passwd')", "Failed", 1, "", "PermissionError"),
        ("import faulthandler\nfaulthandler.enable()", "Success", 0, "", ""),
        ("import numpy\nprint(numpy.arange(3).sum())", "Success", 0, "3\n", ""),
    ],
)
def test_a_program(server, code, status, exit_code, output, error):
    if "numpy" in code:
        pytest.importorskip("numpy")
    found = run(server, code, stdin="def", compile_timeout=10, memory_limit_MB=1024)
    result = found["run_result"]
    assert (found["status"], result["status"], found["message"]) == (status, "Finished", "")
    assert (result["return_code"], result["stdout"]) == (exit_code, output)
    assert error in result["stderr"]
    assert result["execution_time"] >= 0


def test_a_program_over_its_time(server):
    found = run(server, "while True: pass", run_timeout=0.2)
    assert found["status"] == "Failed"
    assert found["run_result"]["status"] == "TimeLimitExceeded"
    assert found["run_result"]["return_code"] is None


def test_files_are_read_and_imported_from_memory(server):
    pytest.importorskip("numpy")
    files = {"a.txt": "héllo\n", "m.py": "import numpy\nfrom n import x\n", "n.py": "x: int = 7"}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
    code = (
        "import n\nfrom m import x\nprint(open('./a.txt').read(), open('a.txt', 'rb').read(1), x)"
    )
    code += "\nimport n\nprint(n.__spec__.origin, n.__annotations__)"
    found = run(server, code, files=encoded)
    assert found["run_result"]["stdout"] == "héllo\n b'h' 7\n/n.py {'x': <class 'int'>}\n"
    again = run(server, "open('a.txt')")
    assert again["run_result"]["stderr"] == "FileNotFoundError"


@pytest.mark.parametrize(
    ("read", "output"),
    [
        ("Path('a.txt').read_text()", "hey"),
        ("os.listdir(), os.listdir('m')", "['a.txt', 'm'] ['b.txt']"),
        ("codecs.open('m/../a.txt', encoding='utf-8').read()", "hey"),
        ("runpy.run_path('m/b.txt')['__name__']", "<run_path>"),
        ("os.path.getsize('a.txt'), os.path.isdir('m'), Path('b').exists()", "3 True False"),
    ],
)
def test_files_are_found_by_the_usual_ways_of_reading(server, read, output):
    files = {"a.txt": base64.encodebytes(b"hey").decode(), "m/b.txt": None}
    code = "import codecs, os, runpy\nfrom pathlib import Path\n"
    code += f"print({read})"
    assert run(server, code, files=files)["run_result"]["stdout"] == output + "\n"


def raw(server, data):
    """What comes back for bytes that a client sends."""
    with socket.create_connection(server.server_address, timeout=30) as client:
        client.sendall(data)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
            if b'"}' in part or b"</html>" in part:
                break
        return answer


BODY = b'{"code": "print(1)"}'


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Host: evil.example\r\nContent-Length: 20", 403),
        ("Host: 127.0.0.1.evil.example\r\nContent-Length: 20", 403),
        ("Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 20", 403),
        ("Host: localhost\r\nContent-Length: " + "9" * 5000, 413),
        ("Host: localhost\r\nContent-Length: -1", 413),
        ("Host: localhost\r\nContent-Length: \u00b2", 413),
        ("Host: localhost\r\nTransfer-Encoding: chunked", 413),
        ("Host: localhost\r\nContent-Length: 20\r\nContent-Length: 20", 413),
        ("Host: localhost\r\nContent-Length: 20", 200),
        ("Host: localhost\r\nOrigin: http://localhost:3000\r\nContent-Length: 20", 403),
        ("Host: LOCALHOST:80\r\nOrigin: http://127.0.0.1:PORT\r\nContent-Length: 20", 200),
    ],
)
def test_strangers_and_nonsense_are_refused(server, head, status):
    head = head.replace("PORT", str(server.server_port))
    data = f"POST /run_code HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode("latin-1")
    assert raw(server, data + BODY).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_request_that_does_not_arrive_is_given_up(monkeypatch):
    with serving(Server(0, workers=1, queue=1)) as server:
        monkeypatch.setattr(server.RequestHandlerClass, "timeout", 0.5)
        head = b"POST /run_code HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
        assert raw(server, head + b"{").startswith(b"HTTP/1.1 408 ")
        assert raw(server, b"GET /v1/ping HT") == b""
        monkeypatch.undo()
        assert run(server, "print(1)")["status"] == "Success"


def test_a_body_that_trickles_in_is_given_up(monkeypatch):
    """Though something of it always arrives in time; every look at the clock takes 9 s here."""
    monkeypatch.setattr(serve, "time", SimpleNamespace(monotonic=count(0.0, 9.0).__next__))
    with (
        serving(Server(0, workers=1, queue=1)) as server,
        socket.create_connection(("127.0.0.1", server.server_port), timeout=0.05) as client,
    ):
        client.sendall(b"POST /run_code HTTP/1.1\r\nContent-Length: 999\r\n\r\n")
        for _ in range(999):
            client.sendall(b"[")
            try:
                answer = client.recv(100)
            except TimeoutError:
                continue
            break
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert run(server, "print(1)")["status"] == "Success"  # while the other stays


@pytest.mark.parametrize(
    ("request_", "status", "line"),
    [
        (b"{", 400, "not JSON"),
        ({}, 400, "'code'"),
        (b'{"code": "1", "stdin": "\\ud800"}', 400, "surrogate"),
        (b'{"code": "1", "run_timeout": ' + b"9" * 4000 + b"}", 400, "run_timeout"),
        ({"code": "1", "language": "cpp"}, 400, "'cpp'"),
        ({"code": "1", "fetch_files": ["a"]}, 400, "fetch_files"),
        ({"code": "1", "run_timeout": -1}, 400, "run_timeout"),
        ({"code": "1", "files": {"a": "some text"}}, 400, "base64"),
    ],
)
def test_what_cannot_be_used_is_refused(server, request_, status, line):
    found, answer = post(server, request_)
    assert found == status
    assert line in answer["detail"]
    assert "\n" not in answer["detail"]


def test_other_addresses_are_refused(server):
    assert post(server, {}, "/run_jupyter")[0] == 404
    ping = server.url.replace("/run_code", "/v1/ping")
    with urllib.request.urlopen(ping) as response:
        assert json.load(response) == "pong"


def test_a_full_server_refuses_before_it_reads(server):
    for _ in range(64):
        assert server.places.acquire(timeout=10)
    try:
        status, answer = post(server, {"code": "1"})
        assert status == 503
        assert answer["detail"].startswith("too many requests wait")
        for size, refusal in ((10**9, 413), (20, 503)):  # before the body, which never comes
            head = f"POST /run_code HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
            assert raw(server, head.encode()).startswith(f"HTTP/1.1 {refusal} ".encode())
    finally:
        server.places.release(64)
    assert run(server, "1")["status"] == "Success"


def test_many_clients_get_their_own_answers(server):
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda k: run(server, f"print({k})"), range(60)))
    assert [one["run_result"]["stdout"] for one in found] == [f"{k}\n" for k in range(60)]


def test_a_fault_of_the_sandbox_is_one_of_its_own(server):
    with dying(server.runner._pool):
        found = run(server, "while True: pass")
    assert (found["status"], found["run_result"]) == ("SandboxError", None)
    assert "lost" in found["message"]
    assert run(server, "1")["status"] == "Success"


def test_the_command_serves_until_it_is_stopped():
    command = [sys.executable, "-m", "code_verifier", "serve", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url, _, rest = process.stdout.readline().partition(" ")
        assert url.startswith("http://127.0.0.1:")
        assert rest == "(1 at a time, 512 requests)\n"
        data = json.dumps({"code": "print(1)"}).encode()
        with urllib.request.urlopen(url, data) as response:
            assert json.load(response)["status"] == "Success"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_port_in_use_is_one_line_with_the_option():
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as other:
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "code_verifier", "serve", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    line = f"error: cannot listen on port {port} of 127.0.0.1: Address already in use; type another"
    assert done.stderr == f"{line} --port, or 0 for a free one\n"
