"""Equations and inequalities: the interval of one, and when two equations say the same."""

import re
from collections.abc import Iterator
from fractions import Fraction

from evals.math.formulas.expressions import Tree, read
from evals.math.formulas.forms import Bracketed, Form, Listing, Relation, Scalar, shape
from evals.math.formulas.numeric import close, points, variables
from evals.math.formulas.operations import Undefined, Value, value
from evals.math.formulas.tokens import LETTERS, Unreadable
from evals.math.formulas.units import units_differ, without_unit

_NAME = re.compile(
    r"(?!\\(?:frac|sqrt|binom|sin|cos|tan|ln|log|exp))(?:\\(?:text|angle|triangle|overline|vec|dot|ddot|max|min)|\\?[A-Za-z]+)"
    r"(?:\{[^{}=]*\}|[A-Z])*(?:_(?:\{[^=]*?\}|\w))?'*(?:\([^()=]*\))?"
)
_APPLIED = re.compile(r"(.+)\(([A-Za-z])\)")
_APPLIES = r"(?<=[A-Za-z}'])\s*\(\s*"
_ARGUMENT = re.compile(rf"{_APPLIES}([a-z])\s*\)")
_PIECE = re.compile(rf"\\text\{{[^{{}}]*\}}|\\[A-Za-z]+|{LETTERS}")
"""What a formula is made of that letters are in."""
_DISTANCE = re.compile(r"\|\s*(\w|\\theta)\s*([-+][^|]+)?\|")
"""|x - 1|"""
_UPWARD, _DOWNWARD = {"<": "(", "\\leq": "["}, {">": ")", "\\geq": "]"}


def is_name(side: str) -> bool:
    """Whether a side only names something: x, f(n), m_{max}, \\angle ABC."""
    bare = side.replace(" ", "")
    if bare in ("e", "i", "\\pi"):
        return False
    try:
        tree = read(side)
        if tree[0] == "variable" or not variables(tree):
            return tree[0] == "variable"
    except Unreadable:
        pass
    return _NAME.fullmatch(bare) is not None


def named_value(relation: Relation) -> str | None:
    """What an equation says that something is: the last side, or the first of 5 = x."""
    if set(relation.signs) - {"=", "\\approx"}:
        return None
    last = relation.sides[-1]
    if len(relation.sides) == 2 and is_name(last) and not is_name(relation.sides[0]):
        return relation.sides[0]
    return last


def values_said(relation: Relation, rounds: bool = True) -> Iterator[str]:
    """The sides that an equation may offer as its answer.

    x^2 - 1 = 0 offers none: its right side is no value of anything. What is only about equal
    to a value may be the exact one before the sign, but where `rounds` says no: a decimal that is
    asked for is the one after it.
    """
    last = named_value(relation)
    if last is None:
        return
    if last.strip() == "0" and not is_name(relation.sides[0]) and _has_letters(relation.sides[0]):
        return
    yield last
    before, after = (without_unit(side, words=True)[1] for side in relation.sides[-2:])
    if units_differ(before or ("radian" if "\\pi" in relation.sides[-2] else ""), after):
        yield relation.sides[-2]
    for side, sign in zip(relation.sides, relation.signs, strict=False):
        rounded = re.fullmatch(r"-?\d*\.\d+", last) and side is relation.sides[-2]
        if rounds and (sign == "\\approx" or rounded) and _may_round(side, last):
            yield side


def _may_round(side: str, rounded: str) -> bool:
    """Whether one side can be a rounding of the other; so it is where either cannot be read."""
    try:
        exact, decimal = (complex(value(read(text), {})) for text in (side, rounded))
    except (Unreadable, Undefined):
        return True
    return abs(exact - decimal) <= 0.02 * abs(exact)


def _has_letters(side: str) -> bool:
    try:
        return bool(variables(read(side)))
    except Unreadable:
        return True


def interval(relation: Relation) -> Form | None:
    """The interval of `a < x <= b`, `x > a` and their mirror images; None for others."""
    sides, signs = relation.sides, relation.signs
    if all(sign in _DOWNWARD for sign in signs):
        flip = {">": "<", "\\geq": "\\leq"}
        sides, signs = sides[::-1], tuple(flip[sign] for sign in signs[::-1])
    if not all(sign in _UPWARD for sign in signs):
        return None
    if len(sides) == 2 and (size := _DISTANCE.fullmatch(sides[0])):
        middle = f"0-({size.group(2)})" if size.group(2) else "0"
        ends = (f"{middle}{sign}({sides[1]})" for sign in "-+")
        return interval(Relation((next(ends), size.group(1), next(ends)), signs * 2))
    if len(sides) == 3 and is_name(sides[1]):
        left = _UPWARD[signs[0]]
        right = ")" if signs[1] == "<" else "]"
        return Bracketed(left, right, (shape(sides[0]), shape(sides[2])))
    if len(sides) == 2 and is_name(sides[0]) != is_name(sides[1]):
        if is_name(sides[0]):
            right = ")" if signs[0] == "<" else "]"
            return Bracketed("(", right, (Scalar("-\\infty"), shape(sides[1])))
        return Bracketed(_UPWARD[signs[0]], ")", (shape(sides[0]), Scalar("\\infty")))
    return None


