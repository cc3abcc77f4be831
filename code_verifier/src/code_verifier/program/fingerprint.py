"""A hash of what a program does, whatever its names, constants, comments and types are called."""

import ast
import hashlib
from typing import Any

from code_verifier.program.source import DOCUMENTED, ParsedProgram, docstring_of, parse_program

_SKIPPED = frozenset(
    ("ctx", "annotation", "returns", "type_comment", "kind", "type_params", "simple", "str")
)
_NAMES = frozenset(("id", "arg", "asname", "rest"))
_NAMED = frozenset(
    (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
) | frozenset((ast.MatchAs, ast.MatchStar))
_BINDING = frozenset(("arg", "asname", "rest", "name"))
_CLOSE = ("", ")")
_FIELDS = {
    kind: tuple(name for name in reversed(kind._fields) if name not in _SKIPPED)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each type of node that count, last first."""


def fingerprint(program: str | ParsedProgram) -> str:
    """The structure of a program as 16 hexadecimal digits. Raises ProgramError.

    Two programs have the same structure when they differ only in layout, comments, docstrings,
    annotations, the values of constants (not their types; a minus sign belongs to the value), or
    in the names that the program itself gives: its variables, parameters, functions, classes and
    `as` names. Built-in functions, attributes and imported modules count: they say what it does.
    """
    tokens, bound = _tokens(parse_program(program).tree)
    numbers: dict[str, str] = {}
    parts: list[str] = []
    for name, text in tokens:
        if name in bound:
            text = numbers.get(name) or numbers.setdefault(name, f" {len(numbers)}")
        parts.append(text)
    data = "".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _tokens(tree: ast.Module) -> tuple[list[tuple[str, str]], set[str]]:
    """The tree in order as pairs (name that may be replaced, or "", text), and the names bound."""
    tokens: list[tuple[str, str]] = []
    bound: set[str] = set()
    stack: list[Any] = [tree]
    while stack:
        item = stack.pop()
        kind = item.__class__
        if kind is tuple:
            tokens.append(item)
            continue
        if kind is list:
            tokens.append(("", "["))
            stack.append(("", "]"))
            stack.extend(reversed(item))
            continue
        fields = _FIELDS.get(kind)
        if fields is None:
            tokens.append(("", f" {item!r}"))
            continue
        plain = kind is ast.Constant or kind is ast.MatchSingleton
        if plain or _is_signed_number(item):
            constant = item if plain else item.operand
            tokens.append(("", f"({type(constant.value).__name__})"))
            continue
        if kind is ast.Name:
            if item.ctx.__class__ is not ast.Load:
                bound.add(item.id)
            tokens.append((item.id, f" {item.id}"))
            continue
        if kind is ast.AnnAssign and item.value is not None:
            stack += [_CLOSE, item.value, [item.target]]
            tokens.append(("", "(Assign"))
            continue
        tokens.append(("", f"({kind.__name__}"))
        stack.append(_CLOSE)
        for field in fields:
            value = getattr(item, field, None)
            if value.__class__ is str and (field in _NAMES or kind in _NAMED):
                if field in _BINDING and kind is not ast.keyword:
                    bound.add(value)
                value = (value, f" {value}")
            elif kind is ast.Global or kind is ast.Nonlocal:
                value = [(name, f" {name}") for name in item.names]
            elif field == "body" and kind in DOCUMENTED and docstring_of(item) is not None:
                value = item.body[1:] or [ast.Pass()]
            stack.append(value)
    return tokens, bound


def _is_signed_number(item: Any) -> bool:
    """`-1` is a constant to the reader."""
    match item:
        case ast.UnaryOp(ast.USub() | ast.UAdd(), ast.Constant(value)):
            return isinstance(value, int | float | complex) and not isinstance(value, bool)
    return False
