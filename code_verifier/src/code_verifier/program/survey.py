"""One pass over a syntax tree that gathers what the metrics need."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NESTING = frozenset(
    (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
) | {ast.Match}


@dataclass(frozen=True, slots=True)
class Survey:
    """The nodes of a tree by type, and the tree's measures."""

    depth: int
    """Nodes on the longest path from the module to a leaf."""
    nodes: int
    """All nodes, as `ast.walk` gives them."""
    nesting: int
    """Compound statements inside each other."""
    by_type: dict[type[ast.AST], list[Any]]

    def of(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of these types."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())


def survey(tree: ast.Module) -> Survey:
    """Walk the tree once, without recursion, so that depth costs nothing."""
    depth = nodes = nesting = 0
    by_type: dict[type[ast.AST], list[Any]] = defaultdict(list)
    stack: list[tuple[ast.AST, int, int]] = [(tree, 1, 0)]
    while stack:
        node, level, inside = stack.pop()
        kind = node.__class__
        by_type[kind].append(node)
        nodes += 1
        depth = max(depth, level)
        inside += kind in _NESTING
        nesting = max(nesting, inside)
        # `elif` is an If in the else branch of an If, and no deeper to the reader.
        branch = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else ()
        for child in ast.iter_child_nodes(node):
            chained = child.__class__ is ast.If and child in branch
            stack.append((child, level + 1, inside - chained))
    return Survey(depth, nodes, nesting, by_type)
