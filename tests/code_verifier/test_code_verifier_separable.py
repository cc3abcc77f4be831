"""Which programs share a process for several inputs, and that sharing changes no verdict."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from code_verifier import Limits, Sandbox, Verdict
from code_verifier.jail.policy import examine

CORPUS = (Path(__file__).parent / "corpus" / "separable.toml").read_text("utf-8")
PROGRAMS = {row["name"]: row for row in tomllib.loads(CORPUS)["program"]}
"""By the way in which each tries, or does not try, to carry something over."""


@pytest.fixture(scope="module")
def one() -> Iterator[Sandbox]:
    limits = Limits(wall_s=30.0, cpu_s=10.0, int_digits=2000)
    with Sandbox(workers=1, limits=limits) as opened:
        yield opened


def separable(program: str) -> bool:
    found = examine(ast.parse(program))
    assert found.refusal is None, found.refusal
    return found.separable


def ends(verdicts: list[Verdict]) -> list[tuple[str, str | None, str]]:
    return [(verdict.status, verdict.output, verdict.reason) for verdict in verdicts]


def same_as_alone(sandbox: Sandbox, program: str, inputs: list[str]) -> list[Verdict]:
    together = sandbox.run_inputs(program, inputs)
    assert ends(together) == ends([sandbox.run(program, given) for given in inputs])
    return together


@pytest.mark.parametrize("way", PROGRAMS)
def test_nothing_is_carried_from_one_input_to_the_next(one: Sandbox, way: str) -> None:
    row = PROGRAMS[way]
    if "shares" in row:
        assert separable(row["program"]) is row["shares"]
    same_as_alone(one, row["program"], row.get("inputs", ["1", "2", "3"]))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    statements=st.lists(
        st.sampled_from(
            [
                "seen.append(x)",
                "A.n = A.n + x",
                "g.n = x",
                "box[x] = len(box)",
                "total += x",
                "out = seen + [A.n, total]",
                "c[x] += 1",
                "A = type('A', (A,), {'n': x})",
                "next(it)",
                "out = cached(x), cached.cache_info().hits",
                "q.appendleft(next(it))",
                "out = [str(q), dict(c), sorted(box)]",
            ]
        ),
        min_size=1,
        max_size=8,
    ),
    values=st.lists(st.integers(0, 4), min_size=2, max_size=5),
)
def test_any_mixture_of_state_starts_anew(
    one: Sandbox, statements: list[str], values: list[int]
) -> None:
    program = (
        "from collections import Counter, deque\nfrom functools import lru_cache\n"
        "from itertools import count\nseen, box, total, it = [], {}, 0, count()\n"
        "c, q, out = Counter(), deque(), None\nclass A: n = 0\ndef g(): pass\n"
        "@lru_cache\ndef cached(n): return n\ndef f(x):\n    global A, total, out\n    "
        + "\n    ".join(line for line in statements if line != "g.n = x")
        + "\n    return out, total, A.n, seen, box"
    )
    same_as_alone(one, program, [str(value) for value in values])
