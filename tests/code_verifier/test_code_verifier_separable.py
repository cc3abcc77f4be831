"""Which programs share a process for several inputs, and that sharing changes no verdict."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def ends(verdicts: list[Verdict]) -> list[tuple[str, str | None, str]]:
    return [(verdict.status, verdict.output, verdict.reason) for verdict in verdicts]


@pytest.mark.parametrize("way", PROGRAMS)
def test_nothing_is_carried_from_one_input_to_the_next(one: Sandbox, way: str) -> None:
    row = PROGRAMS[way]
    program, inputs = row["program"], row.get("inputs", ["1", "2", "3"])
    if "shares" in row:
        found = examine(ast.parse(program))
        assert (found.refusal, found.separable) == (None, row["shares"])
    alone = [one.run(program, given) for given in inputs]
    assert ends(one.run_inputs(program, inputs)) == ends(alone)
