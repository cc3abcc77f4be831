"""Free constants of a solution: C, C_1, A may be called anything."""

import re
from collections.abc import Iterator
from itertools import permutations

from evals.math.formulas.expressions import Tree
from evals.math.formulas.numeric import variables

_ASKED = re.compile(r"[cC](?:_?\d)?")
_GIVEN = re.compile(r"[A-DKk](?:_?\d)?|c(?:_?\d)?")
MOST = 4
"""Constants that are tried in every order."""


def respelled(gold: Tree, answer: Tree) -> Iterator[Tree]:
    """The answer with its free constants called as in the gold, in every order.

    The gold's are c, C, C_1; the answer's may be other letters that the gold does not have.
    """
    asked, used = variables(gold), variables(answer)
    wanted = sorted(name for name in asked if _ASKED.fullmatch(name))
    others = asked - set(wanted)
    given = sorted(name for name in used - others if _GIVEN.fullmatch(name))
    if not wanted or len(wanted) != len(given) or len(wanted) > MOST or used - others != set(given):
        return
    for order in permutations(wanted):
        names = dict(zip(given, order, strict=True))
        if any(old != new for old, new in names.items()):
            yield renamed(answer, names)


def renamed(tree: Tree, names: dict[str, str]) -> Tree:
    """The tree with variables called by other names."""
    if tree[0] == "variable":
        return ("variable", names.get(str(tree[1]), tree[1]))
    return (tree[0], *(renamed(p, names) if isinstance(p, tuple) else p for p in tree[1:]))
