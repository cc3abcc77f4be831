"""Programs that do not solve the problem and try to pass: forgeries, patches, odd objects."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from evalplus_problems import HALF, SECRET, problem, row

from evals.code import grader as grading
from evals.code.grader import FunctionGrader

TASK = problem(SECRET)
ROOM = """
import os, sys
frame = sys._getframe()
while "room" not in frame.f_locals: frame = frame.f_back
room = frame.f_locals["room"]
"""  # the memory for the report
PROGRAMS = {
    "forged status": """
import os, sys
def secret(x):
    for frame in [sys._getframe(1)]:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if hasattr(value, "value") and not callable(value):
                value.value = 0
    os._exit(0)
""",
    "forged numbers": f"""{ROOM}
def secret(x):
    room.write(b'["list", "", "[10, 1]", NaN, 1e999, Infinity]\\n["done", ""]\\n')
    os._exit(0)
""",
    "leaves at once": "import os\nos._exit(0)",
    "leaves by an exception": "raise SystemExit(0)",
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
    "a mutable that changes later": """
kept = []
def secret(x):
    kept.append([0, ""])
    for item in kept: item[:] = [x * 7 + 2, str(x)]
    return kept[-1]
""",
    "uses all memory": "def secret(x): return [0] * 10**12",
    "recurses without end": "def secret(x): return secret(x)",
}
LINE = '["list", "", "[10, 1]", 7, false, 0.0]\\n'
PATCHES = {
    "json": "import json\njson.dumps = json.JSONEncoder.encode = lambda *a: '[]'",
    "marshal": "import marshal\nmarshal.loads = lambda data: []",
    "pickle": "import pickle\npickle.dumps = pickle.loads = lambda *a: [10, '1']",
    "struct": "import struct\nstruct.pack = lambda *a: b''",
    "os._exit": "import os\nos._exit = lambda code: None",
    "signal": "import signal\nsignal.setitimer = lambda *a: (0, 0)",
    "time": "import time\ntime.process_time = time.time = lambda: 0.0",
    "isinstance": "import builtins\nbuiltins.isinstance = lambda *a: True",
    "type": "import builtins\nbuiltins.type = lambda *a: list",
    "len, zip": "import builtins\nbuiltins.len = lambda x: 0\nbuiltins.zip = lambda *a, **k: []",
    "enumerate": "import builtins\nbuiltins.enumerate = lambda x: []",
    "import": "import builtins\nbuiltins.__import__ = lambda *a, **k: None",
    "sys.modules": "import sys\nsys.modules.clear()",
    "getframe": "import sys\nsys._getframe = None\nsys.excepthook = lambda *a: None",
    "report": "import sys\nframe = sys._getframe()\n"
    "while 'Report' not in frame.f_globals: frame = frame.f_back\n"
    "frame.f_globals['Report'].value = lambda *a: None",
    "describe": "import sys\nframe = sys._getframe()\n"
    "while 'describe_fully' not in frame.f_globals: frame = frame.f_back\n"
    "frame.f_globals['describe_fully'] = lambda *a: ('list', '', '[10, 1]', False)",
    "inputs": "import sys\nframe = sys._getframe()\n"
    "while 'request' not in frame.f_locals: frame = frame.f_back\n"
    "frame.f_locals['request']['limits'].clear()",
    "progress": "import sys\nframe = sys._getframe()\n"
    "while 'progress' not in frame.f_locals: frame = frame.f_back\n"
    "frame.f_locals['progress'][:] = b'\\xff' * 4096",
    "codecs": "import codecs\ncodecs.register_error('strict', lambda e: ('', e.end))",
    "meta path": "import sys\nsys.meta_path[:] = []\nsys.path_hooks[:] = []",
    "numpy": "import numpy as np\nnp.allclose = np.isclose = lambda *a, **k: True",
    "atexit": f"{ROOM}import atexit\natexit.register(lambda: room.write(b'{LINE}'))",
    "profile": "import sys, threading\nsys.setprofile(lambda *a: a[0].f_locals.update(value=[10]))",
    "recursion": "import sys\nsys.setrecursionlimit(60)",
    "digits": "import sys\nsys.set_int_max_str_digits(640)",
    "gc": "import gc\ngc.unfreeze()\ngc.set_debug(gc.DEBUG_SAVEALL)\ngc.disable()",
    "hash": "import hashlib\nhashlib.sha256 = lambda *a: type('H', (), "
    "{'hexdigest': lambda self: '0' * 64})()",
    "module attribute": "import sys\nsys.modules['solution'] = [10, '1']",
    "all descriptors": "import os\nfor fd in range(300):\n    try: os.write(fd, b'"
    + LINE
    + "')\n    except OSError: pass",
    "close all": "import os\nos.closerange(0, 99)",
    "fcntl": "import fcntl, os\nfcntl.fcntl(3, 4, os.O_NONBLOCK)\n"
    "try:\n    while True: os.write(3, b'x' * 4096)\nexcept BlockingIOError: pass",
    "threads": f"{ROOM}import threading\n"
    f"threading.Thread(target=lambda: [room.write(b'{LINE}') for _ in range(9)]).start()",
    "finaliser": f"{ROOM}class A:\n    def __del__(self): room.write(b'{LINE}')\na = A()\ndel a",
    "whole report": f"{ROOM}room.write(b'{LINE}' * 2 + b'[\"done\", \"\"]\\n')\nos._exit(0)",
    "a report without end": f"{ROOM}room[:] = b'x' * len(room)",
    "a report that fits": f"{ROOM}size = len(room) - 1\nroom[:size] = b'x' * size\nos._exit(0)",
    "foreign text": f'{ROOM}room.write(b\'["ndarray", "", "numpy(1, 2, 3)", 9, true, 0.0]\\n\''
    ' * 2 + b\'["done", ""]\\n\')\nos._exit(0)',
    "nothing": f'{ROOM}room.write(b\'["done", ""]\\n\')\nos._exit(0)',
}
RESULTS = {
    **{
        f"{made.rpartition('.')[2]} with eq": f"type('X', ({made},), "
        f"{{'__eq__': lambda s, o: True, '__hash__': None}})({given})"
        for made, given in (
            ("list", ""),
            ("tuple", "(1, 2)"),
            ("float", "1"),
            ("__import__('numpy').ndarray", "1"),
            ("__import__('decimal').Decimal", "1"),
            ("__import__('fractions').Fraction", "1"),
        )
    },
    "list that iterates otherwise": "type('L', (list,), "
    "{'__iter__': lambda s: iter([x * 7 + 3, str(x)]), '__len__': lambda s: 2})()",
    "posing class": "type('P', (), {'__class__': list, '__len__': lambda s: 2, "
    "'__getitem__': lambda s, i: [x * 7 + 3, str(x)][i]})()",
    "reduce": "type('R', (), {'__reduce__': lambda s: (list, ([x * 7 + 3, str(x)],))})()",
    "mock": "__import__('unittest.mock').mock.ANY",
    "magic mock": "__import__('unittest.mock').mock.MagicMock(__eq__=lambda *a: True)",
    "generator": "(item for item in [x * 7 + 3, str(x)])",
    "infinite": "__import__('itertools').count()",
    "nan": "[float('nan')] * 2",
    "infinity": "[float('inf'), str(x)]",
    "complex nan": "complex('nan')",
    "itself": "(lambda l: l.append(l) or l)([])",
    "object array": "__import__('numpy').array([__import__('unittest.mock').mock.ANY] * 2)",
    "decimal nan": "__import__('decimal').Decimal('nan')",
    "not implemented": "NotImplemented",
    "deep": "__import__('functools').reduce(lambda a, b: [a], range(10**5), [])",
    "the inputs": "x",
    "the function": "secret",
    "exception": "ValueError([x * 7 + 3, str(x)])",
    "awaitable": "__import__('asyncio').sleep(0, [x * 7 + 3, str(x)])",
    "surrogates": "['\\ud800', '\\udfff']",
    "bytes": "[x * 7 + 3, str(x).encode()]",
    "proc": "open('/proc/self/mem', 'r+b').read(1)",
    "environment": "[__import__('os').environ.get('HOME'), __import__('os').getppid()]",
    "cache": "__import__('glob').glob('/*/*/.cache/populab/evals/*')",
    "expected by gc": "next((o for o in __import__('gc').get_objects() if o == [10, '1']), 0)",
    "expected in frames": "[v for f in __import__('sys')._current_frames().values() "
    "for v in f.f_back.f_locals.values()]",
    "a sleep": "__import__('time').sleep(1e9)",
    "a lock": "__import__('threading').Lock().acquire() and __import__('sys').exit(0)",
}
CHEATS = {
    **PROGRAMS,
    **{
        f"patched {name}": f"{text}\ndef secret(x): return [0, '']"
        for name, text in PATCHES.items()
    },
    **{f"returns {name}": f"def secret(x): return {text}" for name, text in RESULTS.items()},
}
HALVES = row("HumanEval/1006", "halves", "(x):\n    return [x / 2]\n",
             base_input=[[1], [3]], plus_input=[[5]])  # fmt: skip
SPREAD = {
    "a list named float": "class float(list): pass\ndef half(x): return float()",
    "an array named float": "import numpy as np\n"
    "class float(np.ndarray): pass\ndef half(x): return float(0)",
    "a list that is no float": f"{ROOM}def half(x):\n"
    '    room.write(b\'["float", "", "[]", 2, true, 0.0]\\n\' * 2 + b\'["done", ""]\\n\')\n'
    "    os._exit(0)",
    "an array that is no float": f'{ROOM}line = b\'["float", "", "[]", 2, true, 0.0]\\n\'\n'
    "line = line.replace(b'[]', b\"numpy('<f8', (0,), [])\")\n"
    'def half(x):\n    room.write(line * 2 + b\'["done", ""]\\n\')\n    os._exit(0)',
    "an empty list inside": "def halves(x): return [[]]",
    "an empty tuple inside": "def halves(x): return [()]",
    "an empty array inside": "import numpy as np\ndef halves(x): return [np.array([])]",
    "an empty array of one row": "import numpy as np\ndef halves(x): return np.zeros((1, 0))",
}


@pytest.fixture(scope="module", params=[1 << 22, pytest.param(1 << 28, marks=pytest.mark.slow)])
def grader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FunctionGrader]:
    """Reports have little room, which some programs fill; in the slow suite as much as ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grading, "_OUTPUT_BYTES", request.param)
        yield from opened_grader(tmp_path_factory.mktemp("expected"))


def opened_grader(cache: Path) -> Iterator[FunctionGrader]:
    with FunctionGrader(cache=cache, min_time_s=0.2) as opened:
        assert statuses(opened, TASK.reference) == ["pass", "pass"]
        yield opened
        assert statuses(opened, TASK.reference) == ["pass", "pass"]


def statuses(grader: FunctionGrader, program: str, task=TASK) -> list[str | None]:
    return [outcome.status for outcome in grader.grade(task, program)]


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(grader: FunctionGrader, name: str) -> None:
    assert set(statuses(grader, CHEATS[name])) <= {"fail", "timeout"}


@pytest.mark.parametrize("name", SPREAD)
def test_nothing_is_close_to_a_float_but_a_float(grader: FunctionGrader, name: str) -> None:
    for source in (HALF, HALVES):
        assert set(statuses(grader, SPREAD[name], problem(source))) <= {"fail", "timeout"}
