"""Other builds of Python, older kernels, limits and variables of the caller: verdicts are equal, or
one line names the cause."""

import json
import os
import shutil
import sys
from functools import cache

import pytest
from click.testing import CliRunner
from confinement import confined, printed
from escapes import DEEP, REAL_CLOCK
from meanwhile import serving_after

from code_verifier import Limits, Sandbox, SandboxUnavailable, ScriptRunner, process
from code_verifier.cli import main

LIMITS = Limits(wall_s=60.0, cpu_s=0.4)
PROGRAMS = [
    ("ok", "import time\ndef f(x):\n    time.sleep(0.1)\n    return x", "1"),  # on 16 servers
    ("ok", "def f(x):\n    return [x, -x]", "1"),
    ("exception", "def f(x):\n    return 1 // x", "0"),
    ("exception", "def f(x):\n    return f(x)", "0"),
    ("timeout", "def f(x):\n    while True: pass", "1"),
    ("memory", "def f(x):\n    return [0] * 10**9", "1"),
    ("too_long", "def f(x):\n    return 'a' * 20000", "1"),
    ("violation", f"import random\n{DEEP}def f(x):\n    return p.open('/etc/passwd', 0)", "1"),
    ("nondeterministic", "import random\ndef f(x):\n    return random.random()", "1"),
    ("banned", "import socket\ndef f(x):\n    return 1", "1"),
    ("syntax_error", "def f(x:", "1"),
    ("not_literal", "def f(x):\n    return f", "1"),
]
LARGE = "line\n" * 60_000
"""More than a pipe holds."""
SCRIPTS = [
    ("print(int(input()) * 2)", "21\n"),
    ("import sys\na = sys.stdin.read()\nsys.stdin.seek(0)\nprint(a == sys.stdin.read())", "a\nb\n"),
    ("import os\nprint(os.fstat(0).st_size, os.lseek(0, 0, 2))", "four"),
    ("print('x' * 300_000)", ""),
    ("", ""),
    ("import os\nos._exit(0)", "unread"),
    ("print('first')\nraise SystemExit(3)", ""),
    ("1 / 0", ""),
    ("while True: pass", ""),
    ("import sys\nprint(len(sys.stdin.read()))", LARGE),
    ("pass", LARGE),
    (
        "import fcntl, os\nfcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)",
        "secret\n" * 9,
    ),
    ("import os, sys\nprint(repr(sys.stdin.read()), os.fstat(0).st_size, os.lseek(0, 0, 2))", "b"),
    ("import sys\nprint(repr(sys.stdin.read()))", ""),
]
JUDGE = """
from code_verifier import Limits, Sandbox, ScriptRunner
programs, scripts, limits = json.load(sys.stdin)
with Sandbox(1, Limits(*limits)) as sandbox, ScriptRunner() as runner:
    verdicts = [sandbox.check(*pair) for pair in programs]
    runs = [runner.run(*pair, cpu_s=0.4) for pair in scripts]
rows = [[v.status, v.output, v.reason, v.runs] for v in verdicts]
rows += [[r.status, r.output.decode(), r.reason, r.exit_code] for r in runs]
print(json.dumps(rows))
"""
"""Prints what programs and scripts give."""


def judged(first=0, **more):
    """What they give, without the first few programs."""
    words = [pair for _, *pair in PROGRAMS[first:]], SCRIPTS, [LIMITS.wall_s, LIMITS.cpu_s]
    return printed(JUDGE, data=json.dumps(words), **more)


@cache
def elsewhere():
    """What they give where nothing is missing."""
    return judged()


WITHOUT = {
    "functions of Python": (
        "from code_verifier import process as p\np._BOOTSTRAP = p._BOOTSTRAP.replace('m.main()', "
        "'import os; del os.pidfd_open, os.memfd_create; m.main()')"
    ),
    "calls of the kernel": "refuse(PIDFD_OPEN)\nrefuse(MEMFD_CREATE)",
}


