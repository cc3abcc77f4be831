"""Whether two formulas, each perhaps with a unit, have the same value."""

import re
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from evals.math.formulas.constants import respelled
from evals.math.formulas.expressions import Tree, read
from evals.math.formulas.numeric import equal, variables
from evals.math.formulas.tokens import Unreadable
from evals.math.formulas.units import units_differ, without_unit
from evals.math.quantities import converted, has_pi

_INFINITIES = {"\\infty": 1, "+\\infty": 1, "-\\infty": -1, "infty": 1, "oo": 1, "-oo": -1}
"""Ends of intervals, by their signs."""
_DECIMAL = re.compile(r"(-?)(\d+(?:\.\d+)?)(?:\s*\\cdot\s*10\s*\^\s*\{?\s*(-?\d{1,3})\s*\}?)?")
_STRANGE = re.compile(r"\\(?!(?:text|frac|sqrt|cdot|pi|circ)(?![A-Za-z]))[A-Za-z]")
"""A command that may mean something here but is not read."""


def same_value(gold: str, answer: str, unit: str) -> tuple[bool | None, str]:
    """The verdict and the name of the rule; None when a formula cannot be read here.

    unit: what the row says that the answer is counted in; "" where it does not.
    """
    if squeezed(gold) == squeezed(answer):
        return True, "same text"
    if gold in _INFINITIES or answer in _INFINITIES:
        return _INFINITIES.get(gold) == _INFINITIES.get(answer), "value"
    wanted, gold_unit = without_unit(gold, words=False)
    tree = _tree(wanted)
    numeric = tree is not None and not variables(tree)
    unread = True
    for words in (False, True) if numeric else (False,):
        found, answer_unit = without_unit(answer, words)
        other = _tree(found + "%" if answer_unit == "percent" else found)
        asked, given = gold_unit or unit, answer_unit
        if asked == "degree" and not given and other is not None and has_pi(other):
            given = "radian"
        if given == "degree" and asked == "celsius":
            given = ""
        if units_differ(asked, given):
            turned = None if other is None else converted(other, given, asked)
            return bool(tree and turned and equal(tree, turned)), "unit"
        if tree is None or other is None:
            continue
        if unit == "percent":
            tree, other = _without_percent(tree), _without_percent(other)
        verdict = _same_tree(tree, other)
        if verdict is False and "/" in found and (tight := _tree(found, tight=True)) is not None:
            verdict = tight != other and _same_tree(tree, tight)
        if verdict:
            return True, "value"
        unread = unread and verdict is None
    if unread and (not numeric or _STRANGE.search(answer)):
        return None, "unreadable"
    return False, "value"


def rounds_to(gold: str, answer: str) -> bool:
    """Whether a number has more digits than a gold of two or more, and rounds to it."""
    (first, asked), (second, given) = (without_unit(text, words=True) for text in (gold, answer))
    wanted, found = _decimal(first), _decimal(second)
    if wanted is None or found is None or given == "percent" or units_differ(asked, given):
        return False
    if wanted.as_tuple().exponent == 0 or found.adjusted() > wanted.adjusted() + 1:
        return False
    digits, more = (len(number.as_tuple().digits) for number in (wanted, found))
    return 2 <= digits < more < 28 and found.quantize(wanted, ROUND_HALF_UP) == wanted


def _decimal(text: str) -> Decimal | None:
    match = _DECIMAL.fullmatch(text.strip())
    if match is None:
        return None
    sign, digits, power = match.groups()
    return Decimal(f"{sign}{digits}e{power or 0}")


def squeezed(text: str) -> str:
    """Without white space, but for what keeps two numbers or a command and a letter apart."""
    return re.sub(r"(?<![\dA-Za-z])\s+|\s+(?![\dA-Za-z])", "", text)


@lru_cache(maxsize=1024)
def _tree(text: str, tight: bool = False) -> Tree | None:
    try:
        return read(text, tight)
    except Unreadable:
        return None


def _same_tree(gold: Tree, answer: Tree) -> bool | None:
    """Equal as they stand, with other constants, or with one side's bare logarithms to base ten."""
    verdict = equal(gold, answer)
    if not verdict and any(equal(gold, other) for other in respelled(gold, answer)):
        return True
    if not verdict and _has_log(gold) != _has_log(answer):
        return equal(_common_log(gold), _common_log(answer))
    return verdict


def _has_log(tree: Tree) -> bool:
    """Whether a logarithm is written without its base."""
    return tree[0] == "log" or any(_has_log(part) for part in tree if isinstance(part, tuple))


def _common_log(tree: Tree) -> Tree:
    """The tree with such logarithms to base ten."""
    head = "log10" if tree[0] == "log" else tree[0]
    return (head, *(_common_log(p) if isinstance(p, tuple) else p for p in tree[1:]))


def _without_percent(tree: Tree) -> Tree:
    return tree[1] if tree[0] == "percent" and isinstance(tree[1], tuple) else tree
