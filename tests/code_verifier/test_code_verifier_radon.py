"""Cyclomatic numbers and Halstead's measures are radon's, whatever the program is made of."""

import ast
import io
import math
import sysconfig
import tokenize
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from radon.complexity import cc_visit
from radon.metrics import h_visit

from code_verifier import measure

STDLIB = Path(sysconfig.get_paths()["stdlib"])
FILES = ("argparse", "ast", "bisect", "contextlib", "dataclasses", "difflib", "enum", "fractions")
MORE = ("functools", "heapq", "inspect", "statistics", "textwrap", "typing", "asyncio/tasks")

SMALL = [
    "",
    "x = 1",
    "class A:\n    pass",
    "class A:\n    def a(self): return 1 if self else 2\n    def b(self): pass\n    x = 1 or 2",
    "class A:\n    class B:\n        def b(self): return 1 and 2\n    def a(self): pass",
    "def f():\n    class A:\n        def a(self): return 1 and 2\n    return A",
    "def f(x):\n    def g(y):\n        if y: return 1\n    if x: return g",
    "if 1:\n    def f(): pass\nelse:\n    class A:\n        if 1:\n            def m(self): pass",
    "def f(x=1 + 2 * 3 or 4): return x\n@g(1 and 2)\nclass A(b if c else d): pass",
    "def f(x):\n    assert x and (lambda: 1 if x else 2), [i for i in x if i]",
    "def f(x):\n    match x:\n        case 1 | 2: pass\n        case [a, *b] if a and b: pass\n"
    "        case {'k': v, **r}: pass\n        case A(p=1): pass\n        case _: pass",
    "def f(x):\n    match x:\n        case y: pass",
    "def f(x):\n    try:\n        pass\n    except* ValueError:\n        pass",
    "def f(x):\n    try: pass\n    except A: pass\n    except B as e: pass\n    else: pass\n"
    "    finally: pass",
    "async def f(x):\n    async with x as y:\n        async for z in y: pass\n        else: pass\n"
    "    return [await w async for w in x if w if not w]",
    "def f(x):\n    for i in x: pass\n    else: pass\n    while x: break\n    else: pass",
    "def f(a, b):\n    return a < b <= 3 != 1.0 == True is None not in 'b'",
    "def f(a):\n    a += 1\n    a.b -= a.c * a['b']\n    return -a + ~a - (not a) ** 1",
    "def f(a):\n    return a + 1\ndef f(a):\n    return a + 2",
    "def f(a):\n    return 1 + 1.0 + True + 'a' + a + b'a' + 1j + ... + (1, 2)",
    "x = 1 + 2\nclass A:\n    y = x + 1\n    def f(self): return x + 1",
    "def f():\n    return lambda: (yield 1 + (yield from g))",
    "def f():\n    global x\n    x = f'{1 + 2!r:>{3 * 4}}'\n    del x\n    raise x from x + 1",
]

names = st.sampled_from(["a", "b", "f", "self"])
atoms = names | st.sampled_from(
    ["1", "1.0", "True", "'a'", "None", "a.b", "b[0]", "()", "f'{a+1}'"]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def form(text: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda given: text.format(*given))

    binary = st.sampled_from(
        ["+", "-", "*", "//", "%", "**", "@", "<<", "&", "and", "or", "<", "in"]
    )
    return st.one_of(
        form("({} {} {})", inner, binary, inner),
        form("({} < {} > {})", inner, inner, inner),
        form("({} or {} or {})", inner, inner, inner),
        form("(-{})", inner),
        form("(not {})", inner),
        form("({} if {} else {})", inner, inner, inner),
        form("[{} for a in {} if {} if b]", inner, inner, inner),
        form("{{{}: {} for b, a in {} for f in a}}", inner, inner, inner),
        form("(lambda a={}: {})", inner, inner),
        form("f({}, *{}, key={})", inner, inner, inner),
        form("(a := {})", inner),
        form("{{{}: 1, **{}}}", inner, inner),
    )


expressions = st.recursive(atoms, _compound, max_leaves=6)


def _indented(body: list[str]) -> str:
    return "\n".join("    " + line for text in body for line in text.split("\n"))


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(_indented)

    def form(text: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda given: text.format(*given))

    return st.one_of(
        form("def {}(a, b={}):\n{}", names, expressions, body),
        form("@{}\nasync def f(self):\n    async for a in b:\n        pass\n{}", names, body),
        form("class {}(a, key={}):\n{}", names, expressions, body),
        form("if {}:\n{}\nelif {}:\n    pass\nelse:\n{}", expressions, body, expressions, body),
        form("for a in {}:\n{}\nelse:\n{}", expressions, body, body),
        form("while {}:\n{}", expressions, body),
        form("with {} as a, b:\n{}", expressions, body),
        form("try:\n{}\nexcept A as e:\n{}\nexcept B:\n    pass\nelse:\n{}", body, body, body),
        form("try:\n    pass\nfinally:\n{}", body),
        form(
            "match {}:\n    case [1, b] if {}:\n    {}", expressions, expressions, st.just("    a")
        ),
        form("match {}:\n    case 1:\n        pass\n    case _:\n        a", expressions),
    )


simple = st.one_of(
    expressions,
    expressions.map("a = {}".format),
    expressions.map("a.b += {}".format),
    expressions.map("assert {}, 1 or 2".format),
    st.sampled_from(["pass", "import os, re", "from a import b as f", "x: int = 1 + 1", "del a"]),
)
programs = st.lists(st.recursive(simple, _blocks, max_leaves=8), max_size=4).map("\n".join)


def agrees(program: str) -> None:
    found = measure(program)
    assert found.cyclomatic == sum(block.complexity for block in cc_visit(program))
    total = h_visit(program).total
    assert math.isclose(found.halstead_volume, total.volume, rel_tol=1e-12)
    assert math.isclose(found.halstead_effort, total.effort, rel_tol=1e-12)
    assert found.ast_nodes == sum(1 for _ in ast.walk(ast.parse(program)))
    assert found.ast_depth == _depth(ast.parse(program))


def _depth(node: ast.AST) -> int:
    return 1 + max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)


@pytest.mark.parametrize("program", SMALL)
def test_each_construct(program: str) -> None:
    agrees(program)


@settings(max_examples=300, deadline=None)
@given(programs)
def test_any_mixture(program: str) -> None:
    agrees(program)


@pytest.mark.parametrize("name", FILES + MORE)
def test_files_of_the_standard_library(name: str) -> None:
    agrees((STDLIB / f"{name}.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_lines_of_code_are_lines_with_a_token_less_docstrings(name: str) -> None:
    program = (STDLIB / f"{name}.py").read_text(encoding="utf-8")
    lines: set[int] = set()
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        if token.type not in passed and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    assert measure(program).loc == len(lines)
