"""The examples in docstrings are true."""

import doctest

import pytest

import code_verifier

WITH_EXAMPLES = (
    *(
        "Sandbox",
        "ScriptRunner",
        "Task",
        "canonical",
        "compute_score",
        "grade",
        "measure",
        "parse_literal",
    ),
    *("strip_comments", "tests_reward", "trl_reward"),
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_is_true(name: str) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = getattr(code_verifier, name)
    examples = finder.find(found, name, module=False, globs=vars(code_verifier))  # type: ignore[arg-type]
    assert any(example.examples for example in examples)
    for example in examples:
        assert doctest.DocTestRunner().run(example).failed == 0
