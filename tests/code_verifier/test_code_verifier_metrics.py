"""Metrics agree with radon, and the structure hash with the eye."""

import ast

import pytest
from radon.complexity import cc_visit
from radon.metrics import h_visit

from code_verifier import ProgramError, measure

PROGRAMS = [
    "def f(x):\n    return x",
    "import math\nfrom re import sub\n\n\nclass A:\n    '''Doc.'''\n\n    def m(self, y):\n"
    "        return [i for i in y if i and y]\n\n\ndef f(x):\n    def g(z):\n        return z\n"
    "    for i in range(x):\n        if i % 2:\n            while x > 3 or x < 1:\n"
    "                x -= 1\n        elif i > 5:\n            x += 1\n        else:\n"
    "            try:\n                x = 1 // i\n            except ZeroDivisionError:\n"
    "                pass\n    return g(x) if x else math.pi\n",
]


@pytest.mark.parametrize("program", PROGRAMS, ids=["small", "large"])
def test_complexity_and_halstead_are_radons(program: str) -> None:
    found = measure(program)
    assert found.cyclomatic == sum(block.complexity for block in cc_visit(program))
    total = h_visit(program).total
    assert found.halstead_volume == pytest.approx(total.volume)
    assert found.halstead_effort == pytest.approx(total.effort)
    assert found.ast_nodes == sum(1 for _ in ast.walk(ast.parse(program)))


def test_counts() -> None:
    found = measure(PROGRAMS[1])
    assert (found.functions, found.imports, found.max_nesting) == (3, 2, 3)
    assert found.variables == len({"self", "y", "i", "x", "z"})
    # Every line but blanks, the docstring, `else:`, `try:` and `except:` of no statement's own.
    assert found.loc == measure("# a comment\n\n" + PROGRAMS[1]).loc
    assert measure("def f(x):\n    return (x,\n        1)").loc == 3
    assert measure("def f(x):\n    return x").ast_depth == 5


def test_structure_ignores_names_constants_comments_and_types() -> None:
    one = measure("def f(a, b: int):\n    '''Doc.'''\n    return a + b * 2  # two")
    two = measure("def f(x, y):\n    return x + y * 7")
    assert one.structure == two.structure
    for other in ("def f(x, y):\n    return y + x * 7", "def f(x, y):\n    return x - y * 7"):
        assert measure(other).structure != two.structure


def test_what_does_not_parse_has_no_metrics() -> None:
    for program in ("def f(", "x\x00", "(" * 500, "\ud800"):
        with pytest.raises(ProgramError):
            measure(program)
