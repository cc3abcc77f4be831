"""The examples of docstrings that need no model and no file are right."""

from docstrings import run_examples

import evals


def test_examples_are_true():
    names = ["build_table", "math_reward", "math_score", "benchmark_names", "check_golds"]
    run_examples(evals, names)
