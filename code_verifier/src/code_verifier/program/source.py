"""Program texts: parsed once, and rewritten without comments."""

import ast
import copy
from dataclasses import dataclass

from code_verifier.errors import ProgramError
from code_verifier.literals.syntax import parse_module

MAX_PROGRAM = 2**20
"""Characters. A tree takes up to some hundred bytes of memory per character of its text."""
Documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""What can have a docstring."""
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
        found = f"the program has {len(program)} characters"
        raise ProgramError(f"{found}; expected at most {MAX_PROGRAM}")
    try:
        return ParsedProgram(program, parse_module(program))
    except SyntaxError as error:
        if error.msg.startswith(("RecursionError", "MemoryError")):
            raise ProgramError("the program is nested too deeply to be parsed") from None
        raise ProgramError(f"the program is not Python: {error.msg}") from None


def docstring_of(node: Documented) -> ast.Expr | None:
    """The statement that is the node's docstring."""
    match node.body:
        case [ast.Expr(ast.Constant(str())) as first, *_]:
            return first
    return None


def strip_comments(program: str | ParsedProgram) -> str:
    """The program without comments and docstrings, in the layout of `ast.unparse`. Raises
    ProgramError when the program does not parse."""
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
