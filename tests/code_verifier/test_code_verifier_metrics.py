"""Counts are what the eye counts, and bad programs end in one clear error."""

import sys
from dataclasses import asdict

import pytest

from code_verifier import ProgramError, measure
from code_verifier.metrics.measurement import NUMBERS

PROGRAM = (
    "import math\nfrom re import sub\n\n\nclass A:\n    '''Doc.'''\n\n    def m(self, y):\n"
    "        return [i for i in y if i and y]\n\n\ndef f(x):\n    def g(z):\n        return z\n"
    "    for i in range(x):\n        if i % 2:\n            while x > 3 or x < 1:\n"
    "                x -= 1\n        elif i > 5:\n            x += 1\n        else:\n"
    "            try:\n                x = 1 // i\n            except ZeroDivisionError as e:\n"
    "                pass\n    return g(x) if x else math.pi\n"
)


def test_counts() -> None:
    found = measure(PROGRAM)
    assert (found.functions, found.imports, found.max_nesting) == (3, 2, 3)
    assert found.variables == len({"self", "y", "i", "x", "z", "e"})
    assert measure("def f(x):\n    return x").ast_depth == 5
    caught = "match x:\n    case {'a': [b, *c], **d}: pass\n    case e: pass\nfor f, g.h in x: pass"
    assert measure(caught).variables == len({"b", "c", "d", "e", "f"})


@pytest.mark.parametrize(
    ("program", "loc"),
    [
        ("", 0),
        (PROGRAM, len([line for line in PROGRAM.splitlines() if line.strip()]) - 1),
        ("def f(x):\n    return (x,\n\n        # why\n        1)", 3),
        ("# one\r\nx = 1\r\r# two\rx = 2\n\x0c\ny = 3", 3),
        ("x = '''\n# a text\n\n'''", 4),
        ("x = f'''\n# a text {1}\n'''", 3),
        ("'''Doc.\n\nMore.\n'''", 0),
        ("def f(): '''Doc\n'''", 1),
        ("def f():\n    '''Doc\n    '''; return 1", 2),
        ("def f():\n    '''Doc'''  # why\n    return 'é'", 2),
        ("match x:\n    # why\n\n    case 1:\n        pass", 3),
        ("x = 1 + \\\n\\\n    2", 2),
    ],
)
def test_lines_of_code(program: str, loc: int) -> None:
    assert measure(program).loc == loc


def test_nesting_follows_the_reader() -> None:
    chain = "if a:\n    pass\n" + "elif b:\n    pass\n" * 5
    assert measure(chain).max_nesting == 1
    assert measure("if a:\n    pass\nelse:\n    x = 1\n    if b:\n        pass").max_nesting == 2
    assert measure("with a:\n  match b:\n    case c:\n      while d: pass").max_nesting == 3


def test_numbers_are_all_fields_but_the_structure() -> None:
    assert [*NUMBERS, "structure"] == list(asdict(measure("x = 1")))


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("def f(", "not Python"),
        ("x\x00", "not Python"),
        ("x = '\ud800'", "not Python"),
        ("(" * 500, "not Python"),
        ("x = " + "-" * 50_000 + "1", "too deeply"),
        ("x = " + "1+" * 50_000 + "1", "too deeply"),
        ("a" + ".b" * 50_000, "too deeply"),
        ("x = 1\n" * 300_000, "characters"),
    ],
)
def test_what_cannot_be_measured_says_why(program: str, why: str) -> None:
    with pytest.raises(ProgramError, match=why):
        measure(program)


def test_depth_that_parses_is_measured() -> None:
    limit = sys.getrecursionlimit()
    terms = limit - 400
    found = measure("x = " + "1+" * terms + "1")
    assert sys.getrecursionlimit() == limit
    assert found.ast_depth == terms + 3
    assert found.ast_nodes == 4 + 1 + terms * 3


@pytest.mark.parametrize("program", ["x = 1or 2", "x = 0x1for x in y", "x = '\\d'", "1 is 1"])
def test_what_python_only_warns_of_is_measured(program: str) -> None:
    if "for" in program:
        program = f"[{program[4:]}]"
    assert measure(program).ast_nodes > 3