def between(text: str) -> tuple[str, ...]:
    """The interval (a, b] that `x > a and x <= b` says; nothing for "or" and for other texts."""
    form = shape(text)
    if not isinstance(form, Listing) or len(form.items) != 2 or re.search(r"\bor\b", text):
        return ()
    spans = [interval(item) for item in form.items if isinstance(item, Relation)]
    names = {side for item in form.items if isinstance(item, Relation) for side in item.sides}
    above = [s for s in spans if isinstance(s, Bracketed) and s.items[1] == Scalar("\\infty")]
    below = [s for s in spans if isinstance(s, Bracketed) and s.items[0] == Scalar("-\\infty")]
    if len(above) != 1 or len(below) != 1 or len(names) != 3:
        return ()
    low, high = above[0].items[0], below[0].items[1]
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return ()
    return (f"{above[0].left}{low.text},{high.text}{below[0].right}",)


def punctured(listing: Listing) -> Form | None:
    """The union that `a < x < b, x \\neq c` says; None for other lists."""
    items = [item for item in listing.items if isinstance(item, Relation)]
    spans = [item for item in items if "\\neq" not in item.signs]
    points = [item.sides[1] for item in items if item.signs == ("\\neq",)]
    found = interval(spans[0]) if len(spans) == 1 else None
    if not points or len(items) < len(listing.items) or not isinstance(found, Bracketed):
        return None
    ends = ",".join(end.text for end in found.items if isinstance(end, Scalar))
    return shape(f"{found.left}{ends}{found.right} \\setminus \\{{{','.join(points)}\\}}")


def same_name(one: str, other: str) -> bool:
    """Whether two names may stand for the same: m and m_{max}, f(x) and f(n)."""
    first, second = (re.sub(r"[\s{}\\]|text", "", name) for name in (one, other))
    return bool(first and second) and first[0] == second[0]


def renamed_argument(gold: Relation | Scalar, answer: Relation) -> Relation:
    """f(t) = 2t with the letter of the gold f(x) = 2x or 2x."""
    found = _APPLIED.fullmatch(answer.sides[0].replace(" ", ""))
    if found is None:
        return answer
    old, new = found.group(2), None
    if isinstance(gold, Relation):
        wanted = _APPLIED.fullmatch(gold.sides[0].replace(" ", ""))
        new = wanted.group(2) if wanted else None
    else:
        asked = _letters(gold.text)
        others = asked - _letters(answer.sides[-1])
        new = others.pop() if len(others) == 1 and old not in asked else None
    if new is None or new == old:
        return answer
    sides = (
        _PIECE.sub(lambda piece: new if piece[0] == old else piece[0], side)
        for side in answer.sides
    )
    return Relation(tuple(sides), answer.signs)


def _letters(text: str) -> set[str]:
    try:
        return set(variables(read(text)))
    except Unreadable:
        return set()


def equivalent(gold: Relation, answer: Relation) -> bool:
    """Whether two equations have the same solutions: they are multiples of each other, or linear
    in one variable with the same solution for it."""
    if gold.signs != ("=",) or answer.signs != ("=",):
        return False
    if all(re.fullmatch(r"[A-Z]{2,6}", side) for side in gold.sides):  # acronyms, not products
        return sorted(gold.sides) == sorted(answer.sides)
    return _alike(gold, answer) or _alike(*_unapplied(gold, answer))


def _unapplied(*relations: Relation) -> tuple[Relation, ...]:
    """y' = r x(t) as y' = r x, where a letter is nothing but the argument of functions."""
    text = "\n".join("=".join(relation.sides) for relation in relations)
    for letter in set(_ARGUMENT.findall(text)):
        bare = re.sub(rf"{_APPLIES}{letter}\s*\)", "", text)
        if not re.search(rf"(?<![A-Za-z\\]){letter}(?![A-Za-z])", re.sub(r"d\s*[a-z]\b", "", bare)):
            text = bare
    return tuple(
        Relation(tuple(part.split("=")), relation.signs)
        for part, relation in zip(text.split("\n"), relations, strict=True)
    )


def _alike(gold: Relation, answer: Relation) -> bool:
    try:
        first, second = (_difference(relation) for relation in (gold, answer))
    except Unreadable:
        return False
    return _proportional(first, second) or any(
        _solved_alike(first, second, name) and _solved_alike(second, first, name)
        for name in sorted(variables(first) & variables(second))
    )


def _difference(relation: Relation) -> Tree:
    left, right = (read(side) for side in relation.sides)
    return ("add", left, ("negate", right))


def _proportional(one: Tree, other: Tree) -> bool:
    names = variables(one) | variables(other)
    if not names:
        return False
    ratio: Value | None = None
    seen = 0
    for point in points(names, whole=False):
        try:
            first, second = value(one, point), value(other, point)
            found = first / second if second else None
        except (Undefined, ZeroDivisionError, OverflowError):
            continue
        if not found or (ratio is not None and not close(ratio, found)):
            return False
        ratio = found
        seen += 1
    return seen >= 2


def _solved_alike(one: Tree, other: Tree, name: str) -> bool:
    """Whether the solution of `one`, linear in a variable, solves `other`, and what is near not."""
    seen = 0
    for point in points(variables(one) | variables(other), whole=False):
        try:
            at = [complex(value(one, {**point, name: Fraction(k)})) for k in range(3)]
            slope = at[1] - at[0]
            if abs(at[2] - at[1] - slope) > 1e-9 * abs(slope) or not slope:
                return False
            root = -at[0] / slope
            if not root:  # a factor of both, as x is of f(x) = x
                return False
            there = complex(value(other, {**point, name: root}))
            beside = complex(value(other, {**point, name: root * 1.37 + Fraction(1, 7)}))
        except (Undefined, OverflowError):
            continue
        if abs(there) > 1e-9 * abs(beside) or not beside:
            return False
        seen += 1
    return seen >= 2
