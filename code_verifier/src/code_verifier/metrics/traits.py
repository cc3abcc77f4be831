"""What a program is counted as when the variety of a set is measured."""

import ast
from dataclasses import dataclass

from code_verifier.metrics.measurement import imported
from code_verifier.program.fingerprint import tree_fingerprint
from code_verifier.program.source import program_tree
from code_verifier.program.survey import survey

TRAITS = ("structure", "node_types", "imports")
"""The fields of Traits, the finest first."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Three descriptions of a program, each finer than a name and coarser than its text.

    structure: its `fingerprint`. node_types: names of the types of syntax it uses, sorted, with
    spaces between (`BinOp For Return`); operators are left out. imports: the modules it imports,
    sorted, with spaces between.
    """

    structure: str
    node_types: str
    imports: str


def traits(program: str) -> Traits:
    """The traits of a program. Raises ProgramError when it cannot be parsed."""
    tree = program_tree(program)
    found = survey(tree)
    kinds = sorted(kind.__name__ for kind in found.by_type if not issubclass(kind, ast.cmpop))
    return Traits(tree_fingerprint(tree), " ".join(kinds), " ".join(sorted(set(imported(found)))))
