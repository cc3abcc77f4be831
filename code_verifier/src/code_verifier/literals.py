"""Python literals: reading them as data, and writing values in one canonical form.

Only exact built-in types count: None, Ellipsis, bool, int, float, complex, str, bytes, list,
tuple, set and dict. No method of a subclass or of a metaclass is ever called. Two values are the
same value exactly when their canonical texts are equal: 1, True and 1.0 differ, and so do 0.0
and -0.0, which programs can tell apart. Sets and dicts are written in an order that depends on
their members only. Every text that `repr` gives for such a value is read back as that value.
"""

import ast
import json
import math
import operator
import re
from collections.abc import Sequence
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.parsing import parse_tree

MAX_CHARS = 100_000
MAX_DEPTH = 64
_MAX_INT_BITS = 14_280  # a little under 4300 decimal digits, Python's own default limit
_LONG_INTEGER = "an integer of more than 4298 digits"
_NAME_CHARS = 80
_INTEGERS = re.compile(r"[0-9 ,\[\]-]*")
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
    """The literal of one value. Types are compared by identity only: `==`, `in` and `hash` on a
    type would call its metaclass, which the program may have written."""
    kind = type(value)
    if kind is int or kind is str or kind is bool or kind is float or value is None:
        text = _atom(value, kind, budget[0])
    elif kind is list or kind is tuple or kind is dict or kind is set:
        if depth <= 0:
            raise LiteralError("nested too deeply, or a cycle")
        budget[0] -= 2
        text = _container(value, kind, depth - 1, budget)
        if budget[0] < 0:
            raise LiteralError("longer than the output limit", "too_long")
        return text
    elif kind is bytes or kind is complex:
        text = _atom(value, kind, budget[0])
    elif value is ...:
        text = "..."
    else:
        name = type.__dict__["__name__"].__get__(kind)[:_NAME_CHARS]
        raise LiteralError(f"a value of type {name!r} is not a literal")
    budget[0] -= len(text)
    if budget[0] < 0:
        raise LiteralError("longer than the output limit", "too_long")
    return text


def _atom(value: Any, kind: type, room: int) -> str:
    if kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise LiteralError(_LONG_INTEGER, "too_long")
    elif kind is str or kind is bytes:
        if len(value) > room:
            raise LiteralError("longer than the output limit", "too_long")
    elif kind is float:
        if not math.isfinite(value):
            raise LiteralError(_NOT_FINITE)
    elif kind is complex:
        real, imag = value.real, value.imag
        if not (math.isfinite(real) and math.isfinite(imag)):
            raise LiteralError(_NOT_FINITE)
        sign = "-" if math.copysign(1.0, imag) < 0 else "+"
        return f"({real!r}{sign}{abs(imag)!r}j)"
    return repr(value)


def _container(value: Any, kind: type, depth: int, budget: list[int]) -> str:
    budget[0] -= 2 * max(len(value) - 1, 0)
    if budget[0] < 0:
        raise LiteralError("longer than the output limit", "too_long")
    if kind is list or kind is tuple:
        inner = ", ".join([_write(item, depth, budget) for item in value])
        if kind is list:
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is dict:
        budget[0] -= 2 * len(value)
        pairs = [
            (_order(key, text := _write(key, depth, budget)), text, _write(item, depth, budget))
            for key, item in value.items()
        ]
        pairs.sort(key=_first)
        return "{" + ", ".join([f"{key}: {item}" for _, key, item in pairs]) + "}"
    if not value:
        return "set()"
    members = [(_order(item, text := _write(item, depth, budget)), text) for item in value]
    members.sort(key=_first)
    return "{" + ", ".join([text for _, text in members]) + "}"


def _order(value: Any, text: str) -> tuple[int, Any, str]:
    """Sort key of a set member or dict key: numbers by value, then texts, then the rest."""
    kind = type(value)
    if kind is int or kind is bool or kind is float:
        return (0, value, text)
    if kind is str:
        return (1, value, text)
    return (2, text, text)


_first = operator.itemgetter(0)


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
        raise LiteralError(_NOT_FINITE)
    if type(value) is int and value.bit_length() > _MAX_INT_BITS:
        raise LiteralError(_LONG_INTEGER, "too_long")
    if type(value) is complex and not math.isfinite(value.imag):
        raise LiteralError(_NOT_FINITE)
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
        raise LiteralError(_NOT_FINITE) from None
