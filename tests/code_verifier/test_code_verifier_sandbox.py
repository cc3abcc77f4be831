"""Programs, benign and hostile, and what the sandbox makes of them."""

import os
from collections.abc import Iterator

import pytest

from code_verifier import CodeVerifierError, Limits, Sandbox, SandboxUnavailable

DEEP = """
get = object.__getattribute__
for c in type.__getattribute__(object, '__subcl' + 'asses__')():
    if c.__name__ == '_wrap_close':
        space = get(type.__getattribute__(c, '__init__'), '__glo' + 'bals__')
p = space['sys'].modules['posix']
"""
"""Everything that Python could refuse is got round: only the kernel is left."""

BENIGN = [
    ("def f(x):\n    return x + 1", "1", "2"),
    ("def g(x):\n    return 2 * x\ndef f(x):\n    return g(x)", "4", "8"),
    ("f = lambda *a, **k: (a, k)", "1, 2, z=3", "((1, 2), {'z': 3})"),
    ("class A:\n    def __init__(s, v): s.v = v\ndef f(x): return A(x).v", "'a'", "'a'"),
    ("def f(input, compile=1):\n    return input", "3", "3"),
    ("import re\ndef f(s):\n    return re.compile('b+').sub('', s)", "'abb'", "'a'"),
    ("def f(d):\n    return list(d)", "{'b': 1, 'a': 2}", "['b', 'a']"),
    ("def f(s):\n    return {c: s.count(c) for c in set(s)}", "'abca'", "{'a': 2, 'b': 1, 'c': 1}"),
    ("import random\ndef f(n):\n    random.seed(n)\n    random.random()\n    return n", "7", "7"),
    ("import sys\ndef f():\n    return sys.maxsize > 2**31", "", "True"),
    ("from collections import Counter\ndef f(s):\n    return dict(Counter(s))", "'aa'", "{'a': 2}"),
    ("import datetime\ndef f(y):\n    return str(datetime.date(y, 1, 2))", "2020", "'2020-01-02'"),
    ("import time\ndef f(t):\n    return time.strftime('%Y', time.gmtime(t))", "0", "'1970'"),
    ("import hashlib\ndef f(b):\n    return hashlib.md5(b).hexdigest()[:4]", "b''", "'d41d'"),
    ("def f(x):\n    print('open eval exec')\n    return x", "None", "None"),
    ("import math\nclass E(Exception): pass\ndef f(x):\n    return math.sqrt(x)", "4", "2.0"),
    ("from __future__ import annotations\ndef f(x: int) -> int:\n    return x", "5", "5"),
    (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n"
        "def f(x):\n    return dataclasses.asdict(P(x))",
        "1",
        "{'x': 1}",
    ),
    (
        "def f(x):\n    try:\n        return 1 / x\n    except ArithmeticError:\n        return 0",
        "0",
        "0",
    ),
    ("def f(x):\n    return '\\d' + x", "'\\d'", "'\\\\d\\\\d'"),
    ("def f(x):\n    return x", "'\\ud800'", "'\\ud800'"),
]

REFUSED = [
    ("syntax_error", "def f(x: return", "1"),
    ("syntax_error", "def f(x):\n    return x\x00", "1"),
    ("syntax_error", "x = " + "(" * 300, "1"),
    ("syntax_error", "def f(x):\n    break", "1"),
    ("syntax_error", "return 1", "1"),
    ("syntax_error", "def f(x, x): return x", "1"),
    ("exception", "def f(x: Undefined): return x", "1"),
    ("banned", "import os\ndef f(x):\n    return x", "1"),
    ("banned", "from subprocess import run\ndef f(x):\n    return x", "1"),
    ("banned", "def f(x):\n    return open('/etc/passwd').read()", "1"),
    ("banned", "def f(x):\n    return eval('1')", "1"),
    ("banned", "def f(x):\n    return __import__('os').getpid()", "1"),
    ("banned", "def f(x):\n    return ().__class__.__base__.__subclasses__()", "1"),
    ("banned", "def f(x):\n    return getattr(f, '__globals__')", "1"),
    ("exception", "g = 1", "1"),
    ("exception", "def f(x):\n    return 1 / 0", "1"),
    ("exception", "def f(x):\n    raise SystemExit", "1"),
    ("exception", "def f(x):\n    return f(x)", "1"),
    ("exception", "def f():\n    return 1", "1"),
    (
        "exception",
        "class E(BaseException):\n    def __str__(s): return 'ok'\ndef f(x): raise E",
        "1",
    ),
    ("not_literal", "def f(x):\n    yield x", "1"),
    ("not_literal", "async def f(x):\n    return x", "1"),
    ("not_literal", "def f(x):\n    return float('nan')", "1"),
    ("not_literal", "class S(str): pass\ndef f(x):\n    return S('a')", "1"),
    ("not_literal", "def f(x):\n    a = []\n    a.append(a)\n    return a", "1"),
    ("not_literal", "def f(x):\n    return x", "1) or (True"),
    ("not_literal", "def f(x):\n    return x", "y"),
    ("too_long", "def f(x):\n    return 'a' * 20000", "1"),
    ("too_long", "def f(x):\n    return 10 ** 5000", "1"),
    ("nondeterministic", "def f(x):\n    return id(x)", "[]"),
    ("nondeterministic", "def f(x):\n    return id(object()) % 4096", "1"),
    ("nondeterministic", "def f(x):\n    a = []\n    b = []\n    return id(a) < id(b)", "1"),
    ("nondeterministic", "def f(x):\n    a = {}\n    b = {}\n    return id(a) < id(b)", "1"),
    ("nondeterministic", "def f(x):\n    return list({'a', 'b', 'c', 'd', 'e', 'f'})", "1"),
    ("nondeterministic", "def f(x):\n    return hash('abc')", "1"),
    ("nondeterministic", "import time\ndef f(x):\n    return int(time.time())", "1"),
    ("nondeterministic", "import time\ndef f(x):\n    return time.strftime('%Y %m %d')", "1"),
    ("nondeterministic", "import time\ndef f(x):\n    return time.localtime().tm_sec", "1"),
    ("nondeterministic", "import datetime as d\ndef f(x):\n    return d.datetime.now().year", "1"),
    ("nondeterministic", "import datetime as d\ndef f(x):\n    return str(d.date.today())", "1"),
    ("nondeterministic", "import random\ndef f(x):\n    return random.random()", "1"),
    ("nondeterministic", "import random\ndef f(x):\n    return random.Random().random()", "1"),
    ("nondeterministic", "def f(x):\n    return repr(object())", "1"),
    ("violation", DEEP + "def f(x):\n    return p.fork()", "1"),
    ("violation", DEEP + "def f(x):\n    p.kill(1, 0)", "1"),
    ("violation", DEEP + "def f(x):\n    p.execv('/bin/true', ['true'])", "1"),
    ("violation", DEEP + "def f(x):\n    p._exit(0)", "1"),
    ("violation", DEEP + "def f(x):\n    p.write(3, b'x' * 60)\n    return 1", "1"),
    ("violation", DEEP + "def f(x):\n    while 1: p.write(3, b'x' * 4096)", "1"),
    ("violation", DEEP + "def f(x):\n    return p.listdir('/')", "1"),
    ("violation", DEEP + "def f(x):\n    return p.open('/etc/passwd', 0)", "1"),
    ("violation", DEEP + "def f(x):\n    return p.getpid()", "1"),
    ("violation", DEEP + "def f(x):\n    return p.stat('/')", "1"),
    ("banned", "import collections\nf = collections._sys._getframe", ""),
    ("banned", "import random\ndef f():\n    return random._os.getpid()", ""),
    ("exception", DEEP + "def f(x):\n    return p.write(1, b'x')", "1"),
    ("nondeterministic", DEEP + "def f(x):\n    return p.urandom(4)", "1"),
]


