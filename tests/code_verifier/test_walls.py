"""One test for each wall that no hostile program reaches alone: reports, budgets, signals."""

import ast
import ctypes
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from meanwhile import serving_after

from code_verifier import Limits, Sandbox, Status
from code_verifier.jail import policy, wire

TAKEN_OVER = """
import _thread, os
from code_verifier.jail import literal_child

def function(task, room):
    program, _ = literal_child.marshal.loads(task)
    _, call = literal_child.marshal.loads(program)
    data, *stay = eval(call, {"f": lambda *args: args})
    room[literal_child.wire.ROOM : literal_child.wire.ROOM + len(data)] = data
    lock = _thread.allocate_lock()
    while stay:
        lock.acquire()
    os._exit(0)

literal_child.function = function
"""
"""A fork server whose children report what they are given."""
F = "def f(x, stay):\n    return x"


@pytest.fixture(scope="module")
def own():
    with Sandbox(workers=1, limits=Limits(wall_s=2.0)) as sandbox:
        yield sandbox


@pytest.fixture
def taken_over(own, monkeypatch):
    """Its servers start in the tests that take it."""
    serving_after(monkeypatch, TAKEN_OVER)
    return own


@pytest.mark.parametrize("status", wire.STATUSES)
def test_a_child_reports_only_what_it_can_know(taken_over, status):
    known = {"ok", "exception", "not_literal", "too_long"}
    expected = status if status in known else Status.VIOLATION
    assert taken_over.run(F, repr(f"{status}\n1".encode())).status == expected


def test_a_report_counts_as_a_whole_only(taken_over):
    assert taken_over.run(F, repr(b"ok\n1")).output == "1"
    for data in (b"", b"ok", b"\n1", b"ok 1", b"ok\n1\n", b"ok\n", b"\xff" * 5000):
        assert taken_over.run(F, repr(data)).status == Status.VIOLATION
        assert taken_over.check(F, repr(data)).status == Status.VIOLATION


@pytest.mark.parametrize(
    "text", ["[1,  2]", "print(1)", "1 + 1", "{'b': 1, 'b': 2}", "[1", "\udcff"]
)
def test_a_text_that_is_not_canonical_is_forged(taken_over, text):
    data = b"ok\n" + text.encode("utf-8", "surrogateescape")
    verdict = taken_over.run(F, repr(data))
    assert (verdict.status, verdict.output) == (Status.VIOLATION, None)
    assert "forged" in verdict.reason


def test_a_child_that_stays_after_its_answer_is_killed(taken_over):
    """Else its server, which waits for it, would be lost and replaced."""
    assert taken_over.run(F, repr(b"ok\n1")).ok
    servers = taken_over.pids()
    assert taken_over.run(F, repr(b"ok\n1") + ", True").status == Status.TIMEOUT
    assert taken_over.run(F, repr(b"ok\n1")).ok
    assert taken_over.pids() == servers


SIGNAL = """
import ctypes, os, sys
from code_verifier.jail import walls

walls.prctl(38, 1)
create, size = walls._LANDLOCK_CREATE, ctypes.c_size_t(0)
version = walls.libc.syscall(create, None, size, ctypes.c_uint32(1))
if not walls._landlock() or version < 6:
    sys.exit("this kernel's Landlock knows no signals")
try:
    os.kill(os.getppid(), 0)
    print("sent")
except PermissionError:
    print("refused")
"""


def test_landlock_alone_lets_no_signal_out():
    done = subprocess.run([sys.executable, "-c", SIGNAL], capture_output=True, text=True)
    if "knows no signals" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.stdout, done.stderr) == ("refused\n", "")
    os.kill(os.getpid(), 0)  # what it tried, unconfined, works


def nested(depth):
    """A program whose compilation takes twice as long with each level more."""
    lines = [
        line for d in range(1, depth + 1) for line in (" " * d + "try: pass", " " * d + "finally:")
    ]
    return "\n".join(["def f(x):", *lines, " " * (depth + 1) + "x", " return x"])


def test_what_takes_exponentially_long_to_compile_runs_out_of_its_budget(sandbox):
    verdict = sandbox.check(nested(24), "1")
    assert (verdict.status, verdict.runs) == (Status.TIMEOUT, 0)
    assert "processor time" in verdict.reason
    assert sandbox.check(nested(6), "1").output == "1"


def test_a_program_out_of_budget_takes_no_other_along(sandbox):
    texts = [
        nested(24) if turn % 3 == 0 else f"def f(x):\n    return x + {turn}" for turn in range(9)
    ]
    verdicts = sandbox.run_many([(text, "1") for text in texts])
    assert [v.output or v.status for v in verdicts] == [
        Status.TIMEOUT if turn % 3 == 0 else str(turn + 1) for turn in range(9)
    ]


def test_the_longest_program_is_within_its_budget(sandbox):
    text = "def f(x):\n return [" + "x," * 49_900 + "][0]"
    assert len(text) < Limits().program_chars
    assert sandbox.run(text, "1").output == "1"


_FILE = Path(__file__).parent / "corpus" / "chance.toml"
CHANCE = tomllib.loads(_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("table", "runs"), [("sixteen", 16), ("twice", 2)])
def test_what_can_reach_chance_is_run_sixteen_times_and_the_rest_twice(sandbox, table, runs):
    programs = CHANCE[table]
    known = [n for n, p in programs.items() if policy.examine(ast.parse(p))[1] & wire.CHANCE]
    assert runs == 16 or not known
    executed = [name for name in programs if name not in known[3:]]
    verdicts = sandbox.check_many((programs[name], "1") for name in executed)
    ends = {name: (v.status, v.runs) for name, v in zip(executed, verdicts, strict=True)}
    assert ends == dict.fromkeys(executed, (Status.OK, runs))


def test_each_input_says_how_often_it_is_run(sandbox):
    """A set among the inputs makes no other input be run sixteen times."""
    program = "def f(x):\n    return 1"
    runs = [sandbox.check(program, given).runs for given in ("1", "{1, 2}", "[3]")]
    assert runs == [2, 16, 2]


def test_addresses_differ_where_the_kernel_places_all_memory_alike():
    """As it does with the objects of an interpreter at a fixed address."""
    libc, fixed = ctypes.CDLL(None), 0x0040000  # ADDR_NO_RANDOMIZE
    before = libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    if libc.personality(ctypes.c_ulong(before | fixed)) == -1:
        pytest.skip("this container does not let a process choose")
    try:
        with Sandbox(workers=1, limits=Limits(wall_s=30.0, cpu_s=10.0)) as sandbox:
            verdicts = [sandbox.check(f"def f(x):\n    return {text}", "1") for text in SHOWN]
    finally:
        libc.personality(ctypes.c_ulong(before))
    wrong = [pair for pair in zip(SHOWN, verdicts, strict=True) if pair[1].output is not None]
    assert not wrong
    assert {verdict.status for verdict in verdicts} == {Status.NONDETERMINISTIC}


SHOWN = (
    *(("list({3, None, 5, 8})",) if sys.version_info < (3, 12) else ()),  # a constant since
    "[kind.__name__ for kind in {int, str, float, list}]",
    "[g.__name__ for g in {min, max, sum}]",
    "hash(f) % 8",
    "id(1) % 32",
    "id([])",
    "repr(f)",
    "object.__repr__(int)",
    "str(int.mro)[-3:]",
    "[id(a) < id(b) for a, b in [(int, str), (str, list), (list, dict), ([], [])]]",
)
