"""Programs and expressions of unknown origin as syntax trees, without executing or warning."""

import ast
import copy
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from code_verifier.errors import ProgramError

FAILURES = (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError)
"""What Python's parser and compiler raise for texts that they refuse."""
_LOCK = threading.RLock()
"""CPython 3.11 counts the depth of a tree per process, not per thread (gh-106905): two threads that
parse at once can end in a SystemError. Filters of warnings are per process too."""
if hasattr(os, "register_at_fork"):  # a fork while another thread parses must not leave it locked
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
_WARNED = re.compile(r"\\|[0-9][A-Za-z_]")
"""What the tokenizer warns of: unknown escapes, and a number that runs into a word (`1or 2`)."""
_SPARE_FRAMES = 200
FILE_NAME = "<program>\ud800"
"""Of a program that is parsed or compiled. Python looks in the file of this name for the line of a
SyntaxError; none can have it."""


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of one expression.

    Raises SyntaxError for every text that Python's parser refuses, whatever the parser itself
    raised (null bytes, surrogates, excessive nesting, over-long integers).
    """
    tree: ast.Expression = _parse(text, "eval")
    return tree.body


@contextmanager
def deep_recursion(frames: int) -> Iterator[None]:
    """Raise the recursion limit by `frames` when that is more than a few. The limit is one for all
    threads, and the parser minds it: neither works in the other's time."""
    if frames <= _SPARE_FRAMES:
        yield
        return
    with _LOCK:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + frames)
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)


def describe(error: Exception) -> str:
    """One line for one of FAILURES, with its place when known."""
    if not isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    return f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)


def _parse(text: str, mode: str) -> Any:
    try:
        with _LOCK:
            if _WARNED.search(text) is None:
                return ast.parse(text, FILE_NAME, mode)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they may be errors here
                return ast.parse(text, FILE_NAME, mode)
    except FAILURES as error:
        raise SyntaxError(describe(error)) from None


MAX_PROGRAM = 2**20
"""Characters. A tree takes up to some hundred bytes of memory per character of its text."""
Documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""What can have a docstring."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """A program and its syntax tree, for all that reads it: nothing here changes the tree."""

    text: str
    tree: ast.Module


def parse_program(program: str | ParsedProgram) -> ParsedProgram:
    """The program with its tree; one that is parsed already is returned as it is. Raises
    ProgramError when the text is not Python, longer than MAX_PROGRAM or nested too deeply."""
    if isinstance(program, ParsedProgram):
        return program
    if len(program) > MAX_PROGRAM:
        raise ProgramError(
            f"the program has {len(program)} characters; expected at most {MAX_PROGRAM}"
        )
    try:
        return ParsedProgram(program, _parse(program, "exec"))
    except SyntaxError as error:
        if error.msg.startswith(("RecursionError", "MemoryError")):
            raise ProgramError("the program is nested too deeply to be parsed") from None
        raise ProgramError(f"the program is not Python: {error.msg}") from None


def bound_names(tree: ast.AST, everywhere: bool = False) -> set[str]:
    """The names that a module binds at its top level, `if` and `try` included; or everywhere."""
    names: set[str] = set()
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                names.add(name)
            case ast.alias(name, alias):
                names.add((alias or name).partition(".")[0])
            case ast.arg(name) | ast.Name(name, ast.Store()) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                names.add(name)
        if everywhere or not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))
    return names


def docstring_of(node: Documented) -> ast.Expr | None:
    """The statement that is the node's docstring."""
    match node.body:
        case [ast.Expr(ast.Constant(str())) as first, *_]:
            return first
    return None


def strip_comments(program: str | ParsedProgram) -> str:
    r"""The program without comments and docstrings, in the layout of `ast.unparse`. Raises
    ProgramError when the program does not parse.

        >>> strip_comments("def f(x):  # adds one\n    return x+1")
        'def f(x):\n    return x + 1'
    """
    root = copy.copy(parse_program(program).tree)  # statements of its own, the same expressions
    stack: list[ast.AST] = [root]
    while stack:
        node = stack.pop()
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [copy.copy(item) for item in block])
                stack += getattr(node, field)
        if isinstance(node, DOCUMENTED) and docstring_of(node) is not None:
            del node.body[0]
            if not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.Pass())
    try:
        return ast.unparse(root)
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be rewritten") from None
    except ValueError as error:  # an integer that has no text in base 10
        raise ProgramError(f"the program cannot be rewritten: {error}") from None
