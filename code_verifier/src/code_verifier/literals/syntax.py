"""Parsing of untrusted text into syntax trees, without executing or warning."""

import ast
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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
_FAILURES = (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError)


def parse_tree(text: str, mode: str = "exec") -> ast.Module | ast.Expression:
    """The syntax tree of `text`.

    Raises SyntaxError for every text that Python's parser refuses, whatever the parser itself
    raised (null bytes, surrogates, excessive nesting, over-long integers).
    """
    try:
        if _WARNED.search(text) is None:
            with _LOCK:
                return _parse(text, mode)
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may be errors here
            return _parse(text, mode)
    except SyntaxError as error:
        raise SyntaxError(describe(error)) from None
    except _FAILURES as error:
        raise SyntaxError(f"{type(error).__name__}: {error}") from None


@contextmanager
def deep_recursion(frames: int) -> Iterator[None]:
    """Have a recursion limit that leaves room for so many frames more, where they are many.

    The limit is one for all threads, and the parser minds it: neither works in the other's time.
    """
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


def describe(error: SyntaxError) -> str:
    """One line for a syntax error, with its place when known."""
    place = f" (line {error.lineno})" if error.lineno else ""
    return f"{error.msg}{place}"


def _parse(text: str, mode: str) -> ast.Module | ast.Expression:
    tree = ast.parse(text, mode=mode)
    if not isinstance(tree, ast.Module | ast.Expression):
        raise SyntaxError(f"unexpected tree {type(tree).__name__}")
    return tree
