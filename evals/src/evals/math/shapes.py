"""The shape of an answer: a value with its unit, a tuple or interval, several values, an equation.

Shapes are read before anything is computed, so that `1,-2` is not `(1,-2)`, an open end is no
closed one, and no value may be missing. Inequalities are intervals, unions several intervals.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from evals.math.formulas import Tree, formula, number, substitute, variables
from evals.math.notation import CLOSING, OPENING, Token, Unreadable
from evals.math.numbers import Evaluator
from evals.math.units import convert, unit
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
    """Values in any order: a set, solutions, parts of a union. either: with "or" between them.
    conditions: of the values that have one."""

    items: tuple["Form", ...]
    either: bool = field(default=False, compare=False)
    conditions: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Relation:
    """Sides joined by signs such as =. names: of sides that are mere names, x or f(n); else ""."""

    sides: tuple["Form", ...]
    signs: tuple[str, ...]
    names: tuple[str, ...]


Form: TypeAlias = Quantity | Words | Unread | Ordered | Several | Relation

_INFINITY: Tree = ("constant", "infty")
_LOWEST, _HIGHEST = Quantity(("negate", _INFINITY)), Quantity(_INFINITY)
_AXES = ("imath", "jmath", "kmath")
_UNIT_VECTORS: dict[str, Tree] = {axis[0]: ("variable", axis) for axis in _AXES}
_AND = {",", ";", "and", "or", "row"}
_RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "~="}
_FLIPPED = {">": "<", ">=": "<="}
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


def is_numeric(form: Form) -> bool:
    """Whether a form has numbers only, so that letters after a number are a unit."""
    if isinstance(form, Quantity):
        return not variables(form.tree)
    if isinstance(form, Words | Unread):
        return form.text[:1].isdigit()
    if isinstance(form, Relation):
        return is_numeric(form.sides[-1]) and all(form.names[:-1])
    return all(map(is_numeric, form.items))


def unread_part(form: Form) -> str | None:
    """Return the part of a form that cannot be read, or None."""
    if isinstance(form, Unread):
        return form.text
    parts = form.sides if isinstance(form, Relation) else getattr(form, "items", ())
    return next(filter(None, map(unread_part, parts)), None)


def map_trees(form: Form, change: Callable[[Tree], Tree]) -> Form:
    """Return the form with each of its values changed."""
    if isinstance(form, Quantity):
        return replace(form, tree=change(form.tree))
    if isinstance(form, Relation):
        return replace(form, sides=tuple(map_trees(side, change) for side in form.sides))
    if isinstance(form, Ordered | Several):
        return replace(form, items=tuple(map_trees(item, change) for item in form.items))
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
    sequence = split(sequence, ("=>",))[0][-1]
    if not _has_conditions(split(sequence, _AND)[0]):
        sequence = _trim(sequence)
    parts, marks = split(sequence, _AND)
    ends = [" ".join(token.text for token in part[_condition(part) :]) for part in parts]
    conditions = tuple(_SCOPE.sub("", end, count=1).replace(" ", "") for end in ends if end)
    parts = list(filter(None, map(_trim, parts)))
    if len(parts) > 1:
        overlap = _overlap(parts) if marks == ["and"] else None
        return overlap or Several(tuple(map(shape, parts)), "or" in marks, conditions)
    sequence = parts[0] if parts else sequence
    parts, _ = split(sequence, ("∪",))
    if len(parts) > 1:
        return Several(tuple(map(shape, parts)))
    parts, marks = split(sequence, _RELATIONS)
    if marks and all(parts):
        parts, _ = split(_drop_arguments(sequence), _RELATIONS)
        if _FLIPPED.keys() >= set(marks):
            parts, marks = parts[::-1], [_FLIPPED[mark] for mark in marks[::-1]]
        names = tuple(map(_name, parts))
        unnamed = (part is parts[-1] and not name for part, name in zip(parts, names, strict=True))
        sides = tuple(map(_side, parts, unnamed))
        relation = Relation(sides, tuple(marks), names)
        named = names[0] or isinstance(sides[0], Ordered)
        if marks == ["="] and named and isinstance(sides[1], Several):  # x = {1, 2}
            return Several(tuple(replace(relation, sides=(sides[0], s)) for s in sides[1].items))
        return _interval(relation) or relation
    parts, _ = split(sequence, ("∈",))
    if len(parts) == 2:  # x, (x, y) or p + q
        inner = parts[0][1:-1] if parts[0] and parts[0][0].text == "(" else parts[0]
        named = all(map(_name, split(inner, (",", "+"))[0]))
        return shape(parts[1]) if named else Unread(_joined_text(sequence))
    parts, _ = split(sequence, ("without",))
    if len(parts) > 1:
        holes = shape(parts[1]) if _joined_text(parts[0]) == "reals" else None
        if holes and parts[1][0].text == "\\{":
            return Relation((Words("reals"), holes), ("!=",), ("", ""))
        return Words(_joined_text(sequence))
    parts, _ = split(sequence, (":",))
    if len(parts) == 2 and [token.kind for token in parts[0]] == ["text"] and _name(parts[0]):
        label = parts[0][0].text
        return Relation((Words(label), shape(parts[1])), ("=",), (label, ""))
    ratio = tuple(map(shape, parts)) if len(parts) > 1 else ()
    if ratio and all(isinstance(part, Quantity) for part in ratio):
        return Ordered(":", ":", ratio)
    return _transpose(sequence) or _read_brackets(sequence) or _value(sequence)


def _trim(sequence: list[Token]) -> list[Token]:
    """The tokens without punctuation at both ends, a label before the answer, and a condition."""
    sequence = sequence[: _condition(sequence)]
    while sequence and sequence[-1].text in (*_AND, ".", ":", "("):
        sequence = sequence[:-1]
    while sequence and sequence[0].text in (*_AND, ".", "=", "~=", ":"):
        sequence = sequence[1:]
    labelled = len(sequence) > 1 and sequence[0].kind == "text"
    return _drop_label(sequence) if labelled else sequence


def _condition(sequence: list[Token]) -> int:
    """The place at which a condition begins, or the end."""
    for place, token in enumerate(sequence):
        bracket = token.text == "(" and "∈" in (t.text for t in sequence[place : place + 4])
        scope = token.kind == "text" and _SCOPE.match(token.text)
        if place and (bracket or scope or token.text == "forall"):
            is_value = [t.kind for t in sequence[place + 1 :]] == ["number"]  # from 3 up to 5
            texts = [t.text for t in sequence[place:] if t.kind == "text"]
            return place if is_condition(texts) and not is_value else len(sequence)
    return len(sequence)


def _has_conditions(parts: list[list[Token]]) -> bool:
    """Whether values have conditions of their own: 3 for n = 1, 4 for n = 2."""
    sides = [split(part, ("=",))[0] for part in parts]
    names = [_joined_text(side[0]) if len(side) > 1 else "" for side in sides]
    ends = [_condition(part) < len(part) for part in parts]
    first = ends.index(True) if any(ends) else len(ends)
    return any(ends[first + 1 :]) or names[0] in filter(None, names[first + 1 :])


def _drop_label(sequence: list[Token]) -> list[Token]:
    """The tokens without a label before the answer; `minus` becomes a sign."""
    words, after, minus = sequence[0].text.split(), sequence[1], 0
    while words and words[-1].lower() in SIGNS:
        words, minus = words[:-1], minus + 1
    tokens = [Token("sign", "-")] * minus + sequence[1:]
    if not words:
        return tokens
    applied = after.text == "(" and not after.spaced and sequence[0].text.isalpha()
    begins = after.kind in ("number", "letter", "command") or after.text in ("(", "[", ":", "-")
    return _trim(tokens) if begins and not applied and is_label(" ".join(words)) else sequence


def _overlap(parts: list[list[Token]]) -> Ordered | None:
    """The interval of `x > 3 and x <= 4`; None for others, and for two variables."""
    forms = [form for form in map(shape, parts) if isinstance(form, Ordered)]
    rays = [f for f in forms if (f.items[0] == _LOWEST) != (f.items[-1] == _HIGHEST)]
    ends = {ray.items[1] == _HIGHEST: ray for ray in rays}
    names = [{t.text for t in part if t.kind in ("letter", "text")} for part in parts]
    if len(ends) < 2 or len(parts) > 2 or not names[0] == names[1] != set():
        return None
    above, below = ends[True], ends[False]
    return Ordered(above.left, below.right, (above.items[0], below.items[1]))


def _interval(relation: Relation) -> Ordered | None:
    """The interval of `a < x <= b` and `a < x`; None for others."""
    sides, signs, names = relation.sides, relation.signs, relation.names
    left, right = "(" if signs[0] == "<" else "[", ")" if signs[-1] == "<" else "]"
    if len(sides) == 2 and names[0] and not names[1]:
        left, sides, names = "(", (_LOWEST, *sides), ("", *names)
    elif len(sides) == 2 and names[1] and not names[0]:
        right, sides, names = ")", (*sides, _HIGHEST), (*names, "")
    if len(sides) != 3 or not names[1] or not {"<", "<="} >= set(signs):
        return None
    return Ordered(left, right, (sides[0], sides[2]))


def _side(side: list[Token], is_last: bool) -> Form:
    """A side of an equation; before the last one, unknown words may name the quantity."""
    form = shape(side)
    text = " ".join(token.text for token in side if token.kind == "text")
    is_name = not is_last and not changes(text)
    return Words(form.text) if is_name and isinstance(form, Unread) else form


def _joined_text(sequence: list[Token]) -> str:
    return "".join(token.text for token in sequence)


def _name(side: list[Token]) -> str:
    text = "".join("\\" * (token.kind == "command") + token.text for token in side)
    words = len(side) == 1 and side[0].kind == "text" and not changes(side[0].text)
    return text if _NAME.fullmatch(text) or words else ""


def _drop_arguments(sequence: list[Token]) -> list[Token]:
    """y' = r x(t) as y' = r x, if a letter occurs only as the argument of functions."""
    texts = [token.text for token in sequence]
    if not {"'", "d", "dot", "ddot"} & set(texts):
        return sequence
    for letter in sorted({token.text for token in sequence if token.kind == "letter"}):
        places = [p for p, text in enumerate(texts) if text == letter and texts[p - 1] != "d"]
        applied = [
            p > 1
            and texts[p - 1 : p + 2 : 2] == ["(", ")"]
            and (sequence[p - 2].kind in ("letter", "command") or texts[p - 2] in "'}")
            for p in places
        ]
        if applied and all(applied):
            cut = {place + step for place in places for step in (-1, 0, 1)}
            tokens = [token for place, token in enumerate(sequence) if place not in cut]
            return _drop_arguments(tokens)
    return sequence


def _read_brackets(sequence: list[Token]) -> Form | None:
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
            form = Several(tuple(Ordered("\\{", "\\}", (shape(p),)) for p in parts if p))
    elif len(parts) > 1 and left in ("(", "["):
        form = Ordered(left, right, tuple(map(shape, parts)))
        start = 0 if _POINT.fullmatch(_joined_text(sequence[:start])) else start
    elif start == 0 and left == "{":
        form = shape(inner)
    elif start == 0 and left in ("(", "["):
        form = shape(inner)
        form = None if isinstance(form, Quantity | Words) else form
    return form if start == 0 or form is None else _scale(sequence[:start], form)


def _transpose(sequence: list[Token]) -> Form | None:
    """The columns of [1, 2]^T as rows; None for others."""
    cut = max((place for place, token in enumerate(sequence) if token.text == "^"), default=0)
    form = _read_brackets(sequence[:cut])
    exponent = _joined_text(sequence[cut:]).strip("^{}")
    if exponent not in ("T", "top", "intercal") or not isinstance(form, Ordered):
        return None
    rows = [item.items if isinstance(item, Ordered) else (item,) for item in form.items]
    if len(set(map(len, rows))) > 1:
        return None
    turned = zip(*rows, strict=True) if form.left == "matrix" else rows
    return Ordered("matrix", "matrix", tuple(Ordered("row", "row", tuple(row)) for row in turned))


def _opening(sequence: list[Token]) -> int | None:
    """The place of the bracket that the last token closes; None where it closes none."""
    depth = 0
    for place in range(len(sequence) - 1, -1, -1):
        text = sequence[place].text
        depth += (text in CLOSING or text == "end") - (text in OPENING or text == "begin")
        if depth <= 0:
            return place if depth == 0 and place < len(sequence) - 1 else None
    return None


def _scale(factor: list[Token], form: Form) -> Form | None:
    """A number times a vector or a matrix: 1/2 (3, 4)."""
    if factor[-1].text in ("*", "+", "-"):
        factor = [*factor, Token("number", "1")]
    try:
        tree, tokens = formula(factor)
    except Unreadable:
        return None
    is_number = not tokens and not variables(tree)
    return map_trees(form, lambda part: ("multiply", tree, part)) if is_number else None


def _value(sequence: list[Token]) -> Form:
    text = _joined_text(sequence)
    if len(sequence) == 1 and text in ("dots", "emptyset", "complexes"):
        return Words(text)
    if text == "reals":
        return Ordered("(", ")", (_LOWEST, _HIGHEST))
    if based := _BASED.fullmatch(text):
        if based[2] == "10":
            return Quantity(number(int(based[1])))
        return Words(f"{based[1].lstrip('0') or '0'}_{based[2]}")
    try:
        tree, tokens = formula(sequence)
    except Unreadable:
        has_words_only = text and all(t.kind == "text" for t in sequence)
        return Words(text) if has_words_only else Unread(text or "nothing")
    if tokens and tokens[0].kind == "modulus":
        return Quantity(tree, f"mod {tokens[0].text}") if len(tokens) == 1 else Unread(text)
    tree, tokens = _enlarge(tree, tokens)
    name = unit(tokens) if tokens else ""
    if name is None:
        places = [place for place, token in enumerate(tokens) if token.kind == "number"]
        first = unit(tokens[: places[0]]) if places and len(places) < 4 else None
        parts = (Quantity(tree, first or ""), _value(tokens[places[0] :])) if first else ()
        total = _total(Several(parts)) if parts else None
        return total or Unread(_joined_text(tokens))
    if tree[0] == "negate" and tree[1][0] == "degrees":
        tree = ("degrees", ("negate", tree[1][1]))
    if tree[0] == "degrees":
        return Quantity(tree[1], name if name in ("celsius", "fahrenheit") else "degree")
    return Quantity(tree, name)


def _enlarge(tree: Tree, tokens: list[Token]) -> tuple[Tree, list[Token]]:
    """A value multiplied by a large number behind it: 3 million."""
    large, _, more = tokens[0].text.partition(" ") if tokens else ("", "", "")
    if large not in LARGE or tokens[0].kind != "text":
        return tree, tokens
    first = [tokens[0]._replace(text=more)] if more else []
    return ("multiply", tree, number(LARGE[large])), [*first, *tokens[1:]]


def alike(one: Form, other: Form) -> tuple[Form, Form]:
    """Return two answers in one shape, if one may be spelled in the shape of the other: 3:45 pm and
    15:45; x != 2 and a union of intervals; 225 minutes and 3 hours, 45 minutes; a vector as a
    tuple, as a column and in i, j, k."""
    first, second = _time(one), _time(other)
    if first and second and (first[1] or second[1]):
        as_written = first[0] == second[0] and not (first[1] and second[1])
        times = (t % 720 + 720 * (half == "pm") if half else t for t, half in (first, second))
        one, other = (Quantity(number(0 if as_written else time)) for time in times)
        return one, other
    holes, other_holes = _holes(one), _holes(other)
    if holes and other_holes and (holes[0] == other_holes[0] or "" in (holes[0], other_holes[0])):
        return holes[1], other_holes[1]
    if isinstance(one, Several) and isinstance(other, Quantity):
        return _total(one) or one, other
    if isinstance(one, Quantity) and isinstance(other, Several):
        return one, _total(other) or other
    sizes = [len(form.items) for form in (one, other) if isinstance(form, Ordered)]
    trees = (form.tree for form in (one, other) if isinstance(form, Quantity))
    if len(sizes) == 1 or variables(*trees).intersection(_AXES):
        one, other = (_vector(form, sizes[0] if sizes else 3) for form in (one, other))
    if isinstance(one, Ordered) and isinstance(other, Ordered) and "(" in (one.left, other.left):
        one, other = _flat(one), _flat(other)
    return one, other


def _time(form: Form) -> tuple[int, str] | None:
    """The minutes of a time of day as written, and am, pm or ""; None for others."""
    clock = isinstance(form, Ordered) and form.left == ":" and len(form.items) == 2
    parts = form.items if isinstance(form, Ordered) and clock else (form,)
    numbers = [p.tree[1] for p in parts if isinstance(p, Quantity) and p.tree[0] == "number"]
    half = getattr(parts[-1], "unit", "")
    if len(numbers) < len(parts) or half not in (("am", "pm", "") if clock else ("am", "pm")):
        return None
    hour, minute = (*numbers, Fraction(0))[:2]
    whole = hour.denominator == minute.denominator == 1 and 0 <= hour <= 24 and 0 <= minute < 60
    return (int(60 * hour + minute), half) if whole else None


def _holes(form: Form) -> tuple[str, Form] | None:
    """The name of a number, if there is one, and the values that it has not; None for others."""
    if isinstance(form, Relation) and form.signs == ("!=",):
        place = 0 if form.names[0] or not form.names[1] else 1
        return form.names[place], form.sides[1 - place]
    items = form.items if isinstance(form, Several) else ()
    if isinstance(form, Several) and isinstance(items[0], Relation) and not form.either:
        excluded = [(items[0].names[0], i) if isinstance(i, Quantity) else _holes(i) for i in items]
        names = {part[0] if part else None for part in excluded}
        points = {part[1] for part in excluded if part}
        return (str(names.pop()), Several(tuple(points))) if len(names) == 1 and points else None
    rays = [item for item in items if isinstance(item, Ordered) and len(item.items) == 2]
    begins, ends = ({ray.items[place] for ray in rays} for place in (0, 1))
    points = begins - {_LOWEST}
    is_open = all(ray.left + ray.right == "()" for ray in rays) and points == ends - {_HIGHEST}
    if len(items) < 2 or not is_open or not len(points) + 1 == len(rays) == len(items):
        return None
    return "", points.pop() if len(points) == 1 else Several(tuple(points))


def _total(form: Several) -> Quantity | None:
    """The sum of 3 hours and 45 minutes; None if the units do not measure the same."""
    trees: dict[str, Tree | None] = {}
    for item in form.items:
        if not isinstance(item, Quantity) or item.unit in trees or form.either:
            return None
        first = next(iter(trees), item.unit)
        trees[item.unit] = convert(item.tree, item.unit, first)
    values = [tree for tree in trees.values() if tree is not None]
    return Quantity(("add", *values), first) if len(values) == len(trees) else None


def _vector(form: Form, size: int) -> Form:
    """2i - j as (2, -1); other forms as they are."""
    if not isinstance(form, Quantity):
        return form
    tree, axes = substitute(form.tree, _UNIT_VECTORS), _AXES[:size]
    parts = [substitute(tree, {n: number(n == name) for n in _AXES}) for name in axes]
    total = ("add", *(("multiply", p, ("variable", n)) for p, n in zip(parts, axes, strict=True)))
    if not variables(tree).intersection(_AXES) or not Evaluator().equal(tree, total):
        return form
    return Ordered("(", ")", tuple(map(Quantity, parts)))


def _flat(form: Ordered) -> Ordered:
    """A column of a matrix as a tuple."""
    rows = [row.items for row in form.items if isinstance(row, Ordered) and len(row.items) == 1]
    if form.left != "matrix" or len(rows) < max(2, len(form.items)):
        return form
    return Ordered("(", ")", tuple(row[0] for row in rows))
