"""The examples of docstrings that need no model and no file are right."""

import doctest
from types import ModuleType

import pytest

from evals import catalog, scores, tables
from evals.math import problems as math


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (scores, ["estimate", "compare"]),
        (tables, ["build_table"]),
        (math, ["math_reward", "math_score"]),
        (catalog, ["benchmark_names"]),
    ],
)
def test_an_example_shows_what_the_function_returns(module: ModuleType, names: list[str]) -> None:
    for name in names:
        (example,) = doctest.DocTestFinder().find(getattr(module, name), name, module, vars(module))
        found = doctest.DocTestRunner().run(example)
        assert found.attempted
        assert not found.failed
