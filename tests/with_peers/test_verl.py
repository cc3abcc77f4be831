"""verl loads our scores by its own loader, and its client of SandboxFusion works with our server.

verl runs in a process of its own: importing it changes the process.
"""

import json
from typing import Any

import pytest
from meanwhile import serving
from programs import python

from code_verifier.serve import Server

pytest.importorskip("verl.utils.reward_score")
LOADER = """
import json, sys
from omegaconf import OmegaConf
from verl.trainer.ppo.reward import get_custom_reward_fn

path, name, solution, truth = sys.argv[1:]
config = {"reward": {"custom_reward_function": {"path": path, "name": name}}}
score = get_custom_reward_fn(OmegaConf.create(config))
found = score(data_source="ours", solution_str=solution, ground_truth=truth, extra_info={})
print(json.dumps(found))
"""
CLIENT = """
import json, sys
from verl.utils.reward_score.sandbox_fusion import compute_score

url, solution, truth = sys.argv[1:]
print(json.dumps(compute_score(url, None, 1024, solution, truth)[0]))
"""
FENCE = "```python\n{}\n```"


def last(program: str, *words: str) -> Any:
    return json.loads(python("-c", program, *words).splitlines()[-1])


@pytest.mark.parametrize(
    ("path", "name", "solution", "truth", "score"),
    [
        ("pkg://code_verifier", "compute_score", FENCE.format("def f(x): return x + 1"),
         {"test_list": ["assert f(1) == 2"]}, 1.0),
        ("pkg://code_verifier", "compute_score", FENCE.format("print(int(input()) + 2)"),
         {"inputs": ["1"], "outputs": ["2"]}, 0.0),
        ("pkg://evals", "math_score", r"\boxed{\frac{2}{4}}", "0.5", 1.0),
    ],
)  # fmt: skip
def test_its_loader(path: str, name: str, solution: str, truth: object, score: float) -> None:
    text = truth if isinstance(truth, str) else json.dumps(truth)
    assert last(LOADER, path, name, solution, text) == score


def test_its_client_of_sandbox_fusion() -> None:
    rows = [
        ({"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]},
         "print(sum(map(int, input().split())))", 1.0),
        ({"inputs": ["1", "4"], "outputs": ["1", "2"], "fn_name": "root"},
         "def root(x): return 1 if x < 4 else 3", 0.5),
        ({"assert_case": ["assert f(1) == 2", "assert f(1) == 3"]}, "def f(x): return 2 * x", 0.5),
    ]  # fmt: skip
    with serving(Server(0, workers=2)) as server:
        for truth, program, score in rows:
            assert last(CLIENT, server.url, FENCE.format(program), json.dumps(truth)) == score
