"""Clients of SandboxFusion work with `code-verifier serve`: its own package, and tinker-cookbook's.

Each client runs in a process of its own, as its users run it.
"""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from meanwhile import serving
from programs import python

from code_verifier.serve import Server

OWN = """
import asyncio, json
from sandbox_fusion import RunCodeRequest, SummaryMapping, run_code, run_code_async
from sandbox_fusion import run_concurrent, summary_run_code_result

def asked(code, **more):
    return RunCodeRequest(code=code, language="python", **more)

mapping = SummaryMapping(Success="fine", RunFailed="failed", RunTimeout="late")
programs = [asked("print(1)"), asked("1 / 0"), asked("while True: pass", run_timeout=0.2)]
answers = run_concurrent(run_code, [[one] for one in programs * 4])
print(json.dumps([summary_run_code_result(answer, mapping) for answer in answers]))
one = asyncio.run(run_code_async(asked("print(input())", stdin="hello")))
print(json.dumps(one.run_result.stdout))
"""
TINKER = """
import asyncio, json
from tinker_cookbook.recipes.code_rl.code_grading import sandbox_check_correctness as check

printing = [{"input": "1 2", "output": "3", "testtype": "stdin_stdout"}]
calling = [{"input": "[1, 2]", "output": "3", "testtype": "functional",
            "metadata": {"func_name": "total"}}]
programs = [(printing, "a, b = map(int, input().split())\\nprint(a + b)"),
            (printing, "print(4)"),
            (calling, "class Solution:\\n    def total(self, items): return sum(items)"),
            (calling, "class Solution:\\n    def total(self, items): return len(items)")]

async def main():
    return [(await check(tests, program))[0] for tests, program in programs]

print(json.dumps(asyncio.run(main())))
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Server(0, workers=2)) as server:
        yield server.url


def answers(program: str, **variables: str) -> list[Any]:
    """What the lines that a program prints say."""
    return [json.loads(line) for line in python("-c", program, **variables).splitlines()]


@pytest.mark.skipif(find_spec("sandbox_fusion") is None, reason="needs sandbox-fusion")
def test_its_own_client(url: str) -> None:
    endpoint = url.removesuffix("/run_code")
    summaries, output = answers(OWN, SANDBOX_FUSION_ENDPOINT=endpoint)
    assert summaries == ["fine", "failed", "late"] * 4
    assert output == "hello\n"


@pytest.mark.skipif(find_spec("tinker_cookbook") is None, reason="needs tinker-cookbook")
def test_tinkers_client_with_its_own_test_harness(url: str) -> None:
    """It sends three files, of which the program imports one and reads two."""
    assert answers(TINKER, SANDBOX_URL=url) == [[True, False, True, False]]
