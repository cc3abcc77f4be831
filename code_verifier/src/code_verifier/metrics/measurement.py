"""Structural metrics of a program, without executing it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from code_verifier.metrics.complexity import complexity
from code_verifier.metrics.lines import code_lines
from code_verifier.program.fingerprint import fingerprint
from code_verifier.program.source import ParsedProgram, parse_program
from code_verifier.program.survey import Survey, survey

NUMBERS = (
    *("ast_depth", "ast_nodes", "cyclomatic", "loc", "variables"),
    *("halstead_volume", "halstead_effort", "max_nesting", "functions", "imports"),
)
"""The fields of Metrics that are numbers."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Structure of one program."""

    ast_depth: int
    """Nodes on the longest path from the module to a leaf."""
    ast_nodes: int
    """Nodes, as `ast.walk` gives them."""
    cyclomatic: int
    """McCabe's number, summed over radon's blocks."""
    loc: int
    """Lines that hold code, neither blank, comment nor docstring."""
    variables: int
    """Distinct names bound by assignment, as parameters, by `except ... as` or in a pattern."""
    halstead_volume: float
    """N log2 n, in bits (Halstead 1977, as radon counts)."""
    halstead_effort: float
    """D V (Halstead 1977, as radon counts)."""
    max_nesting: int
    """Compound statements inside each other."""
    functions: int
    """`def` statements."""
    imports: int
    """Distinct modules imported."""
    structure: str
    """The program's `fingerprint`."""


def measure(program: str | ParsedProgram) -> Metrics:
    """Metrics of a program. Raises ProgramError when it does not parse or is too long or too deeply
    nested to be parsed."""
    parsed = parse_program(program)
    found = survey(parsed.tree)
    cyclomatic, volume, effort = complexity(parsed.tree, found.depth)
    return Metrics(
        ast_depth=found.depth,
        ast_nodes=found.nodes,
        cyclomatic=cyclomatic,
        loc=code_lines(parsed.text, found),
        variables=len(_bound(found)),
        halstead_volume=volume,
        halstead_effort=effort,
        max_nesting=found.nesting,
        functions=sum(1 for _ in found.of(ast.FunctionDef, ast.AsyncFunctionDef)),
        imports=len(set(imported(found))),
        structure=fingerprint(parsed),
    )


def imported(found: Survey) -> Iterator[str]:
    """The modules that a program imports, relative ones with their dots."""
    for node in found.of(ast.Import):
        yield from (alias.name for alias in node.names)
    for node in found.of(ast.ImportFrom):
        yield "." * node.level + (node.module or "")


def _bound(found: Survey) -> set[str]:
    names = [node.id for node in found.of(ast.Name) if isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in found.of(ast.arg)]
    names += [node.name for node in found.of(ast.ExceptHandler, ast.MatchAs, ast.MatchStar)]
    return {*names, *(node.rest for node in found.of(ast.MatchMapping))} - {None}
