"""Programs that do not solve the problem and try to pass. None does."""

from collections.abc import Iterator

import pytest
from function_tasks import SECRET, problem

from evals.functions.grader import FunctionGrader

TASK = problem(SECRET)
CHEATS = {
    "equal to all": """
class Any(list):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = None
def secret(x): return Any()
""",
    "equal to all, not a list": """
class Any:
    def __eq__(self, other): return True
    def __len__(self): return 2
    def __iter__(self): return iter([1, 2])
def secret(x): return Any()
""",
    "expected of the caller": """
import sys
def secret(x):
    frame = sys._getframe(1)
    while frame:
        for name in ("expected", "exp", "wanted", "values", "references"):
            if name in frame.f_locals:
                return frame.f_locals[name][0]
        frame = frame.f_back
""",
    "forged status": """
import os, sys
def secret(x):
    for frame in [sys._getframe(1)]:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if hasattr(value, "value") and not callable(value):
                value.value = 0
    os._exit(0)
""",
    "forged report": """
import os, json
def secret(x):
    line = json.dumps(["list", "", None, -1, False, 0.0])
    os.write(3, (line + "\\n" + line + "\\n" + '["done", ""]\\n').encode())
    os._exit(0)
""",
    "forged pass": """
import os
def secret(x):
    os.write(3, b'["pass", "pass"]\\n')
    os._exit(0)
""",
    "forged report with nonsense": """
import os
def secret(x):
    os.write(3, b'[' * 100000)
    os._exit(0)
""",
    "forged numbers": """
import os
def secret(x):
    os.write(3, b'["list", "", "[10, 1]", NaN, 1e999, Infinity]\\n["done", ""]\\n')
    os._exit(0)
""",
    "patched builtins": """
import builtins, json, hashlib
builtins.repr = lambda value: "[10, '1']"
builtins.all = builtins.any = lambda items: True
json.dumps = lambda *args, **kwargs: '["done", ""]'
hashlib.sha256 = None
def secret(x): return 0
""",
    "patched comparison": """
import sys
import numpy as np
np.allclose = lambda *a, **k: True
def secret(x): return [0.0, "x"]
""",
    "leaves at once": "import os\nos._exit(0)",
    "leaves by an exception": "raise SystemExit(0)",
    "kills the server": """
import os, signal
def secret(x):
    os.kill(os.getppid(), signal.SIGKILL)
    return [0, ""]
""",
    "looks for the reference on disk": """
import glob, os
def secret(x):
    for root, _, names in os.walk("/"):
        for name in names:
            text = open(os.path.join(root, name)).read()
            if "x * 7 + 3" in text:
                return eval("[x * 7 + 3, str(x)]")
    return 0
""",
    "looks for the reference in memory": """
import gc
def secret(x):
    for item in gc.get_objects():
        if isinstance(item, dict):
            for value in list(item.values()):
                if isinstance(value, str) and "* 7 +" in value and "gc." not in value:
                    names = {}
                    exec(value, names)
                    return names["secret"](x)
    return 0
""",
    "looks into the parent": """
import os
def secret(x):
    return open(f"/proc/{os.getppid()}/mem", "rb").read(10)
""",
    "swallows every exception": """
def secret(x):
    while True:
        try:
            while True: pass
        except BaseException:
            pass
""",
    "ignores the timer": """
import signal
signal.signal(signal.SIGPROF, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_PROF, 0)
def secret(x):
    signal.setitimer(signal.ITIMER_PROF, 0)
    while True: pass
""",
    "forks": """
import os
def secret(x):
    os.fork()
    return [0, ""]
""",
    "a metaclass that lies": """
class Meta(type):
    def __eq__(cls, other): return True
    def __instancecheck__(cls, other): return True
    __hash__ = type.__hash__
    __name__ = "list"
class list(metaclass=Meta):
    def __repr__(self): return "[10, '1']"
    def __eq__(self, other): return True
def secret(x): return list()
""",
    "a repr that lies": """
class Text(str):
    def __repr__(self): return "'1'"
    def __str__(self): return "1"
def secret(x): return [x * 7 + 4, Text("2")]
""",
    "a number that lies": """
class Number(int):
    def __repr__(self): return "10"
    def __index__(self): return 10
    def __add__(self, other): return 10
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def secret(x): return [Number(0), str(x)]
""",
    "NaN": "def secret(x): return [float('nan'), str(x)]",
    "a mutable that changes later": """
kept = []
def secret(x):
    kept.append([0, ""])
    for item in kept: item[:] = [x * 7 + 2, str(x)]
    return kept[-1]
""",
    "a trace that changes values": """
import sys
def tracer(frame, event, arg):
    for name in frame.f_locals:
        pass
    return tracer
sys.settrace(tracer)
sys.setprofile(lambda *args: None)
def secret(x): return [0, ""]
""",
    "a result of its own class": """
import sys
for module in list(sys.modules.values()):
    if hasattr(module, "describe"):
        module.describe = lambda *args: ("list", "", "[10, '1']", 9, False)
def secret(x): return 0
""",
    "floods": """
def secret(x):
    import os
    while True: os.write(3, b"x" * 65536)
""",
    "closes the pipe": "import os\nos.close(3)\ndef secret(x): return [0, '']",
    "uses all memory": "def secret(x): return [0] * 10**12",
    "recurses without end": "def secret(x): return secret(x)",
    "a thread that forges": """
import os, threading
def secret(x):
    threading.Thread(target=lambda: os.write(3, b'["done", ""]\\n')).start()
    return [0, ""]
""",
}


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunctionGrader]:
    with FunctionGrader(cache=tmp_path_factory.mktemp("expected"), min_time_s=0.2) as opened:
        assert opened.grade(TASK, TASK.reference).plus == "pass"
        yield opened


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(grader: FunctionGrader, name: str) -> None:
    verdict = grader.grade(TASK, CHEATS[name])
    assert verdict.base in ("fail", "timeout")
    assert verdict.plus in ("fail", "timeout")
    assert verdict.reason


def test_the_grader_works_after_all_of_that(grader: FunctionGrader) -> None:
    assert grader.grade(TASK, TASK.reference).base == "pass"
