"""Scripts that try to pass without solving the problem. None does."""

from collections.abc import Iterator

import pytest
from livecodebench_problems import problem

from evals.livecodebench.grader import LiveCodeBenchGrader

ANSWER = problem([("2\n", "YES\n"), ("3\n", "NO\n"), ("4\n", "YES\n")])
NUMBER = problem([("2\n", "0.5\n"), ("3\n", "0.25\n")])
FRAMES = "import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back; "
CHEATS = {
    "both answers": "print('YES\\nNO')",
    "carriage return": "print('YES\\rNO')",
    "backspaces": "print('NO\\b\\b\\bYES')",
    "nothing": "pass",
    "nulls": "print('\\0' * 99)",
    "a flood": "while True: print('YES')",
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


@pytest.fixture(scope="module")
def grader() -> Iterator[LiveCodeBenchGrader]:
    with LiveCodeBenchGrader(timeout_s=0.3) as opened:
        yield opened


@pytest.mark.parametrize("name", CHEATS)
def test_no_script_cheats(grader: LiveCodeBenchGrader, name: str) -> None:
    for task in (ANSWER, NUMBER):
        verdict = grader.grade(task, CHEATS[name])
        assert verdict.status in ("fail", "timeout"), verdict


def test_the_room_for_output_does_not_tell_the_length_of_the_answer(
    grader: LiveCodeBenchGrader,
) -> None:
    tasks = (problem([("1", "NO")]), problem([("1", "YES")]), problem([("1", "x" * 9999)]))
    found = {grader.grade(task, LENGTH).reason.partition(";")[0] for task in tasks}
    assert found == {"printed '16777216'"}
