"""Ordinary modules and scripts under the jail's walls: what comes back, and what cannot be done."""

import math
import tomllib
import tracemalloc
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_verifier import LiteralError, Value, read_value
from code_verifier.scripts.runner import read_report


def call(runner, program, *inputs, **changes):
    inputs = inputs or ((1,),)
    return runner.call(program, "f", inputs, [0.3] * len(inputs), **(LIMITS | changes))


LIMITS = {"module_s": 0.3, "total_s": 0.5}


def test_values_come_back_as_data(runner):
    calls = call(runner, "def f(*x): return x", (1, 2.5), ("a", None), ({1: {2}},), (1j, b"x"))
    assert (calls.status, calls.call) == ("ok", 4)
    texts = [value.text for value in calls.values]
    assert texts == ["(1, 2.5)", "('a', None)", "({1: {2}},)", "(1j, b'x')"]
    assert {value.type_name for value in calls.values} == {"tuple"}


ARRAYS = {
    "np.arange(3).sum() / 2": "1.5",
    "np.arange(4).reshape(2, 2)": "[[0, 1], [2, 3]]",
    "[np.int64(2), np.bool_(True), np.array('a')]": "[2, True, 'a']",
    "np.array([1, 'b', None], object)": "[1, 'b', None]",
    "type('A', (np.ndarray,), {'tolist': lambda s: [7]})(0)": "[]",
    "Fraction(1, 2), Fraction(6, 2), Decimal('0.25'), Decimal('1e3')": "(0.5, 3, 0.25, 1000)",
    "Decimal('-inf')": "-inf",
    "np.longdouble(1) / 3": None,
    "np.datetime64('2020-01-01'), np.array([object()])": None,
    "Fraction(1, 3)": None,
    "Decimal('0.1')": None,
    "Decimal('1e999999')": None,
    "Fraction(10**400 + 1, 2)": None,
    "Decimal('sNaN')": None,
}


def test_arrays_are_lists_and_numbers_what_they_equal(runner):
    pytest.importorskip("numpy")
    program = (
        "import numpy as np, numpy.ma, numpy.testing\n"
        "from decimal import Decimal\nfrom fractions import Fraction\n"
        "def f(text): return eval(text)"
    )
    calls = call(runner, program, *((text,) for text in ARRAYS), module_s=3.0, total_s=9.0)
    assert [value.text for value in calls.values] == list(ARRAYS.values())
    assert calls.values[0].type_name == "float64"


_FILE = Path(__file__).parent / "corpus" / "endings.toml"
ENDINGS = tomllib.loads(_FILE.read_text(encoding="utf-8"))["endings"]


@pytest.mark.parametrize(("program", "status", "reason"), ENDINGS)
def test_endings(runner, program, status, reason):
    calls = call(runner, program, output_bytes=1 << 20)
    assert calls.status == status
    # A busy machine ends it by real time, before it has used up what it may.
    starved = calls.cpu_s < {"processor time": 0.3, "limit of it all": 1.0}.get(reason, 0.0)
    assert reason in calls.reason or starved


STARTS_THREADS = """
import threading
def f(n):
    for started in range(n):
        try:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        except RuntimeError:
            return started
"""
WAITS = "import threading\nevent = threading.Event()\ndef f(n):\n    while n: event.wait(0.005)"


def test_threads_are_limited(runner):
    assert call(runner, STARTS_THREADS, (3000,)).values[0].text == "63"


def test_a_program_that_waits_by_polling_has_an_end(runner):
    """Of real time it may take ten times its processor time, for each call."""
    calls = call(runner, WAITS, (0,), (1,), *[(0,)] * 99, total_s=1e6)
    assert (len(calls.values), calls.status, calls.call) == (1, "timeout", 0)


def test_values_before_an_end_are_kept(runner):
    calls = call(runner, "def f(x): return 1 // x", (1,), (1,), (0,), (1,))
    assert (len(calls.values), calls.status, calls.call) == (2, "exception", 3)


FORGED = (
    *("", "x", "[1", "1 2", "NaN,", "[" * 5000, '{"tuple": 1}', '{"set": [[1]]}', '{"set": 3}'),
    *('{"dict": [[1]]}', '{"dict": [[[], 1]]}', '{"bytes": "zz"}', '{"int": "x"}', '{"a": 1}'),
    *('{"complex": [1, 2, 3]}', "{}", '{"tuple": [], "set": []}', '{"bytearray": -1}'),
)


