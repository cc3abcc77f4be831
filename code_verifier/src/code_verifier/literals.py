"""Read Python literals as data, and compare them; `canonical` defines literals. A text that `repr`
writes for such a value is read back as the same value."""

import ast
import cmath
import math
import sys
from dataclasses import dataclass
from typing import Any

from code_verifier.canonical import (
    LONG_INTEGER,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_INT_BITS,
    NOT_FINITE,
    canonical,
    order,
)
from code_verifier.errors import LiteralError
from code_verifier.syntax import parse_expression

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


def parse_literal(text: str, max_chars: int = MAX_CHARS) -> Any:
    """Return the value of one literal. Expressions, calls but `set()`, and names but `Ellipsis` are
    refused. Raises LiteralError.

        >>> parse_literal("{'a': (1, 2.5)}")
        {'a': (1, 2.5)}
    """
    try:
        return _literal(parse_expression(_at_most(max_chars, text).strip()))
    except SyntaxError as error:
        raise LiteralError(f"not a Python literal: {error.msg}") from None


def parse_arguments(text: str, max_chars: int = MAX_CHARS) -> Arguments:
    """Return positional and keyword arguments from the text between the parentheses of a call.
    Every argument must be a literal. Raises LiteralError."""
    return arguments_of(parse_call(text, max_chars))


def read_arguments(text: str, max_chars: int) -> tuple[tuple[Any, ...], dict[str, Any], str]:
    """Return the arguments of `parse_arguments`, and their text as Python lays it out, without
    comments. Unlike the canonical text it keeps the written order of dicts, sets and keywords,
    which a program can see. Raises LiteralError."""
    call = parse_call(text, max_chars)
    args, kwargs = arguments_of(call)
    return args, kwargs, ", ".join(ast.unparse(node) for node in (*call.args, *call.keywords))


def arguments_of(call: ast.Call) -> Arguments:
    """Return the arguments of a call. Raises LiteralError."""
    kwargs = {str(item.arg): _literal(item.value) for item in call.keywords}
    return tuple(map(_literal, call.args)), kwargs


def parse_call(text: str, max_chars: int) -> ast.Call:
    """Return the tree of the call `f(text)`. Raises LiteralError."""
    try:
        call = parse_expression(f"f(\n{_at_most(max_chars, text)}\n)")
    except SyntaxError as error:
        raise LiteralError(f"the input is not an argument list: {error.msg}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise LiteralError("the input is not the argument list of one call")
    names = [keyword.arg for keyword in call.keywords]
    if None in names:
        raise LiteralError("the input holds a ** argument, which is not a literal")
    if len(set(names)) < len(names):
        raise LiteralError("the input gives a keyword argument twice")
    return call


def _at_most(max_chars: int, text: str) -> str:
    if len(text) > max_chars:
        raise LiteralError(f"longer than {max_chars} characters", "too_long")
    return text


def _literal(node: ast.expr) -> Any:
    """The value of a tree that is a literal. Raises LiteralError."""
    try:
        return _read(node, MAX_DEPTH)
    except TypeError as error:  # a list, set or dict where it would have to be hashed
        raise LiteralError(f"not a Python literal: {error}") from None


_BUILT: dict[type[ast.AST], type] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}


def _read(node: Any, depth: int) -> Any:
    kind = type(node)
    if kind is ast.Constant:
        return _finite(node.value)
    if depth < 1:
        raise LiteralError(f"nested deeper than {MAX_DEPTH} levels")
    if kind in _BUILT:
        return _BUILT[kind]([_read(item, depth - 1) for item in node.elts])
    if kind is ast.Dict:  # the key of ** is None
        pairs = zip(node.keys, node.values, strict=True)
        return {_read(key, depth - 1): _read(item, depth - 1) for key, item in pairs}
    match node:
        case ast.UnaryOp() | ast.BinOp():
            return _number(node)
        case ast.Name("Ellipsis"):
            return ...
        case ast.Call(ast.Name("set"), [], []):
            return set()
    reason = "** in a dict" if node is None else f"{kind.__name__} is an expression"
    raise LiteralError(f"not a Python literal: {reason}")


def _finite(value: Any) -> Any:
    if isinstance(value, float | complex) and not cmath.isfinite(value):
        raise LiteralError(NOT_FINITE)
    if type(value) is int and value.bit_length() > MAX_INT_BITS:
        raise LiteralError(LONG_INTEGER, "too_long")
    return value


def _number(node: ast.UnaryOp | ast.BinOp) -> Any:
    """A signed number, or `real ± imaginary`, with the signs of zeros that `repr` means."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise LiteralError("not a Python literal: arithmetic is not evaluated") from None
    except OverflowError:  # an integer as a real part
        raise LiteralError(NOT_FINITE) from None
    if type(value) is complex:
        # repr writes complex(0.0, -1.0) as -1j, which Python itself would read as (-0.0-1.0j).
        value = complex(ast.unparse(node).replace(" ", ""))
    return _finite(value)


@dataclass(frozen=True)
class Comparison:
    """How values are compared.

    - types: whether 1, 1.0 and True differ, and 0.0 and -0.0; without it Python's `==` decides.
    - tolerance: relative and absolute tolerance of floats and complex numbers, 0 for none, inside
      lists, tuples, sets and dict values, not in dict keys; a zero's sign does not count then.
    """

    types: bool = True
    tolerance: float = 0.0

    def same(self, left: Any, right: Any) -> bool:
        """Return whether two values of exact built-in types are the same. Never raises."""
        try:
            if self.tolerance > 0.0:
                return self._close(left, right)
            return _text(left) == _text(right) if self.types else bool(left == right)
        except Exception:  # a cycle, or a value of a type that has no literal
            return False

    def _close(self, left: Any, right: Any) -> bool:
        kind = type(left)
        same_type = kind is type(right)
        if not same_type and (self.types or not (_is_number(left) and _is_number(right))):
            return False
        if _is_number(left) and not (same_type and isinstance(left, int)):
            return self._near(left, right)
        if kind is set:
            left, right = (sorted(side, key=lambda x: order(x, _text(x))) for side in (left, right))
        if kind is list or kind is tuple or kind is set:
            return len(left) == len(right) and all(map(self._close, left, right))
        if kind is dict:
            key_of = _text if self.types else lambda key: key
            left, right = ({key_of(key): x for key, x in d.items()} for d in (left, right))
            return left.keys() == right.keys() and all(self._close(left[k], right[k]) for k in left)
        return bool(left == right)

    def _near(self, left: Any, right: Any) -> bool:
        if left == right:
            return True
        a, b = complex(left), complex(right)  # OverflowError: an integer far from any float
        limit = {"rel_tol": self.tolerance, "abs_tol": self.tolerance}
        return math.isclose(a.real, b.real, **limit) and math.isclose(a.imag, b.imag, **limit)


def _text(value: Any) -> str:
    return canonical(value, sys.maxsize)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool, complex)
