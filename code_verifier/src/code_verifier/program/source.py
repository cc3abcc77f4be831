"""Rewriting of program texts."""

import ast

from code_verifier.errors import ProgramError
from code_verifier.literals.syntax import parse_tree

MAX_PROGRAM = 2**20
"""Characters. A tree takes up to some hundred bytes of memory per character of its text."""
_OWNERS = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def program_tree(program: str) -> ast.Module:
    """The syntax tree of a program.

    Raises ProgramError when the text is not Python, longer than MAX_PROGRAM or nested too deeply.
    """
    if len(program) > MAX_PROGRAM:
        raise ProgramError(
            f"the program has {len(program)} characters; expected at most {MAX_PROGRAM}"
        )
    try:
        tree = parse_tree(program)
    except SyntaxError as error:
        if error.msg.startswith(("RecursionError", "MemoryError")):
            raise ProgramError("the program is nested too deeply to be parsed") from None
        raise ProgramError(f"the program is not Python: {error.msg}") from None
    if not isinstance(tree, ast.Module):
        raise ProgramError("the program is not a module")
    return tree


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove docstrings in place; an emptied body becomes `pass`."""
    for node in ast.walk(tree):
        if isinstance(node, _OWNERS) and docstring_of(node) is not None:
            del node.body[0]
            if not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.Pass())
    return tree


def docstring_of(
    node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
) -> ast.Expr | None:
    """The statement that is the node's docstring."""
    first = node.body[0] if node.body else None
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return None
    return first if isinstance(first.value.value, str) else None


def strip_comments(program: str) -> str:
    """The program without comments and docstrings, in the layout of `ast.unparse`.

    Raises ProgramError when the program does not parse.
    """
    try:
        return ast.unparse(without_docstrings(program_tree(program)))
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be rewritten") from None
