"""What a program is counted as when the variety of a set is measured."""

import ast
from dataclasses import dataclass

from code_verifier.metrics.measurement import imported
from code_verifier.program.fingerprint import fingerprint
from code_verifier.program.source import ParsedProgram, parse_program
from code_verifier.program.survey import survey

_OPERATORS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
TRAITS = ("structure", "node_types", "imports")
"""The fields of Traits, the finest first."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Three descriptions of a program, each finer than a name and coarser than its text."""

    structure: str
    """Its `fingerprint`."""
    node_types: str
    """The types of syntax it uses without operators, sorted: `BinOp For Return`."""
    imports: str
    """The modules it imports, sorted, with spaces between."""


def traits(program: str | ParsedProgram) -> Traits:
    """The traits of a program. Raises ProgramError when it cannot be parsed."""
    parsed = parse_program(program)
    found = survey(parsed.tree)
    kinds = sorted(kind.__name__ for kind in found.by_type if not issubclass(kind, _OPERATORS))
    return Traits(fingerprint(parsed), " ".join(kinds), " ".join(sorted(set(imported(found)))))
