"""The shape of an answer: a value with its unit, a tuple or interval, several values, an equation.

Shapes are read before anything is computed, so that `1,-2` is not `(1,-2)`, an open end is not a
closed one, and none of several values may be missing. Inequalities are read as intervals, unions as
several intervals.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from evals.math.formulas import Tree, formula, number, variables
from evals.math.notation import CLOSING, OPENING, Token, Unreadable
from evals.math.units import unit
from evals.math.words import LARGE, SIGNS, changes, is_condition, is_label


@dataclass(frozen=True)
class Quantity:
    """A value, with the canonical name of its unit."""

    tree: Tree
    unit: str = ""


@dataclass(frozen=True)
class Words:
    """Words, or digits in a base, which are compared as text."""

    text: str


@dataclass(frozen=True)
class Unread:
    """A text that cannot be read, such as one with an unknown word. It equals nothing."""

    text: str


@dataclass(frozen=True)
class Ordered:
    """A tuple, an interval, a matrix of rows: brackets and order matter."""

    left: str
    right: str
    items: tuple["Form", ...]


@dataclass(frozen=True)
class Several:
    """Values in any order: a set, the solutions of an equation, the parts of a union."""

    items: tuple["Form", ...]


@dataclass(frozen=True)
class Relation:
    """Sides joined by = or another sign. names: of each side that is a mere name, x or f(n), else
    ""."""

    sides: tuple["Form", ...]
    signs: tuple[str, ...]
    names: tuple[str, ...]


Form: TypeAlias = Quantity | Words | Unread | Ordered | Several | Relation

_INFINITY: Tree = ("constant", "infty")
_LOWEST, _HIGHEST = Quantity(("negate", _INFINITY)), Quantity(_INFINITY)
_LINE = ("(", ")", (_LOWEST, _HIGHEST))
_AND = {",", ";", "and", "or", "row"}
_RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "~="}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SCOPE = re.compile(
    r"(?:for|where|such|with|if|when|given|since|because|as|and|up|respectively)\b"
    r"|in (?=(?:the )?(?:interval|set|simplest|simplified|lowest|exact|decimal|standard)\b)"
)
"""Words that begin a remark on an answer."""
_NAME = re.compile(
    r"(?!(?:e|i|\\pi)$)(?:\\(?:angle|triangle|overline|vec|hat|dot|ddot|Delta) ?)*"
    r"\{?(?:[A-Za-z]|[A-Z]{2,}|\\[A-Za-z]+)(?:_(?:\w+|\{[^=]*?\}))?\}?(?:_(?:\w+|\{[^=]*?\}))?'*"
    r"(?:[(\[][^=()]*[)\]])?"
)
_POINT = re.compile(r"[A-Z](?:_?\{?\w\}?)?'*")
"""The name of a point, before its coordinates."""
_BASED = re.compile(r"\(?(\d+)\)?(?:_[{(]*(?:base)?|\(?(?:in )?base[- ]?)[{(]?(\d+|[a-z]+)[)}]*")


def numeric(form: Form) -> bool:
    """Whether a form has numbers only, so that letters after a number are a unit."""
    if isinstance(form, Quantity):
        return not variables(form.tree)
    if isinstance(form, Words | Unread):
        return form.text[:1].isdigit()
    if isinstance(form, Relation):
        return numeric(form.sides[-1]) and all(form.names[:-1])
    return all(map(numeric, form.items))


def unread(form: Form) -> str | None:
    """Return the part of a form that cannot be read, or None."""
    if isinstance(form, Unread):
        return form.text
    parts = form.sides if isinstance(form, Relation) else getattr(form, "items", ())
    return next(filter(None, map(unread, parts)), None)


def mapped(form: Form, change: Callable[[Tree], Tree]) -> Form:
    """Return the form with each of its values changed."""
    if isinstance(form, Quantity):
        return replace(form, tree=change(form.tree))
    if isinstance(form, Relation):
        return replace(form, sides=tuple(mapped(side, change) for side in form.sides))
    if isinstance(form, Ordered | Several):
        return replace(form, items=tuple(mapped(item, change) for item in form.items))
    return form


def split(sequence: list[Token], marks: Collection[str]) -> tuple[list[list[Token]], list[str]]:
    """Split tokens at the marks outside all brackets; return the parts, and the marks."""
    parts: list[list[Token]] = [[]]
    found_marks, depth = [], 0
    for token in sequence:
        if token.text in OPENING or token.text == "begin":
            depth += 1
        elif token.text in CLOSING or token.text == "end":
            depth = max(0, depth - 1)
        if not depth and token.kind == "sign" and token.text in marks:
            found_marks.append(token.text)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, found_marks


def shape(sequence: list[Token]) -> Form:
    """Return the form of tokens."""
    sequence = _trimmed(split(sequence, ("=>",))[0][-1])
    parts, marks = split(sequence, _AND)
    parts = [part for part in map(_trimmed, parts) if part]
    if len(parts) > 1:
        overlap = _overlap(parts) if marks == ["and"] else None
        return overlap or Several(tuple(map(shape, parts)))
    sequence = parts[0] if parts else sequence
    parts, _ = split(sequence, ("∪",))
    if len(parts) > 1:
        return Several(tuple(map(shape, parts)))
    parts, marks = split(sequence, _RELATIONS)
    if marks and all(parts):
        parts, _ = split(_without_arguments(sequence), _RELATIONS)
        names = tuple(map(_name, parts))
        sides = tuple(
            _side(part, is_last=part is parts[-1] and not name)
            for part, name in zip(parts, names, strict=True)
        )
        return _interval(sides, tuple(marks), names) or Relation(sides, tuple(marks), names)
    parts, _ = split(sequence, ("∈",))
    if len(parts) == 2:
        return shape(parts[1]) if _names(parts[0]) else Unread(_joined_text(sequence))
    if any(token.text == "without" for token in sequence):
        return Words(_joined_text(sequence))
    parts, _ = split(sequence, (":",))
    ratio = tuple(map(shape, parts)) if len(parts) > 1 else ()
    if ratio and all(isinstance(part, Quantity) for part in ratio):
        return Ordered(":", ":", ratio)
    return _bracketed(sequence) or _value(sequence)


def _trimmed(sequence: list[Token]) -> list[Token]:
    """The tokens without punctuation at both ends, a label before the answer, and a condition."""
    for place, token in enumerate(sequence):
        bracket = token.text == "(" and "∈" in (t.text for t in sequence[place : place + 4])
        scope = token.kind == "text" and _SCOPE.match(token.text)
        if place and (bracket or scope or token.text == "forall"):
            if is_condition([t.text for t in sequence[place:] if t.kind == "text"]):
                sequence = sequence[:place]
            break
    while sequence and sequence[-1].text in (*_AND, ".", ":", "("):
        sequence = sequence[:-1]
    while sequence and sequence[0].text in (*_AND, ".", "=", "~=", ":"):
        sequence = sequence[1:]
    labelled = len(sequence) > 1 and sequence[0].kind == "text"
    return _unlabelled(sequence) if labelled else sequence


def _unlabelled(sequence: list[Token]) -> list[Token]:
    """The tokens without a label before the answer; `minus` becomes a sign."""
    words, after, minus = sequence[0].text.split(), sequence[1], 0
    while words and words[-1].lower() in SIGNS:
        words, minus = words[:-1], minus + 1
    rest = [Token("sign", "-")] * minus + sequence[1:]
    if not words:
        return rest
    applied = after.text == "(" and not after.spaced and sequence[0].text.isalpha()
    begins = after.kind in ("number", "letter", "command") or after.text in ("(", "[", ":", "-")
    return _trimmed(rest) if begins and not applied and is_label(" ".join(words)) else sequence


def _overlap(parts: list[list[Token]]) -> Ordered | None:
    """The interval of `x > 3 and x <= 4`; None for others, and for two variables."""
    ends = {form.items[1] == _HIGHEST: form for form in map(shape, parts) if _is_ray(form)}
    names = [{t.text for t in part if t.kind in ("letter", "text")} for part in parts]
    if len(ends) < 2 or len(parts) > 2 or not names[0] == names[1] != set():
        return None
    above, below = ends[True], ends[False]
    return Ordered(above.left, below.right, (above.items[0], below.items[1]))


def _is_ray(form: Form) -> TypeGuard[Ordered]:
    return isinstance(form, Ordered) and (form.items[0] == _LOWEST) != (form.items[-1] == _HIGHEST)


def _interval(
    sides: tuple[Form, ...], signs: tuple[str, ...], names: tuple[str, ...]
) -> Ordered | None:
    """The interval of `a < x <= b`, `x > a` and their mirror images; None for others."""
    if all(sign in (">", ">=") for sign in signs):
        sides, names = sides[::-1], names[::-1]
        signs = tuple(_FLIPPED[sign] for sign in signs[::-1])
    if not all(sign in ("<", "<=") for sign in signs):
        return None
    left, right = "(" if signs[0] == "<" else "[", ")" if signs[-1] == "<" else "]"
    if len(sides) == 3 and names[1]:
        return Ordered(left, right, (sides[0], sides[2]))
    if len(sides) != 2 or bool(names[0]) == bool(names[1]):
        return None
    if names[0]:
        return Ordered("(", right, (_LOWEST, sides[1]))
    return Ordered(left, ")", (sides[0], _HIGHEST))


def _side(side: list[Token], is_last: bool) -> Form:
    """A side of an equation; before the last one, unknown words may name the quantity."""
    form = shape(side)
    text = " ".join(token.text for token in side if token.kind == "text")
    is_name = isinstance(form, Unread) and not is_last and not changes(text)
    return Words(form.text) if is_name and isinstance(form, Unread) else form


def _names(side: list[Token]) -> bool:
    """Whether a side is names alone: x, (x, y) or p + q."""
    inner = side[1:-1] if side and side[0].text == "(" else side
    return all(map(_name, split(inner, (",", "+"))[0]))


def _joined_text(sequence: list[Token]) -> str:
    return "".join(token.text for token in sequence)


def _name(side: list[Token]) -> str:
    text = "".join("\\" * (token.kind == "command") + token.text for token in side)
    words = len(side) == 1 and side[0].kind == "text" and not changes(side[0].text)
    return text if _NAME.fullmatch(text) or words else ""


def _without_arguments(sequence: list[Token]) -> list[Token]:
    """y' = r x(t) as y' = r x, if a letter occurs only as the argument of functions."""
    texts = [token.text for token in sequence]
    if not {"'", "d", "dot", "ddot"} & set(texts):
        return sequence
    for letter in sorted({token.text for token in sequence if token.kind == "letter"}):
        uses = [
            place
            for place in range(2, len(texts) - 1)
            if texts[place] == letter
            and texts[place - 1] + texts[place + 1] == "()"
            and (sequence[place - 2].kind in ("letter", "command") or texts[place - 2] in "'}")
        ]
        places = [p for p, text in enumerate(texts) if text == letter and texts[p - 1] != "d"]
        if uses and uses == places:
            cut = {place + step for place in uses for step in (-1, 0, 1)}
            rest = [token for place, token in enumerate(sequence) if place not in cut]
            return _without_arguments(rest)
    return sequence


def _bracketed(sequence: list[Token]) -> Form | None:
    """The form of brackets or a matrix, perhaps after a factor; None for a formula."""
    start = _opening(sequence)
    if start is None:
        return None
    left, right, inner = sequence[start].text, sequence[-1].text, sequence[start + 1 : -1]
    parts, _ = split(inner, (",", ";"))
    form: Form | None = None
    if left == "begin":
        cells = [split(row, ("&",))[0] for row in split(inner, ("row",))[0] if row]
        matrix = (Ordered("row", "row", tuple(map(shape, row))) for row in cells)
        form = Ordered("matrix", "matrix", tuple(matrix))
    elif left == "\\{":
        builder, _ = split(inner, ("|", ":"))
        form = shape(builder[1] if len(builder) == 2 and len(builder[0]) < 6 else inner)
        if any(part and part[0].text in ("\\{", "emptyset") for part in parts):
            sets = tuple(Ordered("\\{", "\\}", (shape(part),)) for part in parts if part)
            form = Several(sets)
    elif len(parts) > 1 and left in ("(", "["):
        form = Ordered(left, right, tuple(map(shape, parts)))
        start = 0 if _POINT.fullmatch(_joined_text(sequence[:start])) else start
    elif len(parts) > 1 and left == "{":
        form = Several(tuple(map(shape, parts)))
    elif start == 0 and left in ("(", "["):
        form = shape(inner)
        form = None if isinstance(form, Quantity | Words) else form
    return form if start == 0 or form is None else _scaled(sequence[:start], form)


def _opening(sequence: list[Token]) -> int | None:
    """The place of the bracket that the last token closes; None where it closes none."""
    depth = 0
    for place in range(len(sequence) - 1, -1, -1):
        text = sequence[place].text
        depth += (text in CLOSING or text == "end") - (text in OPENING or text == "begin")
        if depth <= 0:
            return place if depth == 0 and place < len(sequence) - 1 else None
    return None


def _scaled(factor: list[Token], form: Form) -> Form | None:
    """A number times a vector or a matrix: 1/2 (3, 4)."""
    if factor[-1].text in ("*", "+", "-"):
        factor = [*factor, Token("number", "1")]
    try:
        tree, rest = formula(factor)
    except Unreadable:
        return None
    return None if rest or variables(tree) else mapped(form, lambda part: ("multiply", tree, part))


def _value(sequence: list[Token]) -> Form:
    text = _joined_text(sequence)
    if len(sequence) == 1 and text in ("dots", "emptyset", "complexes"):
        return Words(text)
    if text == "reals":
        return Ordered(*_LINE)
    if based := _BASED.fullmatch(text):
        if based[2] == "10":
            return Quantity(number(int(based[1])))
        return Words(f"{based[1].lstrip('0') or '0'}_{based[2]}")
    try:
        tree, rest = formula(sequence)
    except Unreadable:
        has_words_only = text and all(t.kind == "text" for t in sequence)
        return Words(text) if has_words_only else Unread(text or "nothing")
    tree, rest = _enlarged(tree, rest)
    name = unit(rest) if rest else ""
    if name is None:
        return Unread(_joined_text(rest))
    if tree[0] == "negate" and tree[1][0] == "degrees":
        tree = ("degrees", ("negate", tree[1][1]))
    if tree[0] == "degrees":
        return Quantity(tree[1], name if name in ("celsius", "fahrenheit") else "degree")
    return Quantity(tree, name)


def _enlarged(tree: Tree, rest: list[Token]) -> tuple[Tree, list[Token]]:
    """A value multiplied by a large number behind it: 3 million."""
    large, _, more = (
        rest[0].text.partition(" ") if rest and rest[0].kind == "text" else ("", "", "")
    )
    if large not in LARGE:
        return tree, rest
    first = [rest[0]._replace(text=more)] if more else []
    return ("multiply", tree, number(LARGE[large])), [*first, *rest[1:]]