@pytest.mark.parametrize("text", FORGED)
def test_texts_of_values_may_be_forged(text):
    with pytest.raises(LiteralError):
        read_value(text)


def test_long_texts_are_left_out(runner):
    program = "def f(x): return 'a' * x"
    calls = call(runner, program, (9,), (99,), (98,), text_chars=20)
    assert [value.text is None for value in calls.values] == [False, True, True]
    assert [value.chars for value in calls.values] == [11, 101, 100]


def test_scripts_have_a_real_file(runner):
    program = "import sys\nprint(sys.stdin.readline().strip(), sys.stdin.buffer.read())"
    run = runner.run(program, "é\nb", cpu_s=1.0)
    assert (run.status, run.output) == ("ok", "é b''\n".encode())  # the text layer read ahead
    large = "x" * 3_000_000
    run = runner.run("print(len(open(0).read()))", large, cpu_s=1.0)
    assert run.output == b"3000000\n"
    run = runner.run("import sys; sys.stdin.close(); print(1)", large, cpu_s=1.0)
    assert (run.status, run.output) == ("ok", b"1\n")


@pytest.mark.parametrize(
    ("data", "values", "status"),
    [
        (b"", 0, None),
        (b'["ok", ""]\n', 0, None),
        (b'["int", "d", "1", 1, false, 0.1]\n["ok", ""]\n', 1, "ok"),
        (b'["int", "d", "1", 1, false, 0.1]\n["violation", ""]\n', 1, None),
        (b'["int", "d", "1", 1, false, 1' + b"0" * 400 + b"]\n", 0, None),
        (b'["int", "d", [], 1, false, 0.1]\n', 0, None),
        (b"[" * 100_000, 0, None),
        (b'["int", "d", "1", 1, false, 0.1]\n' * 3, 1, None),
        (b'[3, null]\n["ok", ""]\n', 0, None),
        (b"\xff\n", 0, None),
    ],
)
def test_reports_may_be_forged(data, values, status):
    found, end = read_report(data, 1)
    assert (len(found), end and end[0]) == (values, status)


HUGE = (
    b"[" + b"1," * 4_000_000 + b"1]\n",
    b'["list", "d", [' + b"[]," * 2_000_000 + b"[]], 1, false, 0.1]\n",
    b'["list", "d", "' + b"a" * 8_000_000 + b'", 1, false, 0.1]\n',
    b"[" * 8_000_000 + b"\n",
    b'["ok", ["x", ' + b'"y",' * 2_000_000 + b'""]]\n',
    b"\n" * 8_000_000,
)


@pytest.mark.parametrize("data", HUGE, ids=["numbers", "lists", "a text", "deep", "end", "lines"])
def test_a_forged_report_costs_the_caller_nothing(data):
    tracemalloc.start()
    try:
        assert read_report(data, 1) == ([], None)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


EQUAL = (
    *((1, True, 1.0, 1 + 0j), (0, -0.0, False, 0j), (2**70, 2.0**70), (2**70 + 1,)),
    *(([1, 2.5], [True, 2.5]), ((1, 2.5), (1.0, 2.5)), (["a"], ["a"]), (["a", ""],), (["a\0"],)),
    *(([["a"], [""]], [["a"], [""]]), ([["a"], []],), ([("a",), ("",)],), ([["a\0"]],), ([[1]],)),
    *(({1, 2}, {2.0, 1}), ({"a": [1.0]}, {"a": [1]}), ([{1}, {2: 3}], [{1.0}, {2: 3.0}])),
    *(([*range(5000)], [float(n) for n in range(5000)]), (tuple(range(5000)),), ([*range(4096)],)),
    *(([-0.0] * 5000, [0] * 5000), ([2**70] * 5000, [2.0**70] * 5000), ([2**53 + 1] * 5000,)),
    *((["a"] * 5000,), ([("a", "b")] * 5000, [("a", "b")] * 5000), ([("a\0b",)] * 5000,)),
    *(([0.5] * 5000, [Fraction(1, 2)] * 5000), ([[1.0]] * 5000, [[True]] * 5000)),
    ([1.5, 2], [1.5 + 0j, 2.0], [Fraction(3, 2), Fraction(2)]),
    *(([1.0, 2**53 + 1], [True, 2**53 + 1]), ([1.0, 2**53],), ([1, math.inf], [1.0, math.inf])),
)


