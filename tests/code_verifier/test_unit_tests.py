"""Tests of whole programs as data sets have them: what passes, fails or deceives."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from meanwhile import dying

from code_verifier import CodeVerifierError, SandboxUnavailable, ScriptRunner, rewards
from code_verifier.scripts.suites import read_tests, run_tests

MBPP = {
    "test_list": [
        "assert set(shared((3, 4, 5), (5, 4))) == set((4, 5))",
        "assert math.isclose(shared((1,), (1,))[0], 1.0), 'a message'",
        "assert all(x in shared((1, 2), (x,)) for x in (1, 2))",
    ],
    "test_imports": ["import math"],
    "test_setup_code": "",
}
SHARED = "def shared(a, b):\n    return tuple(set(a) & set(b))"
ECHO = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7.0"]}
ADDS = "print(sum(map(int, input().split())))"
CALLS = {"entry_point": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [1, 2]]}
ADD = "def add(a, b):\n    return a + b"


@pytest.fixture(scope="module")
def runner() -> Iterator[ScriptRunner]:
    with ScriptRunner() as opened:
        yield opened


@pytest.mark.parametrize(
    ("row", "right", "wrong"),
    [
        (MBPP, SHARED, "def shared(a, b):\n    return a"),
        ({"test_list": ["assert sum(10, 5) == 15"]}, "def sum(a, b): return a + b", ""),
        ({"assert_case": ["assert f(2) > 1.9"]}, "import numpy\ndef f(x): return numpy.float64(x)",
         "def f(x): return -x"),
        ({"test_list": ["assert f() == [1.5, 2.5]"]},
         "import numpy as np\ndef f(): return list(np.array([1.5, 2.5]))",
         "import numpy as np\ndef f(): return list(np.array([1.5, 2.6]))"),
        ({"test_list": ["assert Solution().g(1) == {'a': 1}"]},
         "class Solution:\n    def g(self, x): return {'a': x}", "class Solution: pass"),
        ({"test_list": ["assert not f(1)"]}, "def f(x): return []", "def f(x): return object()"),
        (ECHO, ADDS, ADDS.replace("sum", "max")),
        ({"input_output": json.dumps(ECHO)}, ADDS, "print(3)"),
        (CALLS, ADD, "def add(a, b): return 3"),
        ({"fn_name": "add", "inputs": ["1\n2", "'a', 'b'"], "outputs": ["3", "'ab'"]}, ADD,
         "def add(a, b): return b"),
        (CALLS, "class Solution:\n    def add(self, a, b): return a + b", "class Solution: pass"),
    ],
)  # fmt: skip
def test_right_and_wrong_programs(
    runner: ScriptRunner, row: dict[str, Any], right: str, wrong: str
) -> None:
    if "numpy" in right:
        pytest.importorskip("numpy")
    tests = read_tests(row)
    assert run_tests(runner, right, tests, 2.0).score == 1.0
    found = run_tests(runner, wrong, tests, 2.0)
    assert (found.score, found.judged) == (0.0, True)
    assert found.reason


EVIL = """
class Anything(int):
    def __eq__(self, other): return True
    def __gt__(self, other): return True
    def __hash__(self): return 0
class Opaque:
    def __eq__(self, other): return True
    def __gt__(self, other): return True
"""


@pytest.mark.parametrize(
    "program",
    [
        EVIL + "def f(x): return Anything(0)",
        EVIL + "def f(x): return Opaque()",
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "import os, sys\nframe = sys._getframe()\n"
        'while "room" not in frame.f_locals: frame = frame.f_back\n'
        'frame.f_locals["room"].write(b\'["bool","","True",4,false,0.0]\\n["ok",""]\\n\')\n'
        "os._exit(0)",
        "import builtins\nbuiltins.abs = lambda x: 0\ndef f(x): return 0",
        "set = lambda x: 0\ndef f(x): return 0",
        "def f(x):\n    while True: pass",
        "def f(x",
    ],
)
@pytest.mark.parametrize(
    "test", ["assert f(3) == 4", "assert abs(f(3) - 4) < 1e-6", "assert set([f(3)]) == set([4])"]
)
def test_a_deceitful_program_fails(runner: ScriptRunner, program: str, test: str) -> None:
    found = run_tests(runner, program, read_tests({"test_list": [test]}), 0.3)
    assert (found.score, found.judged) == (0.0, True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no tests; found nothing"),
        ({"test_list": ["print(1)"]}, "one assert statement"),
        ({"test_list": ["assert f(1)"], "test_setup_code": "import"}, "set-up"),
        ({"input_output": "{"}, "not JSON"),
        ({"inputs": ["1"], "outputs": []}, "1 inputs and 0 outputs"),
        ({"inputs": ["1"], "outputs": [1]}, "expected texts"),
        ({"entry_point": "f", "inputs": [1], "outputs": [1]}, "list of arguments"),
        ({"entry_point": "f", "inputs": ["a=1"], "outputs": ["1"]}, "expected positions"),
    ],
)
def test_a_row_without_tests_is_an_error(row: dict[str, Any], message: str) -> None:
    with pytest.raises(CodeVerifierError, match=message):
        read_tests(row)


def fence(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```"


def test_the_reward_of_a_batch() -> None:
    reward = rewards.tests_reward()
    assert reward.__name__ == "tests_reward"
    rows = [MBPP, MBPP, ECHO, CALLS | {"inputs": json.loads(json.dumps(CALLS["inputs"]))}]
    names = {name for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in names}
    completions = [
        fence(SHARED),
        "no code",
        fence(ADDS),
        [{"role": "assistant", "content": fence(ADD)}],
    ]
    found = reward(prompts=["p"] * 4, completions=completions, trainer_state=None, **columns)
    assert found == [1.0, 0.0, 1.0, 1.0]


def test_the_score_of_verl() -> None:
    assert rewards.compute_score("taco", fence(ADDS), json.dumps(ECHO)) == 1.0
    assert rewards.compute_score("mbpp", fence(ADD), MBPP, {"index": 3}) == 0.0
    task = {"kind": "code_i", "program": "def f(x):\n    return x * x", "output": "9"}
    assert rewards.compute_score("ours", "<answer>-3</answer>", task) == 1.0
    for wrong in ("{", 7, "{}"):
        with pytest.raises(CodeVerifierError):
            rewards.compute_score("taco", "", wrong)


def test_a_fault_of_the_sandbox_is_no_reward() -> None:
    """Its processes are killed for as long as a program runs in them."""
    row = {"inputs": ["", ""], "outputs": ["1", "2"]}
    endless = fence("while True: pass")
    with dying(rewards._shared_runner()._pool):
        columns = {name: [value] for name, value in row.items()}
        assert rewards.tests_reward()([endless], **columns) == [None]
        with pytest.raises(SandboxUnavailable, match="not judged"):
            rewards.compute_score("taco", endless, row)
    assert rewards.tests_reward()([fence("print(1)")], inputs=[[""]], outputs=[["1"]]) == [1.0]
