"""Python literals: reading them as data, and writing values in one canonical form.

Only exact built-in types count: None, Ellipsis, bool, int, float, complex, str, bytes, list,
tuple, set and dict. No method that a subclass could override is ever called. Two values are the
same value exactly when their canonical texts are equal; sets and dicts are written in an order
that depends on their members only.
"""

import ast
import math
from collections.abc import Sequence
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.parsing import parse_tree

MAX_CHARS = 100_000
MAX_DEPTH = 64
_MAX_INT_BITS = 14_280  # a little under 4300 decimal digits, Python's own default limit
_NOT_FINITE = "a float that is not finite has no literal"


def canonical(value: object, max_chars: int = MAX_CHARS, max_depth: int = MAX_DEPTH) -> str:
    """The canonical literal of `value`, at most `max_chars` characters.

    Raises LiteralError with status `not_literal` (another type, a float that is not finite,
    nesting deeper than `max_depth`, a cycle) or `too_long`.
    """
    budget = [max_chars]
    text = _write(value, max_depth, budget)
    if len(text) > max_chars:
        raise _too_long(max_chars)
    return text


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
    """The value of one literal. Expressions, names and calls (but `set()`) are refused.

    Raises LiteralError.
    """
    _check_length(text, max_chars)
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
    call = _call(text, max_chars)
    args = tuple(_value(node, MAX_DEPTH) for node in call.args)
    kwargs = {str(item.arg): _value(item.value, MAX_DEPTH) for item in call.keywords}
    return args, kwargs


def tidy_arguments(text: str, max_chars: int = MAX_CHARS) -> str:
    """The same arguments in Python's usual layout, without comments.

    Unlike the canonical text it keeps the order of dicts, sets and keywords as written, which a
    program can see. Raises LiteralError.
    """
    parse_arguments(text, max_chars)
    call = _call(text, max_chars)
    return ", ".join(ast.unparse(node) for node in (*call.args, *call.keywords))


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


def _write(value: object, depth: int, budget: list[int]) -> str:
    kind = type(value)
    if kind in _ATOMS:
        text = _atom(value, budget[0])
        budget[0] -= len(text)
    elif kind in _CONTAINERS:
        if depth <= 0:
            raise LiteralError(f"nested deeper than {MAX_DEPTH} levels, or a cycle")
        budget[0] -= 2
        text = _container(value, depth - 1, budget)
    else:
        raise LiteralError(f"a value of type {kind.__name__!r} is not a literal")
    if budget[0] < 0:
        raise LiteralError("longer than the output limit", "too_long")
    return text


def _atom(value: Any, room: int) -> str:
    kind = type(value)
    if kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise LiteralError("an integer of more than 4298 digits", "too_long")
    elif kind is float:
        if not math.isfinite(value):
            raise LiteralError(_NOT_FINITE)
    elif kind is complex:
        real, imag = value.real, value.imag
        if not (math.isfinite(real) and math.isfinite(imag)):
            raise LiteralError(_NOT_FINITE)
        sign = "-" if math.copysign(1.0, imag) < 0 else "+"
        return f"({real!r}{sign}{abs(imag)!r}j)"
    elif kind in (str, bytes) and len(value) > max(room, 0):
        raise LiteralError("longer than the output limit", "too_long")
    return "..." if value is ... else repr(value)


def _container(value: Any, depth: int, budget: list[int]) -> str:
    kind = type(value)
    budget[0] -= 2 * max(len(value) - 1, 0)
    if kind is dict:
        budget[0] -= 2 * len(value)
        pairs = [
            (_order(key, text := _write(key, depth, budget)), text, _write(item, depth, budget))
            for key, item in value.items()
        ]
        pairs.sort(key=lambda pair: pair[0])
        return "{" + ", ".join(f"{key}: {item}" for _, key, item in pairs) + "}"
    if kind is set:
        if not value:
            return "set()"
        members = [(_order(item, text := _write(item, depth, budget)), text) for item in value]
        members.sort()
        return "{" + ", ".join(text for _, text in members) + "}"
    inner = ", ".join([_write(item, depth, budget) for item in value])
    if kind is list:
        return f"[{inner}]"
    return f"({inner},)" if len(value) == 1 else f"({inner})"


def _order(value: Any, text: str) -> tuple[int, Any, str]:
    """Sort key of a set member or dict key: numbers by value, then texts, then the rest."""
    kind = type(value)
    if kind is int or kind is bool or kind is float:
        return (0, value, text)
    if kind is str:
        return (1, value, text)
    return (2, text, text)


_ATOMS = frozenset({type(None), type(...), bool, int, float, complex, str, bytes})
_CONTAINERS = frozenset({list, tuple, set, dict})


def _value(node: ast.expr, depth: int) -> Any:
    if depth < 0:
        raise LiteralError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return _number(node)
    if isinstance(node, ast.List):
        return [_value(item, depth - 1) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item, depth - 1) for item in node.elts)
    try:
        if isinstance(node, ast.Set):
            return {_value(item, depth - 1) for item in node.elts}
        if isinstance(node, ast.Dict):
            return _mapping(node, depth)
    except TypeError as error:
        raise LiteralError(f"not a Python literal: {error}") from None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "set"
        and not node.args
        and not node.keywords
    ):
        return set()
    raise LiteralError(f"not a Python literal: {type(node).__name__} is an expression")


def _mapping(node: ast.Dict, depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if key is None:
            raise LiteralError("not a Python literal: ** in a dict")
        result[_value(key, depth - 1)] = _value(item, depth - 1)
    return result


def _constant(value: Any) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise LiteralError(_NOT_FINITE)
    return value


def _number(node: ast.UnaryOp | ast.BinOp) -> Any:
    """A signed number, or `real ± imaginary` built without arithmetic on the real part."""
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub | ast.UAdd) and isinstance(node.operand, ast.Constant):
            value = _constant(node.operand.value)
            if type(value) in (int, float, complex):
                return -value if isinstance(node.op, ast.USub) else value
        raise LiteralError("not a Python literal: an operator applied to a value")
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant):
        imaginary = node.right.value
        left = node.left
        if type(imaginary) is complex and isinstance(left, ast.Constant | ast.UnaryOp):
            real = _value(left, 0)
            if type(real) in (int, float):
                sign = -1.0 if isinstance(node.op, ast.Sub) else 1.0
                return complex(float(real), sign * imaginary.imag)
    raise LiteralError("not a Python literal: arithmetic is not evaluated")
