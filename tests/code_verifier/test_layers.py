"""Each layer of protection by itself, in a bare process that only calls `confine`."""

import json
import os
import posix
import socket
import sys
import textwrap

import pytest
from click.testing import CliRunner
from escapes import DEEP, REAL_CLOCK
from programs import python

from code_verifier import Limits, Sandbox, SandboxUnavailable, Status
from code_verifier.cli import main

MEMORY = 256 * 2**20
LAYERS = ("namespaces", "empty_root", "other_user", "no_new_privs", "landlock")
PROBE = """
import ctypes, json, os, resource, signal, socket, struct, sys
from code_verifier.jail import walls

port, memory, jail, skip = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)
space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

def refuse(*_):
    raise PermissionError

if skip == "landlock":
    walls._landlock = lambda: False
elif skip == "empty_root":
    os.chroot = refuse
layers = walls.confine(jail, memory)

def attempt(function, *arguments):
    try:
        return str(function(*arguments))
    except OSError as error:
        return type(error).__name__

def capabilities():
    header, data = struct.pack("<Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    return list(data.raw) if libc.capget(header, data) == 0 else None

def connect():
    with socket.socket() as client:
        client.settimeout(5)
        client.connect((b"127.0.0.1", port))
    return "connected"

found = {
    "layers": layers,
    "read": attempt(lambda: open("/etc/passwd").read(1)),
    "list": attempt(os.listdir, "/"),
    "make": attempt(open, "here", "w"),
    "own": attempt(os.open, "/proc/self/mem", os.O_RDWR),
    "connect": attempt(connect),
    "rename": libc.sethostname(b"elsewhere", 9),
    "uids": list(os.getresuid()), "gids": list(os.getresgid()), "groups": os.getgroups(),
    "become root": attempt(os.setuid, 0),
    "capabilities": capabilities(),
    "no_new_privs": libc.prctl(39, 0, 0, 0, 0),
    "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "limits": {
        what: resource.getrlimit(getattr(resource, f"RLIMIT_{what}"))
        for what in ("AS", "FSIZE", "CORE", "NOFILE")
    },
    "space": space,
    "remount": libc.mount(b"none", b"/", b"tmpfs", 0, None),
}
sys.stdout.write(json.dumps(found))
"""
"""Prints what a process can still do after `confine`."""


def probe(folder, port=9, skip=""):
    found = json.loads(python("-c", PROBE, port, MEMORY, folder / "jail", skip))
    assert not list(folder.iterdir())
    return found


@pytest.fixture(scope="module")
def confined(tmp_path_factory):
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = probe(tmp_path_factory.mktemp("jail"), server.getsockname()[1])
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        yield found


def require(confined, *layers):
    active = confined["layers"]
    if not any(active[layer] for layer in layers):
        pytest.skip(f"this kernel or container does not offer {' or '.join(layers)}")


def test_no_file_can_be_opened(confined):
    require(confined, "landlock", "empty_root")
    for what in ("read", "list", "make", "own"):
        assert str(confined[what]).endswith("Error") or confined[what] == "[]", what


@pytest.mark.parametrize("skip", ["landlock", "empty_root"])
def test_files_stay_closed_with_one_layer_less(tmp_path, skip):
    found = probe(tmp_path, skip=skip)
    assert not found["layers"][skip]
    require(found, "landlock", "empty_root")
    assert str(found["read"]).endswith("Error")
    assert str(found["own"]).endswith("Error")


def test_landlock_alone_closes_all_files(tmp_path):
    script = """
    import os, sys
    from code_verifier.jail import walls
    print(walls._landlock() if walls.prctl(38, 1) else False)
    for path in ("/etc/passwd", sys.executable, "/proc/self/status", "/"):
        for mode in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
            try:
                os.open(path, mode)
            except OSError as error:
                continue
            print("open", path)
    """
    lines = python("-c", textwrap.dedent(script)).splitlines()
    if lines[:1] != ["True"]:
        pytest.skip("this kernel does not offer Landlock")
    assert lines == ["True"]


def test_no_socket_connects(confined):
    require(confined, "namespaces", "landlock")
    assert str(confined["connect"]).endswith("Error")


def test_the_host_name_outside_stays(confined):
    require(confined, "namespaces")
    assert os.uname().nodename != "elsewhere"


def test_root_becomes_nobody_without_capabilities(confined):
    assert confined["capabilities"] == [0] * 24
    assert str(confined["become root"]).endswith("Error")
    assert confined["remount"] == -1
    if os.geteuid() == 0:
        require(confined, "other_user")
        assert confined["uids"] == confined["gids"] == [65534] * 3
        assert confined["groups"] == []


def test_no_rights_can_be_gained(confined):
    assert confined["no_new_privs"] == 1
    assert confined["dumpable"] == 0


def test_resources_are_limited(confined):
    limits, space = confined["limits"], confined["space"]
    assert limits["FSIZE"] == limits["CORE"] == [0, 0]
    assert limits["NOFILE"] == [16, 16]
    soft, hard = limits["AS"]
    assert soft == hard
    assert MEMORY < soft < MEMORY + 2 * space


def test_doctor_names_every_layer(sandbox):
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert found["works"]
    assert found["fixed_addresses"] == (id(None) < 1 << 32)
    shown = CliRunner().invoke(main, ["doctor"]).stdout
    assert f"Python {found['python']}, {sys.executable}: " in shown
    assert "no verdict depends on how this Python was built" in shown
    names = {"seccomp", "clocks", "addresses", *LAYERS}
    assert set(sandbox.layers()) == names
    assert {x["name"]: x["active"] for x in found["layers"]} == {
        **sandbox.layers(),
        "fresh_process": True,
        "rlimits": True,
    }


