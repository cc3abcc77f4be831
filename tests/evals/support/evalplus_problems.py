"""Small invented problems in the schemas of HumanEval+ and MBPP+."""

from typing import Any

from evals.code.evalplus_problems import FunctionProblem, read_problem


def row(task_id: str, entry_point: str, body: str, **changes: Any) -> dict[str, Any]:
    """A row as published: `body` is what follows the signature `def ENTRY(...)`."""
    return {
        "task_id": task_id,
        "prompt": f"def {entry_point}{body.partition(chr(10))[0]}\n",
        "entry_point": entry_point,
        "canonical_solution": body.partition("\n")[2],
        "base_input": [],
        "plus_input": [],
        "atol": 0,
        "contract": "",
        "test": "",
    } | changes


DOUBLE = row("HumanEval/1001", "double", "(x):\n    return [x, x]\n",
             base_input=[[1], [2]], plus_input=[["a"], [None], [[1.5]]])  # fmt: skip
HALF = row("HumanEval/1002", "half", "(x):\n    return x / 2\n",
           base_input=[[1], [3]], plus_input=[[5], [7]])  # fmt: skip
ROOT = row("HumanEval/32", "find_zero", "(xs):\n    return -xs[0] / xs[1]\n",
           base_input=[[[1, 2]]], plus_input=[[[-6, 3]]], atol=0.0001)  # fmt: skip
SHARED = row("Mbpp/2", "similar_elements", "(a, b):\n    return tuple(set(a) & set(b))\n",
             base_input=[[[1, 2, 3], [2, 3, 4]]], plus_input=[[["x"], ["x", "y"]]])  # fmt: skip
SEEK = row("Mbpp/2001", "text_match_three", "(s):\n    import re\n    return re.search('ab', s)\n",
           base_input=[["cab"], ["x"]])  # fmt: skip

SECRET = row("HumanEval/1005", "secret", "(x):\n    return [x * 7 + 3, str(x)]\n",
             base_input=[[1], [2]], plus_input=[[3]])  # fmt: skip


def problem(source: dict[str, Any]) -> FunctionProblem:
    """The problem of a row, of the benchmark that its id names."""
    name = "mbpp_plus" if source["task_id"].startswith("Mbpp") else "humaneval_plus"
    return read_problem(source, name)
