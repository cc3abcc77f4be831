"""The fingerprint forgets what a program is called, and keeps what it does."""

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_verifier import ProgramError, measure
from code_verifier.program.fingerprint import fingerprint

SAME = {
    "names": ("def f(a, b):\n    return a + b * 2", "def g(x, y):\n    return x + y * 7"),
    "comments": ("def f(a):  # one\n    return a", "# two\n\ndef f(a): return a"),
    "docstring": ("def f(a):\n    'Doc.'\n    return a", "def f(a):\n    return a"),
    "only a docstring": ("def f():\n    'Doc.'", "def f():\n    pass"),
    "of the module": ("'Doc.'\nx = 1", "x = 1"),
    "of a class": ("class A:\n    'Doc.'\n    x = 1", "class B:\n    x = 1"),
    "annotations": ("def f(a: int, *b: str) -> int:\n    c: int = a", "def f(a, *b):\n    c = a"),
    "signs": ("x = [1, 2.0]", "x = [-1, +2.5]"),
    "booleans": ("x = True", "x = False"),
    "patterns": (
        "match a:\n case {'k': True, **b}: b\n case [c, *d]: c, d",
        "match a:\n case {'l': False, **r}: r\n case [p, *q]: p, q",
    ),
    "caught": ("try: a()\nexcept A as e: e", "try: a()\nexcept A as x: x"),
    "scopes": (
        "def f():\n x = y = 0\n def g():\n  nonlocal x, y\n  global z\n  x = z = 1",
        "def f():\n a = b = 0\n def h():\n  nonlocal a, b\n  global c\n  a = c = 1",
    ),
    "as": ("import math as m\nm.pi", "import math as n\nn.pi"),
    "keywords": ("def f(a): return f(a=1)", "def f(b): return f(b=2)"),
    "helper used first": (
        "def f(): return g()\ndef g(): pass",
        "def a(): return b()\ndef b(): pass",
    ),
    "f-strings": ("x = 1\nf'a{x!r}'", "y = 2\nf'b{y!r}'"),
}
OTHER = {
    "order": ("def f(x, y): return x + y", "def f(x, y): return y + x"),
    "operator": ("def f(x, y): return x + y", "def f(x, y): return x - y"),
    "built-in": ("def f(x): return len(x)", "def f(x): return sum(x)"),
    "attribute": ("def f(x): return x.a", "def f(x): return x.b"),
    "module": ("import math", "import re"),
    "imported name": ("from math import sin", "from math import cos"),
    "type of a constant": ("x = 1", "x = 1.0"),
    "shared names": ("def f(x, y): return x", "def f(x, y): return y"),
    "unpacking": ("x = {**a, b: c}", "x = {b: c, **a}"),
    "defaults": ("def f(*, a=1, b): pass", "def f(*, a, b=1): pass"),
    "branch": ("if a:\n    b()\n    c()", "if a:\n    b()\nelse:\n    c()"),
    "a sign of a name": ("x = y", "x = -y"),
    "conversion": ("f'{x!r}'", "f'{x!s}'"),
    "keyword of a built-in": ("sorted(x, key=y)", "sorted(x, reverse=y)"),
    "a field without a value": ("class A:\n    x: int", "class A:\n    pass"),
    "level of import": ("from .a import b", "from ..a import b"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_same(pair: tuple[str, str]) -> None:
    assert fingerprint(pair[0]) == fingerprint(pair[1]) == measure(pair[1]).structure


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_other(pair: tuple[str, str]) -> None:
    assert fingerprint(pair[0]) != fingerprint(pair[1])


PROGRAM = textwrap.dedent(
    """
    import re
    def f(first, second=3):
        total = 0
        for item in first:
            if item > second and len(first) > 2:
                total += item * 5
        return [total for total in range(total)], re.escape('a')
    """
)
OWN = ("f", "first", "second", "total", "item")
names = st.from_regex(r"[a-z]{3,5}_", fullmatch=True)


@given(st.lists(names, min_size=5, max_size=5, unique=True), st.integers(0), st.text(max_size=5))
def test_any_renaming_and_any_constant(new: list[str], number: int, text: str) -> None:
    tree = ast.parse(PROGRAM)
    known = dict(zip(OWN, new, strict=True))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = known.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = known[node.arg]
        elif isinstance(node, ast.FunctionDef):
            node.name = known[node.name]
        elif isinstance(node, ast.Constant):
            node.value = number if isinstance(node.value, int) else text
    assert fingerprint(ast.unparse(tree)) == fingerprint(PROGRAM)


def test_sixteen_digits_or_an_error() -> None:
    assert len(fingerprint("")) == 16
    assert int(fingerprint("x = 'é'"), 16) >= 0
    with pytest.raises(ProgramError):
        fingerprint("def f(")