@pytest.mark.parametrize(
    "read",
    [
        "m.time()",
        "m.clock_gettime(0)",
        "m.gmtime()[0]",
        "m.monotonic()",
        "m.process_time()",
        "m.strftime('%Y')",
        "p.times().elapsed",
        "p.uname()",
        "p.sched_getaffinity(0)",
    ],
)
def test_real_clocks_are_out_of_reach(sandbox, read):
    if not sandbox.layers()["clocks"]:
        pytest.skip("clock calls cannot be taken away on this machine")
    program = REAL_CLOCK.format(read=read)
    verdict = sandbox.run(program, "")
    again = sandbox.run(program, "")
    assert (verdict.status, verdict.output) == (again.status, again.output)
    assert verdict.output in (None, "0", "0.0", "1969", "1970", "'1969'", "'1970'"), verdict
    assert verdict.status in ("ok", "exception", "violation")


SOURCES = [
    "import random\ndef f(): return random.random()",
    "import uuid\ndef f(): return str(uuid.uuid4())",
    "import secrets\ndef f(): return secrets.token_hex(8)",
    "import time\ndef f(): return time.time()",
    "import datetime\ndef f(): return str(datetime.datetime.now())",
    "def f(): return hash('a')",
    "def f(): return list({'a', 'b', 'c', 'd', 'e'})",
]


def test_a_verdict_depends_on_the_program_alone():
    """And neither on the process nor on what it ran before."""

    def judged(programs):
        with Sandbox(workers=1, limits=Limits(wall_s=30.0, cpu_s=10.0)) as fresh:
            verdicts = fresh.check_many((program, "") for program in programs)
            found = [(verdict.status, verdict.reason, verdict.runs) for verdict in verdicts]
        return dict(zip(programs, found, strict=True))

    first = judged(SOURCES)
    assert {status for status, _, _ in first.values()} == {"nondeterministic"}
    assert first == judged(SOURCES[::-1])


@pytest.mark.usefixtures("without_filter")
def test_without_seccomp_the_default_refuses():
    with (
        Sandbox(workers=1) as sandbox,
        pytest.raises(SandboxUnavailable, match=r"lacks seccomp.*--allow-weak"),
    ):
        sandbox.run("def f(x):\n    return x", "1")


@pytest.mark.usefixtures("without_filter")
def test_weak_mode_runs_and_keeps_the_other_layers():
    limits = Limits(wall_s=30.0, cpu_s=0.5, memory_mb=64)
    with Sandbox(workers=1, limits=limits, allow_weak=True) as sandbox:
        layers = sandbox.layers()
        assert not layers["seccomp"]
        assert not layers["clocks"]
        assert layers["no_new_privs"]
        assert sandbox.check("def f(x):\n    return x + 1", "1").output == "2"
        fork = sandbox.run("import random\n" + DEEP + "def f(): return p.fork()", "")
        assert (fork.status, fork.reason[:15]) == ("exception", "BlockingIOError")
        assert sandbox.run("def f():\n    while True: pass", "").status == "timeout"
        assert sandbox.run("def f(): return [0] * 10**8", "").status == "memory"
        deep = "import random\n" + DEEP + "def f(): return p.open('/etc/passwd', 0)"
        if layers["empty_root"] or layers["landlock"]:
            assert sandbox.run(deep, "").status == "exception"


@pytest.mark.usefixtures("without_filter")
def test_doctor_says_what_is_missing():
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "seccomp        MISSING  required  without it a program could reach" in result.stdout


GIVEN = (
    ((0, 9), (1,), (3, b"x"), (1, 2, 3)),
    ((), ("/tmp/x",), ("/tmp/x", 64), ("/tmp/x", "/tmp/y"), ("/bin/true", ["true"], {})),
)
"""Arguments: descriptors, and paths; what ends the process for one may fail for the other."""
TRIED = """
def f(x):
    returned = []
    for given in GIVEN:
        try:
            returned.append(repr(p.FUNCTION(*given)))
        except Exception:
            pass
    return returned[0]
"""
HARMLESS = """
    WCOREDUMP WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WSTOPSIG WTERMSIG
    _inputhook _is_inputhook_installed _path_normpath _path_splitroot _path_splitroot_ex ctermid
    device_encoding fpathconf fspath get_blocking get_inheritable getrandom isatty major makedev
    minor pathconf putenv sched_yield strerror unsetenv urandom waitstatus_to_exitcode
"""


def test_every_function_of_the_system_fails_or_does_nothing(sandbox):
    functions = [name for name, item in vars(posix).items() if type(item) is type(posix.open)]
    assert len(functions) > 100
    names = {}
    for given in GIVEN:
        tried = DEEP + TRIED.replace("GIVEN", repr(given))
        verdicts = sandbox.run_many((tried.replace("FUNCTION", name), "1") for name in functions)
        for name, verdict in zip(functions, verdicts, strict=True):
            names.setdefault(verdict.status, set()).add(name)
    assert names[Status.OK] <= set(HARMLESS.split())
    ended = names[Status.VIOLATION]
    assert {"open", "fork", "getpid", "listdir", "kill", "unlink"} <= ended