def test_programs_and_scripts_end_as_meant_where_nothing_is_missing():
    rows = elsewhere()
    assert [row[0] for row in rows[: len(PROGRAMS)]] == [status for status, *_ in PROGRAMS]
    outputs = [row[1] for row in rows[len(PROGRAMS) :]]
    assert outputs[:4] == ["42\n", "True\n", "4 4\n", "x" * 300_000 + "\n"]
    assert outputs[9:] == ["300000\n", "", "", "'b' 1 1\n", "''\n"]
    assert [row[0] for row in rows[-7:]] == ["exception", "timeout", *["ok"] * 5]


@pytest.mark.parametrize(
    "what", ["calls of the kernel", pytest.param("functions of Python", marks=pytest.mark.slow)]
)
def test_verdicts_are_equal_without(what):
    assert judged(1, setup=WITHOUT[what]) == elsewhere()[1:]


def test_verdicts_are_equal_under_limits_of_the_caller():
    """And the doctor finds nothing to mend."""
    limit = "ulimit -v 4000000 -f 100000 -t 60 -n 32 -c 0 -s 8192"
    doctor = confined(DOCTOR, shell=limit)
    assert (doctor.returncode, doctor.stderr) == (0, "")
    assert "unknown" not in doctor.stdout
    assert judged(shell=limit) == elsewhere()


DOCTOR = "from code_verifier.cli import main\nmain(['doctor'])"
SMALL = {
    "memory": (
        "import code_verifier.cli, resource\n"
        "most = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))",
        r"memory",
        "ulimit -v unlimited",
    ),
    "files": (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
        "no temporary folder can be made",
        "ulimit -f unlimited",
    ),
}


def as_another_user(limit):
    """Shell commands after which at most so many processes run, of a user who can read all."""
    able = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
    user = f"--reuid={1 << 29 | os.getpid()} --regid=65534 --clear-groups"
    return f'set -- setpriv {user} {able} bash -c \'ulimit -u {limit}; exec "$@"\' bash "$@"'


def is_unknown(done):
    """Whether the doctor says of every layer that it does not know it."""
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    return len(rows) == 10 and {row[1] for row in rows} == {"unknown"}


@pytest.mark.parametrize("limit", [1, 2])
def test_too_few_processes_are_named_in_one_line(limit):
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root, whose processes no limit counts, and setpriv")
    done = confined(DOCTOR, shell=as_another_user(limit))
    assert done.returncode == 1
    assert is_unknown(done)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "Resource temporarily unavailable; allow more processes: ulimit -u 256" in done.stderr


@pytest.mark.parametrize("what", SMALL)
def test_a_limit_that_is_too_small_is_named_in_one_line(what):
    setup, cause, remedy = SMALL[what]
    done = confined(DOCTOR, setup=setup)
    assert done.returncode == 1
    assert "MISSING" not in done.stdout
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert cause in done.stderr.lower()
    assert remedy in done.stderr
    assert ":;" not in done.stderr


@pytest.mark.parametrize("limit", [18, pytest.param(24, marks=pytest.mark.slow)])
def test_too_few_open_files_suffice_or_are_named_in_one_line(limit, tmp_path):
    rows = tmp_path / "rows.jsonl"
    lines = [{"program": program, "input": text} for _, program, text in PROGRAMS]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = "from code_verifier.cli import main\nmain(sys.argv[1:])"
    check = ["check", rows, "--out", tmp_path / "out", "--workers", 2, "--wall-s", 0.5]
    for words in (["doctor"], check):
        done = confined(command, *words, shell=f"ulimit -n {limit}")
        cause = "[Errno 24] Too many open files; allow more open files: ulimit -n 1024\n"
        assert done.stderr.endswith(cause * done.returncode), done.stderr
        assert done.stderr.count("error: ") == done.stderr.count("\n") == done.returncode


