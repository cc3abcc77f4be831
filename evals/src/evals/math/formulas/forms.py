"""The shape of an answer: a list, a tuple or interval, a union, a matrix, an equation, or a value.

Shapes are read before anything is computed, so that `1,-2` is not `(1,-2)`, an open end is not a
closed one, and every one of several required values is asked for.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TypeAlias

from evals.math.formulas.notation import split
from evals.math.formulas.sets import pieces
from evals.math.formulas.words import NUMBER_WORDS


@dataclass(frozen=True)
class Scalar:
    """A value: a formula, with or without a unit; or words."""

    text: str


@dataclass(frozen=True)
class Bracketed:
    """A tuple, a point or an interval: brackets and order count."""

    left: str
    right: str
    items: tuple["Form", ...]


@dataclass(frozen=True)
class Listing:
    """Values in any order: a set, the solutions of an equation, the parts of a union."""

    items: tuple["Form", ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of cells."""

    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Relation:
    """Sides joined by = or by an order sign; `signs` has one entry less than `sides`."""

    sides: tuple[str, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Based:
    """Digits of a number in a base other than ten."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """Values joined by colons: a ratio or a time of day."""

    parts: tuple[str, ...]


Form: TypeAlias = Scalar | Bracketed | Listing | Matrix | Relation | Based | Ratio

_AND = re.compile(
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])", re.IGNORECASE
)
_UNIT_AND = re.compile(r"\\text\{([^{}]*?[A-Za-z][^{}]*?)\s(?:and|or)\s*\}")
_ORDER = ("\\leq", "\\geq", "\\neq", "<", ">", "=", "\\approx")
_MATRIX = re.compile(
    r"^(.*?)(?:[(\[|]\s*)?\\begin\s*\{((?:[pbBvV]|small)?matrix|array)\}\s*(?:\{[lcr| ]*\})?(.*)"
    r"\\end\s*\{\2\}(?:\s*[)\]|])?$",
    re.DOTALL,
)
_BASE_WORDS = {name: base for base, name in enumerate(NUMBER_WORDS)}
_BASE = re.compile(
    r"^\(?\s*([0-9A-Fa-f]+)\s*\)?\s*(?:_\s*\{?\s*\(?|(?:\\text\{\s*)?\(?\s*(?:in )?base[- ]?\}?\s*)"
    r"\s*(?:\\text\{)?\s*(?:base[- ]?\}?\s*)?(\d+|[a-z]+)\s*\)?\}*\)?$"
)
_DOMAIN = re.compile(r"^[A-Za-z]\s*\\in\s*\\mathbb\s*\{?[A-Z]\}?(?:[_^]\S{1,8})?\s*,\s*(?=\S)")
_MEMBER = re.compile(r"^\(?\\?[A-Za-z][\w+\-*/^{}, ]{0,20}\)?\s*\\in\s*(?![A-Za-z])")
_TRANSPOSED = re.compile(r"(?<=[)\]}])\s*\^\s*\{?\s*(?:T|\\top|\\intercal|\\text\{T\})\s*\}?$")
_BUILDER = re.compile(
    r"^\\\{\s*[A-Za-z]\s*(?:\\in\s*\\mathbb\s*\{?\s*R\s*\}?\s*)?(?:\\mid|:|\|)\s*"
    r"((?:(?!\\\}.*\\\{).)*)\\\}$"
)
_ABOUT = re.compile(
    r"^\s*(?:\\approx|=|\\text\{\s*(?:about|approximately)\s*\}|(?:about|approximately)\s)\s*"
)
_SCOPE = re.compile(
    r"[\s,(]*(?:\\text\{[\s,(]*)?"
    r"(?:,\s*[A-Za-z]\s*\\in\s*\\mathbb|\\forall"
    r"|(?<![A-Za-z])(?:for (?:all|every|any|each|some|integers?|natural|real|[a-z] \\in)"
    r"|where|such that)\b)"
    r".*?(?=(?:[,;]|(?:\\text\{\s*)?(?:and|or))[\s}]*[A-Za-z]\([A-Za-z]\)\s*=|$)",
    re.DOTALL,
)
_FROM_ZERO = re.compile(r"^([A-Za-z]\w*\(([a-z])\)\s*=.+?),\s*\2\s*(?:\\geq|>|\\neq)\s*0$")
"""y(t) = t/m, t > 0"""
_PERMUTED = re.compile(
    r"[\s,(]*(?:\\text\{)?[\s,(]*(?:(?:and|with|plus|up to|as well as|together with) )?"
    r"(?:all |any )*(?:of )?(?:its |their |the |these )?"
    r"(?:cyclic )?(?:permutations?|orders|orderings)\b[^()\[\]]*\)?$"
)
_SCALED = re.compile(r"(-?\d+(?:/\d+)?|-?\\frac\s*\{\d+\}\s*\{\d+\})\s*(?:\\cdot)?\s*\((.+)\)")
"""A number times a vector: 1/2 (3, 4)."""
_IDENTITY = re.compile(r"(.*?)\s*(?:I|\\mathbf\s*\{?I\}?)(?:_\s*\{?[234]\}?)?", re.DOTALL)
_PLAIN_SET = re.compile(r"^\{([^{}\\]+,[^{}\\]+)\}$")
_OUTWARD = re.compile(r"^\]([^\[\]]+,[^\[\]]+)([\[\]])$|^(\[)([^\[\]]+,[^\[\]]+)\[$")
_LABEL = re.compile(
    r"^\\text\{[^{}]*(?:is|are|:)\s*\}\s*:?\s*|^\([A-Za-z](?:,\s*[A-Za-z])+\)\s*:\s*(?=\()"
    r"|^[A-Za-z][A-Za-z ]{2,40}:\s*(?=[-\\\d(\[])"
)


@lru_cache(maxsize=2048)
def shape(text: str) -> Form:
    """The form of an answer in plain notation."""
    text = _SCOPE.sub("", _FROM_ZERO.sub(r"\1", text))
    text = _AND.sub(",", _UNIT_AND.sub(r"\\text{\1},", text))
    text = _LABEL.sub("", text).strip().strip(",;").strip()
    text = _DOMAIN.sub("", text)
    text = _BUILDER.sub(r"\1", text)
    text = _ABOUT.sub("", _MEMBER.sub("", text))
    text = _PLAIN_SET.sub(r"\\{\1\\}", text)
    upright = _TRANSPOSED.sub("", text)
    if upright != text and upright.startswith(("[", "(", "\\begin")):
        return _transposed(shape(upright))
    matrix = _MATRIX.match(text)
    if matrix and _factor(matrix.group(1)) and "\\begin" not in matrix.group(3):
        factor = matrix.group(1).removesuffix("\\cdot").strip()
        rows = [row for row in matrix.group(3).split("\\\\") if row.strip()]
        cells = ((cell.strip() for cell in row.split("&")) for row in rows)
        left, right = (f"{factor}(", ")") if factor else ("", "")
        return Matrix(tuple(tuple(f"{left}{cell}{right}" for cell in row) for row in cells))
    if (permuted := _PERMUTED.search(text)) is not None:
        return _orders(shape(text[: permuted.start()].rpartition("=")[2]), "cyclic" in permuted[0])
    text = pieces(_OUTWARD.sub(_inward, text))
    items = [item for item in split(text, (",", ";")) if item]
    if len(items) > 1:
        return Listing(tuple(shape(item) for item in items))
    parts = split(text, ("\\cup", "\\bigcup"))
    if len(parts) > 1:
        return Listing(tuple(shape(part) for part in parts))
    sides, signs = _sides(text)
    if signs:
        return Relation(sides, signs)
    based = _BASE.match(text)
    if based:
        base = (
            int(based.group(2)) if based.group(2).isdigit() else _BASE_WORDS.get(based.group(2), 0)
        )
        if 2 <= base <= 36 and "e" not in based.group(1) and based.group(1)[0].isdigit():
            return Based(based.group(1).upper().lstrip("0") or "0", base)
    ratio = re.fullmatch(r"[^:=]+(?::[^:=]+)+", text)
    if ratio:
        return Ratio(tuple(part.strip() for part in text.split(":")))
    return _bracketed(text)


def identity(text: str, size: int) -> Matrix | None:
    """A multiple of the identity matrix, written out: -I, 2 I_3."""
    found = _IDENTITY.fullmatch(text)
    if found is None:
        return None
    one = found[1] if found[1].strip("+- ") else f"{found[1]}1"
    places = range(size)
    return Matrix(tuple(tuple(one if i == k else "0" for k in places) for i in places))


def quotient(ratio: Ratio) -> Form:
    """3:4 as 3/4."""
    first, *rest = ratio.parts
    return Scalar(rf"\frac{{{first}}}{{{rest[0]}}}") if len(rest) == 1 else ratio


def _transposed(form: Form) -> Form:
    """A matrix with its rows as columns; a vector stays the vector that it is."""
    if isinstance(form, Matrix) and len({len(row) for row in form.rows}) == 1:
        return Matrix(tuple(zip(*form.rows, strict=True)))
    return form


def _orders(form: Form, cyclic: bool) -> Form:
    """Tuples in every order of their items, of at most five each; or in every rotation."""
    found: list[Form] = []
    for item in form.items if isinstance(form, Listing) else (form,):
        if not isinstance(item, Bracketed) or len(item.items) > 5:
            return form
        items = item.items
        orders = (
            (items[k:] + items[:k] for k in range(len(items))) if cyclic else permutations(items)
        )
        found.extend(Bracketed(item.left, item.right, order) for order in dict.fromkeys(orders))
    return Listing(tuple(dict.fromkeys(found)))


def _factor(text: str) -> bool:
    """Whether what stands before a matrix multiplies it: a number, or nothing."""
    return re.fullmatch(r"(?:-?\\frac|-?\\sqrt|[-\d.{}/()\s]|\\cdot)*", text) is not None


def _inward(match: re.Match[str]) -> str:
    """]a, b[ written as (a, b): brackets that open outwards leave the end out."""
    if match.group(3):
        return f"[{match.group(4)})"
    return f"({match.group(1)}{']' if match.group(2) == ']' else ')'}"


def _bracketed(text: str) -> Form:
    for left, right in (
        ("\\{", "\\}"),
        ("(", ")"),
        ("[", "]"),
        ("(", "]"),
        ("[", ")"),
    ):
        if not (text.startswith(left) and text.endswith(right)):
            continue
        inner = text[len(left) : -len(right)]
        if not _balanced(inner):
            continue
        items = tuple(shape(item) for item in split(inner, (",", ";")))
        if left == "\\{":
            return Listing(items)
        if len(items) > 1:
            return Bracketed(left, right, items)
    scaled = _SCALED.fullmatch(text)
    if scaled and _balanced(scaled.group(2)) and len(cells := split(scaled.group(2), (",",))) > 1:
        return Bracketed("(", ")", tuple(Scalar(f"{scaled.group(1)}({cell})") for cell in cells))
    return Scalar(text)


def _balanced(inner: str) -> bool:
    depth = 0
    for character in inner:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
    return depth == 0


def _sides(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sides of a relation, and its signs."""
    sides = tuple(split(text, _ORDER))
    signs, place = [], 0
    for side in sides[:-1]:
        place = text.index(side, place) + len(side)
        while text[place] == " ":
            place += 1
        sign = next(mark for mark in _ORDER if text.startswith(mark, place))
        signs.append(sign)
        place += len(sign)
    if any(not side for side in sides):
        return (text,), ()
    return sides, tuple(signs)
