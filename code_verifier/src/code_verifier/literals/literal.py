"""Reading Python literals as data; see `canonical` for what a literal is here.

Every text that `repr` gives for such a value is read back as that value.
"""

import ast
import json
import math
import re
from collections.abc import Sequence
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.literals.canonical import (
    LONG_INTEGER,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_INT_BITS,
    NOT_FINITE,
    canonical,
)
from code_verifier.literals.syntax import parse_tree

_INTEGERS = re.compile(r"[0-9 ,\[\]-]*")


def canonical_arguments(
    args: Sequence[object], kwargs: dict[str, object], max_chars: int = MAX_CHARS
) -> str:
    """The text between the parentheses of a call, written canonically; keywords are sorted."""
    parts = [canonical(value, max_chars) for value in args]
    parts += [f"{name}={canonical(kwargs[name], max_chars)}" for name in sorted(kwargs)]
    text = ", ".join(parts)
    if len(text) > max_chars:
        raise _too_long(max_chars)
    return text


def parse_literal(text: str, max_chars: int = MAX_CHARS) -> Any:
    """The value of one literal. Expressions, calls but `set()`, and names but `Ellipsis` are
    refused.

    Raises LiteralError.
    """
    _check_length(text, max_chars)
    quick = _integers(text)
    if quick is not None:
        return quick
    try:
        tree = parse_tree(text.strip(), mode="eval")
    except SyntaxError as error:
        raise LiteralError(f"not a Python literal: {error.msg}") from None
    if not isinstance(tree, ast.Expression):
        raise LiteralError("not a Python literal: not one expression")
    return _value(tree.body, MAX_DEPTH)


def parse_arguments(
    text: str, max_chars: int = MAX_CHARS
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from the text between the parentheses of a call.

    Every argument must be a literal. Raises LiteralError.
    """
    _check_length(text, max_chars)
    quick = _integers(f"[{text}]")
    if quick is not None:
        return tuple(quick), {}
    return _arguments(_call(text, max_chars))


def tidy_arguments(text: str, max_chars: int = MAX_CHARS) -> str:
    """The same arguments in Python's usual layout, without comments.

    Unlike the canonical text it keeps the order of dicts, sets and keywords as written, which a
    program can see. Raises LiteralError.
    """
    return read_arguments(text, max_chars)[2]


def read_arguments(
    text: str, max_chars: int = MAX_CHARS
) -> tuple[tuple[Any, ...], dict[str, Any], str]:
    """`parse_arguments` and `tidy_arguments` in one: the text is parsed once."""
    call = _call(text, max_chars)
    args, kwargs = _arguments(call)
    return args, kwargs, ", ".join(ast.unparse(node) for node in (*call.args, *call.keywords))


def _integers(text: str) -> Any:
    """The value of an integer, or of nested lists of integers, or None for any other text.

    JSON and Python agree on what can be written with these characters, and JSON's reader is
    about ten times as fast.
    """
    if _INTEGERS.fullmatch(text) is None or text.count("[") > MAX_DEPTH:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _arguments(call: ast.Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = tuple(_value(node, MAX_DEPTH) for node in call.args)
    return args, {str(item.arg): _value(item.value, MAX_DEPTH) for item in call.keywords}


def _call(text: str, max_chars: int) -> ast.Call:
    _check_length(text, max_chars)
    try:
        tree = parse_tree(f"f(\n{text}\n)", mode="eval")
    except SyntaxError as error:
        raise LiteralError(f"the input is not an argument list: {error.msg}") from None
    call = tree.body if isinstance(tree, ast.Expression) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise LiteralError("the input is not the argument list of one call")
    if any(keyword.arg is None for keyword in call.keywords):
        raise LiteralError("the input holds a ** argument, which is not a literal")
    names = [keyword.arg for keyword in call.keywords]
    if len(set(names)) < len(names):
        raise LiteralError("the input gives a keyword argument twice")
    return call


def _check_length(text: str, max_chars: int) -> None:
    if len(text) > max_chars:
        raise _too_long(max_chars)


def _too_long(max_chars: int) -> LiteralError:
    return LiteralError(f"longer than {max_chars} characters", "too_long")


def _value(node: ast.expr, depth: int) -> Any:
    kind = type(node)
    if kind is ast.Constant:
        value = node.value  # type: ignore[attr-defined]
        return _constant(value)
    if depth < 1:
        raise LiteralError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, ast.List):
        return [_value(item, depth - 1) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple([_value(item, depth - 1) for item in node.elts])
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return _number(node)
    try:
        if isinstance(node, ast.Set):
            return {_value(item, depth - 1) for item in node.elts}
        if isinstance(node, ast.Dict):
            return _mapping(node, depth)
    except TypeError as error:
        raise LiteralError(f"not a Python literal: {error}") from None
    if isinstance(node, ast.Name) and node.id == "Ellipsis":
        return ...
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "set"
        and not node.args
        and not node.keywords
    ):
        return set()
    raise LiteralError(f"not a Python literal: {kind.__name__} is an expression")


def _mapping(node: ast.Dict, depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if key is None:
            raise LiteralError("not a Python literal: ** in a dict")
        result[_value(key, depth - 1)] = _value(item, depth - 1)
    return result


def _constant(value: Any) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise LiteralError(NOT_FINITE)
    if type(value) is int and value.bit_length() > MAX_INT_BITS:
        raise LiteralError(LONG_INTEGER, "too_long")
    if type(value) is complex and not math.isfinite(value.imag):
        raise LiteralError(NOT_FINITE)
    return value


def _number(node: ast.UnaryOp | ast.BinOp) -> Any:
    """A signed number, or `real ± imaginary`, with the signs of zeros that `repr` means."""
    if isinstance(node, ast.UnaryOp):
        value = _signed(node)
        # repr writes complex(0.0, -1.0) as -1j, which Python itself would read as (-0.0-1.0j).
        return complex(0.0, value.imag) if type(value) is complex else value
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant):
        imaginary = node.right.value
        left = node.left
        if type(imaginary) is complex and isinstance(left, ast.Constant | ast.UnaryOp):
            real = _constant(left.value) if isinstance(left, ast.Constant) else _signed(left)
            if type(real) is int or type(real) is float:
                negative = isinstance(left, ast.UnaryOp) and isinstance(left.op, ast.USub)
                part = imaginary.imag
                return complex(
                    _float(-0.0 if negative and real == 0 else real),
                    _float(-part if isinstance(node.op, ast.Sub) else part),
                )
    raise LiteralError("not a Python literal: arithmetic is not evaluated")


def _signed(node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.USub | ast.UAdd) and isinstance(node.operand, ast.Constant):
        value = _constant(node.operand.value)
        if type(value) is int or type(value) is float or type(value) is complex:
            return -value if isinstance(node.op, ast.USub) else value
    raise LiteralError("not a Python literal: an operator applied to a value")


def _float(value: float) -> float:
    try:
        return float(_constant(float(value)))
    except OverflowError:
        raise LiteralError(NOT_FINITE) from None
