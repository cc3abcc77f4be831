"""The examples in docstrings are true."""

import pytest
from docstrings import run_examples

import code_verifier

WITH_EXAMPLES = (
    *("Sandbox", "ScriptRunner", "Task", "canonical", "compute_score", "grade", "measure"),
    *("parse_literal", "strip_comments", "tests_reward", "trl_reward"),
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_is_true(name):
    run_examples(code_verifier, [name])
