"""Lines of code."""

import ast
import re

from code_verifier.program.source import DOCUMENTED, docstring_of
from code_verifier.program.survey import Survey

_NEWLINE = re.compile(r"\r\n|\r|\n")
_EMPTY = " \t\f\\"


def code_lines(program: str, found: Survey) -> int:
    """Lines of a program that hold code: not blank, not only a comment, not of a docstring. Every
    line of a text that runs over several counts, whatever it looks like."""
    lines = _NEWLINE.split(program)
    is_code = [bool(text := line.strip(_EMPTY)) and text[0] != "#" for line in lines]
    for node in found.of(ast.Constant, ast.JoinedStr):
        if node.end_lineno > node.lineno:
            _mark(is_code, node, True)
    for node in found.of(*DOCUMENTED):
        docstring = docstring_of(node)
        if docstring is not None:
            _mark(is_code, docstring, False)
            first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
            before = lines[first].encode()[: docstring.col_offset]  # offsets are in UTF-8 bytes
            after = lines[last].encode()[docstring.end_col_offset :].strip(b" \t\f;\\")
            is_code[first] |= bool(before.strip())
            is_code[last] |= bool(after) and not after.startswith(b"#")
    return sum(is_code)


def _mark(is_code: list[bool], node: ast.expr | ast.stmt, value: bool) -> None:
    last = node.end_lineno or node.lineno
    is_code[node.lineno - 1 : last] = [value] * (last - node.lineno + 1)
