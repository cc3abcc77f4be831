"""The examples in docstrings are true."""

from docstrings import run_examples

import league


def test_examples_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(league, ["League", "Outcome", "rate", "read_league", "predict", "find_cycle"])
