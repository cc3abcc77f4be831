"""Grading LiveCodeBench samples; and scripts that try to pass without solving the problem."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from livecodebench_problems import problem

from code_verifier import ScriptRunner
from evals import Grading, Question, Sample
from evals.code.livecodebench import Problem, grade, grade_program
from evals.question import Outcome
from evals.recipes import CHAT

Grader = Callable[[Problem, str], Outcome]

DOUBLE = problem([("3\n1\n2\n3\n", "2\n4\n6\n"), ("1\n5\n", "10\n")])
SUM = problem([("[1, 2]\n3", "[6, 3]"), ("[]\n1", "[1, 1]")], "add")
LOOP = "for _ in range(int(input())):\n    print(2 * int(input()))"
METHOD = "class Solution:\n    def add(self, a: List[int], b: int) -> List[int]:\n        "


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with ScriptRunner() as runner:
        yield partial(grade_program, runner, timeout_s=0.3)


@pytest.mark.parametrize(
    "program",
    [
        LOOP,
        f"def main():\n    {LOOP.replace(chr(10), chr(10) + '    ')}\n"
        "if __name__ == '__main__':\n    main()",
        "import sys\nnext(sys.stdin)\nfor line in sys.stdin:\n    print(2 * int(line))",
        "import sys\nread = sys.stdin.buffer.readline\nfor _ in range(int(read())):\n"
        "    print(2 * int(read()))",
        "for x in open(0).read().split()[1:]:\n    print(2 * int(x))",
        "n = 0\ndef f():\n    global n\n    n = int(input())\nf()\nfor _ in range(n):\n"
        "    print(int(input()) * 2)\nexit()",
        "import threading\ndef f():\n    for _ in range(int(input())): print(2 * int(input()))\n"
        "threading.Thread(target=f).start()",
        "import os\nfor x in os.read(0, 99).split()[1:]:\n    os.write(1, b'%d\\n' % (2 * int(x)))",
        "import sys\nprint('note', file=sys.stderr)\n" + LOOP,
        LOOP + "\nreturn",
        "def main():\n    nonlocal n\n    n = int(input())\nn = 0\nmain()\n"
        "for _ in range(n):\n    print(2 * int(input()))",
        "input()\nwhile True:\n    try:\n        print(2 * int(input()))\n"
        "    except EOFError:\n        break",
        "def depth(n): return n and 1 + depth(n - 1)\nassert depth(40_000)\n" + LOOP,
        "assert pow(2, 3, 5) == 3 and gcd(4, 6) == 2 and Counter('aa')['a'] == 2\n" + LOOP,
    ],
)
def test_scripts_that_pass(grader: Grader, program: str) -> None:
    verdict = grader(DOUBLE, program)
    assert verdict.status == "pass", verdict


@pytest.mark.parametrize(
    ("program", "status", "test", "reason"),
    [
        ("print(2)\nprint(4)\nprint(6)", "fail", 1, "printed"),
        ("print(1)", "fail", 0, "printed '1'; expected"),
        ("1 / 0", "fail", 0, "ZeroDivisionError"),
        ("x =", "fail", 0, "SyntaxError"),
        ("", "fail", 0, "printed ''"),
        ("while True: pass", "timeout", 0, "processor time"),
        ("import time; time.sleep(1e6)", "timeout", 0, "slept"),
        ("while True: print('x' * 9999)", "fail", 0, "more than the limit"),
        ("import os; os._exit(0)", "fail", 0, "printed"),
        ("import os; os._exit(9)", "fail", 0, "exit code 9"),
        ("import os; print(os.listdir('/'))", "fail", 0, "PermissionError"),
        ("import socket; socket.socket()", "fail", 0, "PermissionError"),
        ("import os; os.fork()", "fail", 0, "PermissionError"),
        ("import sys; sys.stdin = None; input()", "fail", 0, "RuntimeError"),
    ],
)
def test_scripts_that_do_not(
    grader: Grader, program: str, status: str, test: int, reason: str
) -> None:
    verdict = grader(DOUBLE, program)
    assert (verdict.status, verdict.failed_test) == (status, test)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("program", "status", "test"),
    [
        (METHOD + "return [sum(a) + b, b]", "pass", None),
        (METHOD + "return (sum(a) + b, b)", "pass", None),
        (METHOD + "return [float(sum(a) + b), b]", "pass", None),
        ("def add(a, b):\n    return [sum(a) + b, b]", "pass", None),
        ("from fractions import Fraction as F\ndef add(a, b): return [F(sum(a) + b), b]", "pass",
         None),
        ("import numpy as np\ndef add(a, b): return [np.int64(sum(a) + b), np.float32(b)]", "pass",
         None),
        ("import numpy as np\ndef add(a, b): return np.array([sum(a) + b, b])", "pass",
         None),
        ("from unittest.mock import ANY\ndef add(a, b): return [ANY, ANY]", "fail", 0),
        (METHOD + "return [(sum(a) + b,), b]", "fail", 0),
        (METHOD + "return [sum(a) + b, 3]", "fail", 1),
        (METHOD + "return [[sum(a) + b, b]]", "fail", 0),
        (METHOD + "return 1 / 0", "fail", 0),
        (METHOD + "while True: pass", "timeout", 0),
        ("class Solution:\n    pass", "fail", None),
        ("class Any(list):\n    def __eq__(self, other): return True\n"
         "def add(a, b): return Any()", "fail", 0),
    ],
)  # fmt: skip
def test_functions(grader: Grader, program: str, status: str, test: int | None) -> None:
    verdict = grader(SUM, program)
    assert (verdict.status, verdict.failed_test) == (status, test)


def test_what_the_official_harness_rejects_passes(grader: Grader) -> None:
    empty = problem([("1\n\n2\n", "3\n")])
    rejected = [
        "import sys\nprint(sum(int(line or 0) for line in sys.stdin if line.strip()))",
        "import sys\nread = sys.stdin.buffer.readline\na = read(), read()\n"
        "print(int(a[0]) + int(read()))",
        "n = 0\ndef f():\n    global n\n    n = 3\nf()\nprint(n)",
        "import sys\nsys.stdout.buffer.write(b'3')",
        "class Solution:\n    def sum(self): return 3\nprint(Solution().sum())",
        "def main(): print(3)\nif '__main__' == __name__: main()",
        "print(sum(map(int, open(0).read().split())))",
        "from __future__ import annotations\nprint(3)",
    ]
    assert {grader(empty, program).status for program in rejected} == {"pass"}


def test_faults_of_ours_count_for_no_one(grader: Grader) -> None:
    broken = [
        problem([]),
        problem([("{", "1")], "add"),
        problem([("1", "{")], "add"),
        problem([("1", "1")], "add", metadata="{}"),
        problem([("1", "1")], private_test_cases="!"),
    ]
    for task in broken:
        verdict = grader(task, "def add(a): return a")
        assert verdict.status is None
        assert verdict.reason


def test_many_in_order() -> None:
    samples = [(DOUBLE, LOOP), (DOUBLE, "1"), (SUM, "def add(a, b): return [sum(a) + b, b]")]
    pairs = [
        (Question("p1", {}, task), Sample("p1", n, f"```python\n{program}\n```"))
        for n, (task, program) in enumerate(samples)
    ]
    verdicts = grade(pairs, Grading.of(CHAT, "livecodebench", workers=2))
    assert [verdict.correct for verdict in verdicts] == [True, False, True]


ANSWER = problem([("2\n", "YES\n"), ("3\n", "NO\n"), ("4\n", "YES\n")])
NUMBER = problem([("2\n", "0.5\n"), ("3\n", "0.25\n")])
FRAMES = "import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back; "
CHEATS = {
    "both answers": "print('YES\\nNO')",
    "carriage return": "print('YES\\rNO')",
    "backspaces": "print('NO\\b\\b\\bYES')",
    "nothing": "pass",
    "nulls": "print('\\0' * 99)",
    "a flood": "while True: print('YES\\n' * 999)",
    "a signalling one": "print('sNaN')",
    "infinity": "print('Infinity')",
    "a huge exponent": "print('1e999999999999999999')",
    "many digits": "print('0.' + '3' * 10**6)",
    "no text": "import os\nos.write(1, bytes(range(256)))",
    "half a character": "import os\nos.write(1, b'YES\\xff')",
    "leaves": "import os\nos._exit(0)",
    "a status": "import sys\nsys.exit('YES')",
    "an exit function": "import atexit\natexit.register(print, 'YES')",
    "closes its output": "import os\nos.close(1)",
    "output of its own": "import sys, io\nsys.stdout = io.StringIO('YES')",
    "an output that lies": "import sys\n"
    "sys.stdout = type('S', (), {'flush': lambda s: None, 'write': lambda s, t: len(t)})()",
    "all descriptors": "import os\nfor fd in range(99):\n"
    '    try: os.write(fd, b\'["done", ""]\')\n    except OSError: pass',
    "the server": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "its process group": "import os, signal\nos.killpg(0, signal.SIGKILL)",
    "a fork": "import os\nif os.fork(): print('YES')\nelse: print('NO')",
    "a file": "print(open('/etc/hostname').read())",
    "the progress": FRAMES + "frame.f_locals.get('progress', {})",
    "names outside": FRAMES + "print(list(frame.f_globals))",
    "expected by gc": "import gc\ngc.unfreeze()\nfor item in gc.get_objects():\n"
    "    if isinstance(item, dict) and 'expected' in item: print(item['expected'])",
    "patched decimal": "import decimal\ndecimal.Decimal.__eq__ = None\nprint(1)",
    "a raise": "print('YES')\nraise SystemError",
    "a segmentation fault": "print('YES')\n"
    "import sys\nsys.setrecursionlimit(10**9)\nexec('a.' * 10**6 + 'a')",
    "all memory": "x = [0] * 10**12\nprint('YES')",
    "sleeps": "import time\ntime.sleep(1e9)",
    "waits": "import threading\n"
    "threading.Thread(target=lambda: print('YES')).start()\nraise KeyError",
    "spins": "import signal\nsignal.signal(signal.SIGPROF, signal.SIG_IGN)\nwhile True: pass",
}
LENGTH = """
import sys
frame = sys._getframe()
while "order" not in frame.f_locals: frame = frame.f_back
print(frame.f_locals["order"]["output_bytes"])
"""


@pytest.mark.parametrize("name", CHEATS)
def test_no_script_cheats(grader: Grader, name: str) -> None:
    for task in (ANSWER, NUMBER):
        verdict = grader(task, CHEATS[name])
        assert verdict.status in ("fail", "timeout"), verdict


def test_the_room_for_output_does_not_show_the_length_of_the_answer(grader: Grader) -> None:
    tasks = (problem([("1", "NO")]), problem([("1", "YES")]), problem([("1", "x" * 9999)]))
    found = {grader(task, LENGTH).reason.partition(";")[0] for task in tasks}
    assert found == {"test 1: printed '16777216'"}
