"""Rewriting of program texts."""

import ast

from code_verifier.errors import ProgramError
from code_verifier.parsing import parse_tree

_OWNERS = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def program_tree(program: str) -> ast.Module:
    """The syntax tree of a program. Raises ProgramError."""
    try:
        tree = parse_tree(program)
    except SyntaxError as error:
        raise ProgramError(f"the program is not Python: {error.msg}") from None
    if not isinstance(tree, ast.Module):
        raise ProgramError("the program is not a module")
    return tree


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove docstrings in place; an emptied body becomes `pass`."""
    for node in ast.walk(tree):
        if isinstance(node, _OWNERS) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
            if not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.Pass())
    return tree


def strip_comments(program: str) -> str:
    """The program without comments and docstrings, in the layout of `ast.unparse`.

    Raises ProgramError when the program does not parse.
    """
    try:
        return ast.unparse(without_docstrings(program_tree(program)))
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be rewritten") from None