def test_without_a_folder_for_temporary_files_one_error_says_so():
    program = """
from code_verifier import Sandbox, SandboxUnavailable, ScriptRunner
said = []
with Sandbox(1) as sandbox, ScriptRunner() as runner:
    program = "def f(x): return x"
    for run in (lambda: sandbox.run(program, "1"), lambda: runner.run("", "", cpu_s=1)):
        try:
            run()
        except SandboxUnavailable as error:
            said.append(str(error))
print(json.dumps(said))
"""
    for said in printed(program, setup="refuse(OPENAT, 30, 2, O_CREAT)"):
        assert said.startswith("no temporary folder can be made: ")
        assert "export TMPDIR=FOLDER" in said
        assert "\n" not in said


def test_the_variables_by_which_a_python_finds_its_files_reach_the_server(tmp_path):
    """Here one that ends without them, and with one that it should not get."""
    needy, found = tmp_path / "python", '[ "$PYTHONHOME" ] && [ "$LD_LIBRARY_PATH" ]'
    needy.write_text(
        f'#!/bin/sh\n{found} && [ -z "$PYTHONSTARTUP" ] && exec {sys.executable} "$@"\n'
    )
    needy.chmod(0o755)
    setup = f"sys.executable = {str(needy)!r}"
    homes = {"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": "/planted"}
    assert confined(DOCTOR, setup=setup, PYTHONSTARTUP="/planted", **homes).returncode == 0
    for name in homes:
        assert confined(DOCTOR, setup=setup, **{name: homes[name]}).returncode == 1


SECRET = "/planted/secret"
FUNCTION = (
    "import random\n" + DEEP + "def f():\n    o = space['sys'].modules['os']\n"
    "    seen = [p.environ, dict(o.environ), o.environb, o.environ._data]\n"
    "    return str(seen) + str([k for k in space['sys'].modules if 'ctypes' in k])"
)
ORDINARY = """
import gc, os, posix
def seen():
    texts = [str(posix.environ), str(dict(os.environ)), str(os.environb), str(os.environ._data)]
    texts += [repr(item) for item in gc.get_objects() if type(item) in (dict, list, tuple)
              and len(item) < 200]
    for path in ("/proc/self/environ", "/proc/1/environ"):
        try:
            texts.append(open(path).read())
        except OSError:
            pass
    try:
        import ctypes
        place = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value
        words = iter(ctypes.cast(place, ctypes.POINTER(ctypes.c_char_p)))
        texts += map(str, iter(lambda: next(words), None))
    except (ImportError, OSError):
        pass
    return SECRET in "".join(texts), "LC_ALL" in texts[1]
"""


