"""McCabe's cyclomatic number, counted as radon 6 counts it."""

import ast
from collections.abc import Callable
from typing import Any

from code_verifier.program.survey import MODULE, OUTSIDE, Survey


def _match(node: ast.Match) -> int:
    """The cases, less one when one of them is `_` or a bare name."""
    otherwise = any(getattr(case.pattern, "pattern", False) is None for case in node.cases)
    return max(0, len(node.cases) - otherwise)


def _loop(node: Any) -> int:
    return 1 + bool(node.orelse)


_DECISIONS: dict[type[ast.AST], Callable[[Any], int]] = {
    ast.If: lambda node: 1,
    ast.IfExp: lambda node: 1,
    ast.Assert: lambda node: 1,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _loop,
    ast.Try: lambda node: len(node.handlers) + bool(node.orelse),
    ast.BoolOp: lambda node: len(node.values) - 1,
    ast.comprehension: lambda node: 1 + len(node.ifs),
    ast.Match: _match,
}


def cyclomatic(found: Survey) -> int:
    """The sum of radon's complexity over its blocks: functions, classes and methods.

    A block has 1 plus its decision points (McCabe 1976). Code of the module itself, functions
    inside functions and classes inside others are no blocks and do not count. A class with m
    methods counts (1 + decisions in its body + complexity of its methods) / m, rounded down,
    plus 1 when m > 1; its methods then count again, on their own.
    """
    numbers = [1] * len(found.blocks)
    for kind, decisions in _DECISIONS.items():
        for node, place in found.by_type.get(kind, ()):
            if place.block != OUTSIDE:
                numbers[place.block] += decisions(node)
    methods = [0] * len(numbers)
    for index, block in enumerate(found.blocks):
        if block.parent != OUTSIDE:
            methods[block.parent] += 1
            numbers[block.parent] += numbers[index]
    for index, number in enumerate(methods):
        if number:
            numbers[index] = numbers[index] // number + (number > 1)
    return sum(numbers[MODULE + 1 :])
