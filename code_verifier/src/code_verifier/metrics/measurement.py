"""Structural metrics of a program, without executing it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from code_verifier.metrics.complexity import cyclomatic
from code_verifier.metrics.halstead import halstead
from code_verifier.metrics.lines import code_lines
from code_verifier.program.fingerprint import tree_fingerprint
from code_verifier.program.source import program_tree
from code_verifier.program.survey import Survey, survey

NUMBERS = (
    *("ast_depth", "ast_nodes", "cyclomatic", "loc", "variables"),
    *("halstead_volume", "halstead_effort", "max_nesting", "functions", "imports"),
)
"""The fields of Metrics that are numbers."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Structure of one program.

    ast_depth: nodes on the longest path from the module to a leaf. ast_nodes: nodes, as
    `ast.walk` gives them. cyclomatic: McCabe's number summed over radon's blocks. loc: lines
    that hold code, neither blank, comment nor docstring. variables: distinct names bound by
    assignment, as parameters, by `except ... as` or in a pattern. halstead_volume = N log2 n and
    halstead_effort = D V (Halstead 1977, as radon counts them). max_nesting: compound statements
    inside each other. functions: def statements. imports: distinct modules imported. structure:
    the program's `fingerprint`.
    """

    ast_depth: int
    ast_nodes: int
    cyclomatic: int
    loc: int
    variables: int
    halstead_volume: float
    halstead_effort: float
    max_nesting: int
    functions: int
    imports: int
    structure: str


def measure(program: str) -> Metrics:
    """Metrics of a program.

    Raises ProgramError when it does not parse or is too long or too deeply nested to be parsed.
    """
    tree = program_tree(program)
    found = survey(tree)
    counts = halstead(found)
    return Metrics(
        ast_depth=found.depth,
        ast_nodes=found.nodes,
        cyclomatic=cyclomatic(found),
        loc=code_lines(program, found),
        variables=len(set(_bound(found))),
        halstead_volume=counts.volume,
        halstead_effort=counts.effort,
        max_nesting=found.nesting,
        functions=sum(1 for _ in found.of(ast.FunctionDef, ast.AsyncFunctionDef)),
        imports=len(set(imported(found))),
        structure=tree_fingerprint(tree),
    )


def imported(found: Survey) -> Iterator[str]:
    """The modules that a program imports, relative ones with their dots."""
    for node, _ in found.of(ast.Import):
        yield from (alias.name for alias in node.names)
    for node, _ in found.of(ast.ImportFrom):
        yield "." * node.level + (node.module or "")


def _bound(found: Survey) -> Iterator[str]:
    for node, _ in found.of(ast.Name):
        if node.ctx.__class__ is ast.Store:
            yield node.id
    for node, _ in found.of(ast.arg):
        yield node.arg
    for node, _ in found.of(ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
        if node.name is not None:
            yield node.name
    for node, _ in found.of(ast.MatchMapping):
        if node.rest is not None:
            yield node.rest