def test_no_program_reads_these_variables(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", SECRET)
    monkeypatch.setenv("NIX_LD", SECRET)
    with Sandbox(1, Limits(60.0, 20.0, output_chars=10**6)) as sandbox:
        verdict = sandbox.run(FUNCTION, "")
        assert verdict.status == "ok", verdict
        assert "environ(" in str(verdict.output)
        assert SECRET not in str(verdict.output)
        assert "ctypes" not in str(verdict.output)
    program = ORDINARY.replace("SECRET", f"''.join(reversed({SECRET[::-1]!r}))")
    with ScriptRunner() as runner:
        script = runner.run(f"{program}\nprint(seen())", "", cpu_s=20.0)
        assert (script.output, script.reason) == (b"(False, True)\n", "")
        more = {"limits_s": [20.0], "module_s": 20.0, "total_s": 60.0}
        calls = runner.call(program, "seen", [()], **more)
        assert [value.text for value in calls.values] == ["(False, True)"], calls


LOST = {
    "before it serves": ("raise OSError('planted words')", ".*OSError: planted words"),
    "in a library": ("import no_such_module", "No module named 'no_such_module'; this Python does"),
    "by a signal": ("import os; os.kill(os.getpid(), 9)", "it ended: Killed; type `code-ver"),
    "for lack of memory": (
        "def e(c): raise MemoryError\nm.Server = e",
        "MemoryError; free or allow",
    ),
    "without a word": ("import os; os._exit(3)", "it ended; type `code-verifier doctor`"),
}


@pytest.mark.parametrize("when", LOST)
def test_the_last_words_of_a_server_are_in_the_message(monkeypatch, when):
    code, words = LOST[when]
    serving_after(monkeypatch, code)
    with Sandbox(1) as sandbox, pytest.raises(SandboxUnavailable, match=words) as caught:
        sandbox.run("def f(x):\n    return x", "1")
    assert "\n" not in str(caught.value)
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert done.stderr == f"error: {caught.value}\n".replace(f"; {process.DOCTOR}", "")
    assert "MISSING" not in done.stdout


def test_so_are_those_of_a_server_that_ends_at_work(monkeypatch):
    code = "def e(s, o): raise RuntimeError('first\\nplanted error')\nm.Server.execute = e"
    serving_after(monkeypatch, code)
    with Sandbox(1) as sandbox, ScriptRunner() as runner:
        verdict = sandbox.run("def f(x):\n    return x", "1")
        assert (verdict.status, verdict.output) == ("sandbox_error", None)
        assert verdict.reason == "the fork server was lost: it ended: planted error"
        script = runner.run("print(1)", "", cpu_s=10.0)
        assert script.status == "sandbox_error"
        assert script.reason == "a fork server was lost: it ended: planted error"


def test_an_interrupted_start_spoils_no_verdict(monkeypatch):
    """Though the server has said by then what it has to say first."""

    def interrupted(self, *event, wait=process.Process._wait):
        wait(self, *event)
        raise KeyboardInterrupt

    with Sandbox(1) as sandbox:
        with monkeypatch.context() as patch:
            patch.setattr(process.Process, "_wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                sandbox.layers()
        verdicts = [sandbox.run("def f(x):\n    return x", str(n)) for n in range(3)]
    assert [verdict.output for verdict in verdicts] == ["0", "1", "2"]


REACH = """
import os
def seen():
    done = []
    for number in range(START, 16):
        for attempt in (lambda: os.write(number, b"planted"), lambda: os.read(number, 1)):
            try:
                attempt()
                done.append(number)
            except OSError:
                pass
    return done
"""


@pytest.mark.usefixtures("without_filter")
def test_no_program_reaches_the_stream_of_errors_even_without_a_filter():
    inside = REACH.replace("START", "0").replace("import os", "").replace("os.", "p.")
    function = f"import random\n{DEEP}{inside}f = seen"
    with Sandbox(1, allow_weak=True) as sandbox, ScriptRunner(allow_weak=True) as runner:
        assert sandbox.run(function, "").output == "[]"
        script = runner.run(f"{REACH.replace('START', '2')}\nprint(seen())", "", cpu_s=10.0)
        assert script.output == b"[]\n"
        more = {"limits_s": [9.0], "module_s": 9.0, "total_s": 30.0}
        calls = runner.call(REACH.replace("START", "0"), "seen", [()], **more)
        assert [value.text for value in calls.values] == ["[]"], calls


ADDRESSES = [
    "def f(x):\n    return id(x) % 65536",
    "def f(x):\n    return str(f)",
    "class A: pass\ndef f(x):\n    return hash(A()) % 999",
]
"""Programs that show addresses."""
PLAIN = [PROGRAMS[1][1], "import math\ndef f(x):\n    return math.sqrt(x)"]
"""Programs that can reach no chance, and make no texts of values."""
READS = ("m.time()", "m.monotonic()", "m.perf_counter_ns()", "m.time_ns()", "m.gmtime()[5]")
CLOCKS = [(REAL_CLOCK.format(read=read), "") for read in READS]
"""Programs that read the real clocks."""
CHECK = """
import warnings
from code_verifier import Limits, Sandbox
with warnings.catch_warnings(record=True) as caught, Sandbox(1, Limits(60, 20)) as sandbox:
    warnings.simplefilter("always")
    statuses = [verdict.status for verdict in sandbox.check_many(json.load(sys.stdin))]
    missing, layers = sandbox.missing_determinism(), sandbox.layers()
with Sandbox(1) as other:
    other.run("def f(x): return x", "1")
warned = [(w.category.__name__, str(w.message)) for w in caught]
print(json.dumps([statuses, missing, layers, warned]))
"""
NO_NEW_CODE = {
    "by the process": "if not refuse_new_code(): sys.exit(77)",
    "by a filter": "refuse(MPROTECT, 13, 2, PROT_EXEC)",
}


@pytest.fixture(params=NO_NEW_CODE)
def no_new_code(request):
    """Python after which no memory becomes executable, as under SELinux without `execmem`."""
    setup = NO_NEW_CODE[request.param]
    if confined("", setup=setup).returncode == 77:
        pytest.skip("this kernel has no PR_SET_MDWE")
    return setup


def test_where_addresses_are_not_scrambled_what_may_show_them_is_refused(no_new_code):
    """And so is what reads the real clocks."""
    pairs = [*((program, "1") for program in (*ADDRESSES, *PLAIN)), *CLOCKS]
    found = printed(CHECK, data=json.dumps(pairs), setup=no_new_code)
    statuses, missing, layers, warned = found
    assert statuses[:5] == ["nondeterministic"] * 3 + ["ok"] * 2
    assert "ok" not in statuses[5:]
    assert missing[0] == "addresses"
    assert missing[1:] == ["clocks"] * (not layers["clocks"])
    assert layers["clocks"] or no_new_code != NO_NEW_CODE["by a filter"]
    assert [category for category, _ in warned] == ["RuntimeWarning"] * len(missing)
    assert warned[0][1].startswith("this machine lacks the layer 'addresses': a program that can")


@pytest.mark.parametrize("no_new_code", ["by a filter"], indirect=True)
def test_commands_say_once_that_addresses_are_not_scrambled(tmp_path, no_new_code):
    rows = tmp_path / "rows.jsonl"
    lines = [{"program": program, "input": "1"} for program in [*ADDRESSES, *PLAIN]]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = "from code_verifier.cli import main\nmain(sys.argv[1:])"
    done = confined(
        command, "check", rows, "--out", tmp_path / "out", "--workers", 2, setup=no_new_code
    )
    assert done.returncode in (0, 1)
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert sum("'addresses'" in line for line in warned) == 1
    assert len(warned) == len(set(warned))
    assert "Traceback" not in done.stderr
    doctor = confined(DOCTOR, setup=no_new_code)
    assert (doctor.returncode, doctor.stderr) == (0, "")
    layer = next(line for line in doctor.stdout.splitlines() if "addresses" in line)
    assert layer.split()[:2] == ["addresses", "MISSING"]
    assert "no verdict depends" not in doctor.stdout


def test_no_program_is_accepted_for_a_clock_that_could_not_be_replaced():
    """Here as a child cannot give up the kernel's code that reads them."""
    setup = f"{NO_NEW_CODE['by a filter']}\nrefuse(MUNMAP, 1)"
    statuses, missing, layers, _ = printed(CHECK, data=json.dumps(CLOCKS), setup=setup)
    assert "ok" not in statuses
    assert not layers["clocks"]
    assert missing == ["addresses", "clocks"]


BREAKS = """
import os
from code_verifier.jail import reader
def breaking(text, input, chars, read=reader._read):
    if CONDITION:
        os._exit(9)
    return read(text, input, chars)
reader._read = breaking
"""


def test_only_a_text_that_breaks_the_parser_is_the_programs_fault(monkeypatch):
    """A reader that breaks on every text is ours."""
    for condition, status, words in (
        ("'planted' in text", "syntax_error", "Python's parser broke on it: it ended"),
        ("True", "sandbox_error", "the reader of programs was lost: it ended"),
    ):
        with monkeypatch.context() as patch, Sandbox(1) as sandbox:
            serving_after(patch, BREAKS.replace("CONDITION", condition))
            verdict = sandbox.check("planted = 1\ndef f(x):\n    return x", "1")
            assert (verdict.status, verdict.reason) == (status, words)
            if status == "sandbox_error":
                with pytest.raises(SandboxUnavailable, match=words):
                    sandbox.self_test()
            else:
                assert sandbox.check("def f(x):\n    return x", "1").ok
