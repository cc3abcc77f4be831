"""The program in a model's answer."""

import pytest

from evals.evalplus.benchmark import extract_program, fenced_blocks, sanitize

PROGRAM = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    "answer",
    [
        PROGRAM,
        f"Here it is:\n```python\n{PROGRAM}\n```\nIt adds one.",
        f"```py\n{PROGRAM}\n",  # cut off
        f"~~~~\n{PROGRAM}\n~~~~",
        "1. Like this:\n\n   ```python\n   def f(x):\n       return x + 1\n   ```",
        f"First:\n```python\ndef f(x):\n    return x +\n```\nOr:\n```python\n{PROGRAM}\n```",
        f"```python\n{PROGRAM}\n```\nUse it so:\n```python\nprint(f(1))\n```",
        f"Sure, here is the function.\n{PROGRAM}\nThis adds one to x.",
        f"{PROGRAM}\n\nprint(f(2))\nassert f(1) == 2",
        f"{PROGRAM}\n\nif __name__ == '__main__':\n    print(f(1))",
        f"{PROGRAM}\n\ndef unused(y):\n    return y",
        f"{PROGRAM}\n\ndef g(x):\n    return",
    ],
)
def test_one_program_in_many_wrappings(answer: str) -> None:
    assert sanitize(answer, "f").strip() == PROGRAM


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nsys.setrecursionlimit(9999)\ndef f(x):\n    return x",
        "memo = {}\nmemo[0] = 1\ndef f(x):\n    return memo[x]",
        "def log(x):\n    pass\ndef f(x):\n    log(x)\n    return x",
        "import functools\n@functools.cache\ndef f(x):\n    return x",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = 0\ndef f(x):\n    return numpy",
        "if True:\n    def g(x):\n        return x\ndef f(x):\n    return g(x)",
        "primes = []\nfor n in range(9):\n    primes.append(n)\ndef f(x):\n    return primes[x]",
        "async def g():\n    pass\ndef f(x):\n    return g()",
        "class Node:\n    pass\nclass Leaf(Node):\n    pass\ndef f(x):\n    return Leaf()",
        "def f(x):\n    return 1\ndef f(x):\n    return 2",
        "f = lambda x: g(x)\ng = abs",
    ],
)
def test_what_the_entry_point_needs_stays(program: str) -> None:
    assert sanitize(f"```\n{program}\nprint(f(1))\n```", "f") == program


def test_an_answer_without_a_program_stays_as_it_is() -> None:
    for answer in ("", "I cannot do that.", "```python\nx = 1\n```"):
        assert sanitize(answer, "f") == "\n".join(fenced_blocks(answer)) or answer
    assert extract_program("x" * 2_000_000, "f") == ""


def test_long_nonsense_takes_no_time() -> None:
    sanitize("def f(:\n" * 20_000, "f")
    sanitize("(" * 100_000, "f")
    sanitize("```\n" * 50_001, "f")
