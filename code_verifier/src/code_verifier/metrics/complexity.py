"""McCabe's and Halstead's measures, taken by radon's visitors from a tree that is parsed already.

radon is what people compare with. Of its raw line counts nothing is used: they are read from the
text again, take time that grows with the square of the lines of a statement, and refuse some valid
programs; see `lines`.
"""

import ast

from radon.metrics import h_visit_ast
from radon.visitors import ComplexityVisitor

from code_verifier.errors import ProgramError
from code_verifier.literals.syntax import deep_recursion

_FRAMES = 4
"""Python frames that a visitor takes for each level of a tree: three, and some at the leaves."""


def complexity(tree: ast.Module, depth: int) -> tuple[int, float, float]:
    """radon's measures of a tree of this depth. Raises ProgramError when there is no stack left.

    The cyclomatic number, summed over radon's blocks (functions, classes and methods; McCabe 1976);
    the volume V = N log2 n in bits, with the length N and the vocabulary n, and the effort E = D V,
    with the difficulty D = n1 N2 / (2 n2) (Halstead 1977).
    """
    try:
        with deep_recursion(_FRAMES * depth):
            blocks = ComplexityVisitor.from_ast(tree).blocks
            total = h_visit_ast(tree).total
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be measured") from None
    cyclomatic = sum(int(block.complexity) for block in blocks)
    return cyclomatic, float(total.volume), float(total.effort)
