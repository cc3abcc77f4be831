"""One pass over a syntax tree that gathers what all the metrics need."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

_NESTING = frozenset(
    (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
) | {ast.Match}
_LEAVES = frozenset(("ctx", "op"))
_PLAIN = frozenset(("id", "attr", "arg", "asname", "type_comment", "kind", "conversion", "level"))


class Place(NamedTuple):
    """Where a node stands, in the terms of radon's visitors.

    block: index into Survey.blocks; OUTSIDE for a node that radon's complexity passes over.
    context: name of the innermost function, or None. counted: Halstead's counts see the node.
    """

    block: int
    context: str | None
    counted: bool


@dataclass(frozen=True)
class Block:
    """A function, class or method that has a complexity of its own. parent: its class, or -1."""

    is_class: bool
    parent: int


@dataclass(frozen=True)
class Survey:
    """The nodes of a tree by type, and the tree's measures.

    depth: nodes on the longest path. nodes: as `ast.walk` gives them. nesting: compound
    statements inside each other. blocks: the module first. by_type: operators and contexts of
    expressions (`Add`, `Load`) are left out.
    """

    depth: int
    nodes: int
    nesting: int
    blocks: tuple[Block, ...]
    by_type: dict[type[ast.AST], list[tuple[Any, Place]]]

    def of(self, *kinds: type[ast.AST]) -> Iterator[tuple[Any, Place]]:
        """The nodes of these types, each with its place."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())


MODULE = 0
OUTSIDE = -1
_Group = tuple[Iterable[Any], Place]


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
    blocks = [Block(False, OUTSIDE)]
    by_type: dict[type[ast.AST], list[tuple[Any, Place]]] = defaultdict(list)
    stack: list[tuple[Iterable[Any], int, int, Place]] = [
        ((tree,), 1, 0, Place(MODULE, None, True))
    ]
    while stack:
        siblings, level, inside, place = stack.pop()
        for node in siblings:
            kind = type(node)
            plan = _PLANS.get(kind)
            if plan is None:
                continue
            fields, leaves = plan
            nodes += 1 + leaves
            if level + (leaves > 0) > depth:
                depth = level + (leaves > 0)
            by_type[kind].append((node, place))
            within = inside + 1 if kind in _NESTING else inside
            if within > deepest:
                deepest = within
            if kind in _SPECIAL:
                for group, place_of in _SPECIAL[kind](node, place, blocks):
                    stack.append((group, level + 1, within, place_of))
                continue
            for name in fields:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    if not value:
                        continue
                    # `elif` is an If in the else branch of an If, and no deeper to the reader.
                    flat = name == "orelse" and kind is ast.If and _is_elif(value)
                    stack.append((value, level + 1, within - flat, place))
                elif value is not None:
                    stack.append(((value,), level + 1, within, place))
    return Survey(depth, nodes, deepest, tuple(blocks), by_type)


def _is_elif(branch: list[ast.stmt]) -> bool:
    return len(branch) == 1 and branch[0].__class__ is ast.If


def _function(node: Any, place: Place, blocks: list[Block]) -> Iterator[_Group]:
    """radon reads only the body; a function inside a function is no block."""
    block = OUTSIDE
    if place.block != OUTSIDE and (place.block == MODULE or blocks[place.block].is_class):
        block = len(blocks)
        blocks.append(Block(False, place.block if place.block != MODULE else OUTSIDE))
    yield node.body, Place(block, node.name, place.counted)
    around = Place(OUTSIDE, place.context, False)
    for group in ((node.args,), node.decorator_list, (node.returns,)):
        yield group, around
    yield getattr(node, "type_params", ()), around


def _class(node: Any, place: Place, blocks: list[Block]) -> Iterator[_Group]:
    """radon's complexity reads only the body; a class that is not the module's is no block."""
    block = OUTSIDE
    if place.block == MODULE:
        block = len(blocks)
        blocks.append(Block(True, OUTSIDE))
    yield node.body, place._replace(block=block)
    around = place._replace(block=OUTSIDE)
    for group in (node.bases, node.keywords, node.decorator_list):
        yield group, around
    yield getattr(node, "type_params", ()), around


def _assert(node: Any, place: Place, blocks: list[Block]) -> Iterator[_Group]:
    """radon's complexity counts an assert, and nothing inside it."""
    yield (node.test, node.msg), place._replace(block=OUTSIDE)


_SPECIAL = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Assert: _assert,
}
