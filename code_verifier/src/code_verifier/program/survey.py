"""One pass over a syntax tree that gathers what the metrics need."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_NESTING = frozenset(
    (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
) | {ast.Match}
_LEAVES = frozenset(("ctx", "op"))
_PLAIN = frozenset(("id", "attr", "arg", "asname", "type_comment", "kind", "conversion", "level"))


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
    """Without operators and contexts of expressions (`Add`, `Load`)."""

    def of(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of these types."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())


def _plan(kind: type[ast.AST]) -> tuple[tuple[str, ...], int]:
    """Fields that may hold nodes, and the number of fields that always hold a leaf."""
    inner = [name for name in kind._fields if name not in _LEAVES | _PLAIN]
    return tuple(inner), sum(name in _LEAVES for name in kind._fields)


_PLANS = {
    kind: _plan(kind)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_PLANS[ast.Constant] = ((), 0)


def survey(tree: ast.Module) -> Survey:
    """Walk the tree once, without recursion, so that depth costs nothing."""
    depth = nodes = deepest = 0
    by_type: dict[type[ast.AST], list[Any]] = defaultdict(list)
    stack: list[tuple[Iterable[Any], int, int]] = [((tree,), 1, 0)]
    while stack:
        siblings, level, inside = stack.pop()
        for node in siblings:
            kind = type(node)
            plan = _PLANS.get(kind)
            if plan is None:
                continue
            fields, leaves = plan
            nodes += 1 + leaves
            depth = max(depth, level + (leaves > 0))
            by_type[kind].append(node)
            within = inside + 1 if kind in _NESTING else inside
            deepest = max(deepest, within)
            for name in fields:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    # `elif` is an If in the else branch of an If, and no deeper to the reader.
                    flat = name == "orelse" and kind is ast.If and _is_elif(value)
                    stack.append((value, level + 1, within - flat))
                elif value is not None:
                    stack.append(((value,), level + 1, within))
    return Survey(depth, nodes, deepest, by_type)


def _is_elif(branch: list[ast.stmt]) -> bool:
    return len(branch) == 1 and branch[0].__class__ is ast.If
