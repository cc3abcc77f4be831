"""Halstead's measures, counted as radon 6 counts them."""

import ast
import math
from dataclasses import dataclass

from code_verifier.program.survey import Place, Survey


@dataclass(frozen=True)
class Halstead:
    """Counts of operators and operands, distinct and in all."""

    distinct_operators: int
    distinct_operands: int
    operators: int
    operands: int

    @property
    def volume(self) -> float:
        """V = N log2 n, with the length N and the vocabulary n (Halstead 1977)."""
        vocabulary = self.distinct_operators + self.distinct_operands
        length = self.operators + self.operands
        return length * math.log(vocabulary, 2) if vocabulary else 0.0

    @property
    def effort(self) -> float:
        """E = D V, with the difficulty D = n1 N2 / (2 n2) (Halstead 1977)."""
        if not self.distinct_operands:
            return 0.0
        return self.distinct_operators * self.operands / (2 * self.distinct_operands) * self.volume


def halstead(found: Survey) -> Halstead:
    """Operators are the arithmetic, logical and comparing ones; operands are what they join.

    Names, attributes and constants are the same operand when they are equal and stand in
    functions of the same name; every other expression is an operand of its own. Decorators,
    parameters and their defaults do not count.
    """
    symbols: set[str] = set()
    known: set[tuple[str | None, object]] = set()
    operators = operands = unnamed = 0

    def count(place: Place, *nodes: ast.expr) -> None:
        nonlocal operands, unnamed
        operands += len(nodes)
        for node in nodes:
            if isinstance(node, ast.Name):
                known.add((place.context, node.id))
            elif isinstance(node, ast.Attribute):
                known.add((place.context, node.attr))
            elif isinstance(node, ast.Constant):
                known.add((place.context, node.value))
            else:
                unnamed += 1

    for node, place in found.of(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.AugAssign, ast.Compare):
        if not place.counted:
            continue
        if isinstance(node, ast.Compare):
            symbols.update(type(operator).__name__ for operator in node.ops)
            operators += len(node.ops)
            count(place, node.left, *node.comparators)
            continue
        symbols.add(type(node.op).__name__)
        operators += 1
        if isinstance(node, ast.BinOp):
            count(place, node.left, node.right)
        elif isinstance(node, ast.UnaryOp):
            count(place, node.operand)
        elif isinstance(node, ast.BoolOp):
            count(place, *node.values)
        else:
            count(place, node.target, node.value)
    return Halstead(len(symbols), len(known) + unnamed, operators, operands)