@pytest.mark.parametrize(("program", "given", "output"), BENIGN)
def test_benign_programs_give_their_output(
    sandbox: Sandbox, program: str, given: str, output: str
) -> None:
    verdict = sandbox.check(program, given)
    assert (verdict.status, verdict.output) == ("ok", output), verdict.reason
    assert verdict.runs >= 2


@pytest.mark.parametrize(("status", "program", "given"), REFUSED)
def test_other_programs_get_their_status(
    sandbox: Sandbox, status: str, program: str, given: str
) -> None:
    verdict = sandbox.check(program, given)
    assert (verdict.status, verdict.output) == (status, None), verdict


SWALLOWS = """
def f(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""


@pytest.mark.parametrize(
    "program",
    ["def f(x):\n    while True: pass", "import time\ndef f(x):\n    time.sleep(60)", SWALLOWS],
    ids=["spin", "sleep", "swallow"],
)
def test_time_runs_out(quick: Sandbox, program: str) -> None:
    assert quick.check(program, "1").status == "timeout"


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return [0] * 10**9",
        "def f(x):\n    a = []\n    while True: a.append('x' * 10**6 + str(len(a)))",
        "def f(x):\n    a = []\n    while True: a.append([])",
    ],
    ids=["at once", "in lumps", "in drops"],
)
def test_memory_runs_out(small: Sandbox, program: str) -> None:
    assert small.check(program, "1").status == "memory"


def test_a_program_cannot_see_what_another_left(sandbox: Sandbox) -> None:
    spoil = "import math\nmath.floor = lambda x: 99\ndef f(x):\n    return math.floor(x)"
    look = "import math\ndef f(x):\n    return math.floor(x)"
    verdicts = list(sandbox.run_many([(spoil, "1.5"), (look, "1.5")] * 10))
    assert [verdict.output for verdict in verdicts] == ["99", "1"] * 10


def test_a_low_recursion_limit_does_not_break_the_report(sandbox: Sandbox) -> None:
    program = "import sys\ndef f(x):\n    sys.setrecursionlimit(12)\n    return [[[[[[x]]]]]]"
    assert sandbox.run(program, "1").status in ("ok", "exception")


def test_many_are_lazy_and_in_order(sandbox: Sandbox) -> None:
    taken = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal taken
        while True:
            taken += 1
            yield "def f(x):\n    return x", str(taken)

    stream = sandbox.check_many(pairs())
    assert [next(stream).output for _ in range(30)] == [str(i) for i in range(1, 31)]
    assert taken <= 30 + 8 * sandbox.workers
    stream.close()  # type: ignore[attr-defined]
    assert sandbox.run_inputs("def f(x):\n    return -x", ["1", "2"])[1].output == "-2"


def test_no_process_or_descriptor_stays_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Sandbox(workers=2) as sandbox:
        assert all(v.ok for v in sandbox.check_many([("def f(x):\n    return x", "1")] * 20))
        pids = sandbox.pids()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(SandboxUnavailable, match="closed"):
        sandbox.run("def f(x):\n    return x", "1")


def test_wrong_use_is_told() -> None:
    for make in (lambda: Sandbox(workers=0), lambda: Sandbox(runs=1), lambda: Limits(wall_s=-1)):
        with pytest.raises(CodeVerifierError, match="expected"):
            make()
