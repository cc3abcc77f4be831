"""The examples in docstrings are true."""

import doctest

import pytest

import league

WITH_EXAMPLES = ("League", "Outcome", "rate", "read_league")


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = finder.find(getattr(league, name), name, module=False, globs=vars(league))
    assert any(found.examples for found in examples)
    for found in examples:
        assert doctest.DocTestRunner().run(found).failed == 0
