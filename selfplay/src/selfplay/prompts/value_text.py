"""Inputs and outputs as models write them, brought to what the judge reads.

Nothing is evaluated here, and a text that is not understood stays as it is: the judge refuses it.
Comments may stay, too: the judge's reader passes over them.
"""

import ast
import re
from collections.abc import Sequence

from code_verifier import (
    CodeVerifierError,
    LiteralError,
    parse_arguments,
    parse_literal,
    parse_program,
)

_LABEL = {
    "input": re.compile(r"#?\s*(?:test )?(?:inputs?|arguments?)\s*:\s*", re.IGNORECASE),
    "output": re.compile(r"#?\s*(?:outputs?|results?|returns?)\s*:\s*", re.IGNORECASE),
}


def without_label(name: str, text: str) -> str:
    """Drop `input:` or `output:` before the value. With `=` it could be a keyword argument."""
    text = text.strip()
    label = _LABEL[name].match(text)
    return text[label.end() :].strip() if label else text


def argument_text(text: str, program: str) -> str:
    """Return the text between the parentheses of the call of f.

    A whole call `f(1, 2)` is cut to its arguments. A tuple `(1, 2)` is spread where f needs two
    arguments: given as one it could only raise.
    """
    text = without_label("input", text)
    match _statements(text):
        case [ast.Expr(ast.Call(ast.Name("f"), positional, named))]:
            return _joined(text, [*positional, *named])
        case [ast.Expr(ast.Tuple(items))] if text.startswith("(") and 2 <= required_arguments(
            program
        ) <= len(items):
            return _joined(text, items)
    return text


def required_arguments(program: str) -> int:
    """Return how many positional arguments f cannot do without; 0 where that cannot be told."""
    found = [
        node.args
        for node in _statements(program)
        if isinstance(node, ast.FunctionDef) and node.name == "f"
    ]
    if not found:
        return 0
    return len(found[-1].posonlyargs) + len(found[-1].args) - len(found[-1].defaults)


def defines_f(text: str) -> bool:
    """Whether a text is a program with a function f."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "f" for node in _statements(text))


def is_output(text: str) -> bool:
    """Whether a text is one literal, as the judge reads it."""
    try:
        parse_literal(without_label("output", text))
    except LiteralError:
        return False
    return True


def is_input(text: str) -> bool:
    """Whether a text is literals between commas, or a call of f with such."""
    try:
        return parse_arguments(argument_text(text, "")) != ((), {})
    except LiteralError:
        return False


def _statements(text: str) -> list[ast.stmt]:
    try:
        return parse_program(text).tree.body
    except CodeVerifierError:
        return []


def _joined(text: str, parts: Sequence[ast.expr | ast.keyword]) -> str:
    """The parts as they were written."""
    segments = (ast.get_source_segment(text, part) or "" for part in parts)
    return ", ".join(segments)
