"""Parse untrusted programs and expressions, without executing them and without warnings."""

import ast
import copy
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from code_verifier.errors import ProgramError

FAILURES = (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError)
"""The exceptions of Python's parser and compiler for texts that they refuse."""
_LOCK = threading.RLock()
"""CPython 3.11 counts the depth of a tree per process, not per thread (gh-106905): two threads that
parse at the same time can get a SystemError. Filters of warnings are per process too."""
if hasattr(os, "register_at_fork"):  # a fork while another thread parses must not leave it locked
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
_WARNED = re.compile(r"\\|[0-9][A-Za-z_]")
"""Texts with tokenizer warnings: unknown escapes, and a number that runs into a word (`1or 2`)."""
FILE_NAME = "<program>\ud800"
"""The file name of programs. Python looks for the line of a SyntaxError in the file of this name,
which no file can have."""


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of one expression.

    Raises SyntaxError for every text that Python's parser refuses, also for null bytes, surrogates,
    excessive nesting and over-long integers.
    """
    tree: ast.Expression = _parse(text, "eval")
    return tree.body


def describe(error: Exception) -> str:
    """Return one line for one of FAILURES, with its place if known."""
    if not isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    return f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)


def _parse(text: str, mode: str) -> Any:
    try:
        # Warnings may be errors here.
        quiet = warnings.catch_warnings(action="ignore") if _WARNED.search(text) else nullcontext()
        with _LOCK, quiet:
            return ast.parse(text, FILE_NAME, mode)
    except FAILURES as error:
        raise SyntaxError(describe(error)) from None


MAX_PROGRAM = 2**20
"""Most characters of a program. A tree takes some hundred bytes of memory per character."""
Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a tree by their types."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
DOCUMENTED = (ast.Module, *DEFINITIONS)
"""Nodes that can have a docstring."""
_SCOPES = (*DEFINITIONS, ast.Lambda)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def parse_program(program: str) -> ast.Module:
    """Return the syntax tree of a program. Raises ProgramError when the text is not Python, longer
    than MAX_PROGRAM or nested too deeply."""
    program = program.removeprefix("\ufeff")  # a byte order mark
    if (size := len(program)) > MAX_PROGRAM:
        raise ProgramError(f"the program has {size} characters; expected at most {MAX_PROGRAM}")
    try:
        tree: ast.Module = _parse(program, "exec")
        return tree
    except SyntaxError as error:
        if error.msg.startswith(("RecursionError", "MemoryError")):
            raise ProgramError("the program is nested too deeply to be parsed") from None
        raise ProgramError(f"the program is not Python: {error.msg}") from None


def bound_names(tree: ast.AST, everywhere: bool = False) -> set[str]:
    """Return the names that a module binds at its top level, `if` and `try` included; or
    everywhere."""
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
            case ast.MatchAs(name=str(n)) | ast.MatchStar(str(n)) | ast.MatchMapping(rest=str(n)):
                names.add(n)
        if everywhere or not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))
    return names


def docstring_of(node: Any) -> ast.Expr | None:
    """Return the statement that is the node's docstring, or None."""
    match node.body:
        case [ast.Expr(ast.Constant(str())) as first, *_]:
            return first
    return None


def strip_comments(program: str) -> str:
    r"""Return the program without comments and docstrings, in the layout of `ast.unparse`. Raises
    ProgramError when the program does not parse.

        >>> strip_comments("def f(x):  # adds one\n    return x+1")
        'def f(x):\n    return x + 1'
    """
    root = copy.copy(parse_program(program))  # statements are copied, expressions shared
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
