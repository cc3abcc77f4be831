"""Counts are what the eye counts, and the structure forgets names but not what a program does."""

import ast
import io
import math
import sysconfig
import tokenize
import tomllib
from pathlib import Path

import pytest
from radon.metrics import h_visit, mi_parameters

from code_verifier import ProgramError, measure
from code_verifier.metrics import fingerprint

PROGRAM = (
    "import math\nfrom re import sub\n\n\nclass A:\n    '''Doc.'''\n\n    def m(self, y):\n"
    "        return [i for i in y if i and y]\n\n\ndef f(x):\n    def g(z):\n        return z\n"
    "    for i in range(x):\n        if i % 2:\n            while x > 3 or x < 1:\n"
    "                x -= 1\n        elif i > 5:\n            x += 1\n        else:\n"
    "            try:\n                x = 1 // i\n            except ZeroDivisionError as e:\n"
    "                pass\n    return g(x) if x else math.pi\n"
)


def test_each_measure_of_a_known_program():
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
        ("# one\r\nx = 1\r\r# two\rx = 2\n\x0c\ny = 3", 3),
        ("\ufeff# one\nx = 1", 1),
        ("x = f'''\n# a text {1}\n'''", 3),
        ("'''Doc.\n\nMore.\n'''", 0),
        ("def f():\n    '''Doc\n    '''; return 1", 2),
        ("def f():\n    '''Doc'''  # why\n    return 'é'", 2),
        ("x = 1 + \\\n\\\n    2", 2),
    ],
)
def test_lines_of_code(program, loc):
    assert measure(program).loc == loc


def test_nesting_follows_the_reader():
    chain = "if a:\n    pass\n" + "elif b:\n    pass\n" * 5
    assert measure(chain).max_nesting == 1
    assert measure("if a:\n    pass\nelse:\n    x = 1\n    if b:\n        pass").max_nesting == 2
    assert measure("with a:\n  match b:\n    case c:\n      while d: pass").max_nesting == 3


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("def f(", "not Python"),
        ("x\x00", "not Python"),
        ("x = '\ud800'", "not Python"),
        ("x = " + "-" * 50_000 + "1", "too deeply"),
        ("x = " + "1+" * 50_000 + "1", "too deeply"),
        ("x = " + "1+" * 198 + "1", "too deeply to be measured"),
        ("x = 1\n" * 300_000, "characters"),
    ],
)
def test_what_cannot_be_measured_says_why(program, why):
    with pytest.raises(ProgramError, match=why):
        measure(program)


_FILE = Path(__file__).parent / "corpus" / "metrics.toml"
PAIRS = tomllib.loads(_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("same", "pair"),
    [(table == "same", pair) for table, pairs in PAIRS.items() for pair in pairs],
    ids=lambda value: value["name"] if isinstance(value, dict) else str(value),
)
def test_structures_are_equal_for_equal_programs_only(same, pair):
    first, second = (fingerprint(pair[name]) for name in ("first", "second"))
    assert (first == second) is same
    assert second == measure(pair["second"]).structure


IF = "if x: pass"


@pytest.mark.parametrize(
    ("program", "ways"),
    [
        ("", 1),
        (f"{IF}\nfor y in x: pass\nz = x and y or x", 5),
        (f"def h(x):\n {IF}\ndef f(x):\n {IF}\n{IF}", 4),
        (f"class A:\n {IF}\n def m(self): pass\n def n(self): pass", 4),
        (f"def f(x):\n def g(y):\n  {IF}\n return g(x)", 1),
        (f"class A:\n class B:\n  def m(self):\n   {IF}", 1),
        ("try: a()\nexcept A: pass\nexcept B: pass\nelse: pass", 4),
        ("async def f(x):\n async for y in x: pass", 2),
    ],
)
def test_cyclomatic_counts_the_whole_text_and_nothing_twice(program, ways):
    assert measure(program).cyclomatic == ways == mi_parameters(program)[1]


STDLIB = Path(sysconfig.get_paths()["stdlib"])
FILES = ("argparse", "dataclasses")


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_standard_library_count_as_radon_and_tokens_say(name):
    program = (STDLIB / f"{name}.py").read_text(encoding="utf-8")
    found = measure(program)
    total = h_visit(program).total
    assert math.isclose(found.halstead_volume, total.volume, rel_tol=1e-12)
    assert math.isclose(found.halstead_effort, total.effort, rel_tol=1e-12)
    lines = set()
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        if token.type not in passed and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    assert found.loc == len(lines)
