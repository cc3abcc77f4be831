"""Limits, streams and the end of a sandbox; programs by the hundred are in `corpus`."""

import os
from collections.abc import Iterator

import pytest

from code_verifier import CodeVerifierError, Limits, Sandbox, SandboxUnavailable

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