def test_values_have_one_digest_where_they_are_equal_and_only_there():
    digests = [{Value.of(value).digest for value in values} for values in EQUAL]
    assert [len(found) for found in digests] == [1] * len(EQUAL)
    assert len(set.union(*digests)) == len(EQUAL)
    for value in (float("nan"), [1, float("nan")], [0.5] * 5000 + [float("nan")], {float("nan")}):
        assert Value.of(value).digest == ""
    for value in ([object()], [[object()]], {(1,): [object()]}, {(1, frozenset({range(3)}))}):
        assert Value.of(value).chars == -1


ATOMS = st.sampled_from(
    [0, 1, 2**70, True, False, 0.0, -0.0, 1.0, 1.5, 2.0**70, 1 + 0j, 1.5j, "", "a", b"a", None]
)
HASHABLE = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=4)
NESTED = st.recursive(
    ATOMS | st.sets(HASHABLE, max_size=2) | st.dictionaries(HASHABLE, HASHABLE, max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@settings(max_examples=500)
@given(NESTED, NESTED)
def test_digests_are_equal_exactly_where_values_are(left, right):
    assert (Value.of(left).digest == Value.of(right).digest) == (left == right)


def test_texts_of_values_read_back():
    plain = (1, -2.5, [1, (2, "x")], {1: {2, 3}}, set(), frozenset({1}), 1 - 2j, bytearray(b"x"))
    for value in (*plain, b"a", 10**5000, {(1,): None}, -0.0, float("-inf")):
        found = Value.of(value)
        assert read_value(found.data) == value
    assert Value.of([float("nan"), 1]).text == "[nan, 1]"


DUMPS_ITS_HEAP = """
import sys
frame = sys._getframe()
while "walls" not in frame.f_globals:
    frame = frame.f_back
ctypes, libc = frame.f_globals["walls"].ctypes, frame.f_globals["walls"].libc
libc.sbrk.restype = ctypes.c_void_p
at = libc.sbrk(0) & ~4095
while libc.write(1, ctypes.c_void_p(at := at - 4096), 4096) == 4096:
    pass
"""
ASKS_TO_BE_SIGNALLED = """
import fcntl, os, sys
def f(x):
    frame = sys._getframe(1)
    while not hasattr(frame.f_locals.get("self"), "pid"):
        frame = frame.f_back
    for command, value in ((8, frame.f_locals["self"].pid), (10, 9), (4, 0o20001)):
        try:
            fcntl.fcntl(3, command, value)
        except PermissionError:
            pass
    os.write(3, b" " * 65536)
"""


def test_no_program_is_found_in_the_memory_of_a_later_one(runner):
    note = "".join(f"# the solution, line {number}\n" for number in range(200))
    marker = b"the solution, line 17"
    for _ in range(3):
        call(runner, note + "def f(x): return x")
        runner.run(note, "", cpu_s=1.0)
    own = runner.run(note + DUMPS_ITS_HEAP, "", cpu_s=3.0, output_bytes=1 << 28)
    later = runner.run(DUMPS_ITS_HEAP, "", cpu_s=3.0, output_bytes=1 << 28)
    assert marker in own.output  # the dump works
    assert len(later.output) > 1 << 20
    assert marker not in later.output


def test_no_program_leaves_a_note_for_a_later_one(runner):
    find = "import sys\nframe = sys._getframe()\n"
    find += "while 'room' not in frame.f_locals: frame = frame.f_back\n"
    find += "page = frame.f_locals['room']\n"
    first = runner.run(find + "page[:] = b'n' * len(page)", "", cpu_s=1.0)
    assert first.exit_code < 256
    assert runner.run(find + "print(bytes(page).strip(b'\\0'))", "", cpu_s=1.0).output == b"b''\n"


def test_no_program_has_its_server_signalled(runner):
    assert call(runner, ASKS_TO_BE_SIGNALLED, output_bytes=1 << 20).status != "sandbox_error"
