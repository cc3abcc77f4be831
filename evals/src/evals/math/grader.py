"""Decide whether the answer of a response is the gold, shape by shape, and name the rule.

A wrong answer that passes is worse than a right one that is refused: what cannot be read equals
nothing but itself. No comparison takes long: guards bound the length of an answer, the size of its
numbers and the number of operations.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import islice, permutations, product

from evals.math.answers import Gold, extract
from evals.math.formulas import Tree, has, renamed, signed, variables
from evals.math.notation import TooLarge, Unreadable, tokens
from evals.math.numbers import Evaluator, Undefined, Value, close, points
from evals.math.shapes import (
    Form,
    Ordered,
    Quantity,
    Relation,
    Several,
    Words,
    mapped,
    numeric,
    shape,
)
from evals.math.units import converted, same_words, units_differ
from evals.recipes import Template

SHOWN = 2_000
"""Characters of an extracted answer in a verdict."""
MAX_VALUES = 64
"""Values of one answer."""

_OPTION = r"(?:(?:[Oo]ption|[Cc]hoice|[Gg]raph|[Ff]igure|[Pp]lot)\s+)?"
_CHOICE = re.compile(
    rf"\s*{_OPTION}(?:\\(?:text\w*|mathrm|mathbf)\s*\{{\s*)?{_OPTION}"
    r"(?:\(([A-E])\)|([A-E])(?=[.:)}]|\s*$))[.:)]?\s*\}?[.:,]?(?:\\?[ ~]|\\quad)*(.*)",
    re.DOTALL,
)
"""The letter of a choice, and what it stands for."""
_THOUSANDS = re.compile(r"(?<![\d.,/])\d{1,3}(?:(?:,\s?|\\,|\\ |~| )\d{3})+(?![\d,/]|\s*,\s*\d)")
_MONEY = re.compile(r"(?<!\S)\\?\$\s*(\d[\d,.]*)(?![^$]*\$)")
_DECIMAL = re.compile(r"-?(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?", re.IGNORECASE)
_CONSTANT = re.compile(r"[A-DKkc](?:_?\d)?")


@dataclass(frozen=True)
class MathVerdict:
    """extracted: the answer that was found, if any. reason: the rule that decided."""

    correct: bool
    extracted: str | None
    reason: str


def grade(gold: Gold, response: str, template: Template | None = None) -> MathVerdict:
    """Return the verdict on the marked answer of a response. template: what it answers."""
    extraction = extract(response, template)
    if extraction.text is None:
        return MathVerdict(False, None, extraction.rule)
    correct, reason = compare(gold, extraction.text)
    return MathVerdict(correct, extraction.text[:SHOWN], reason)


def compare(gold: Gold, answer: str) -> tuple[bool, str]:
    """Whether an answer is the gold, and the name of the rule that decided."""
    lettered = _CHOICE.fullmatch(answer)
    first, second, after = lettered.groups() if lettered else ("", "", "")
    if gold.kind == "choice":
        return gold.text == (first or second), "choice"
    if gold.kind == "text":
        return any(same_words(gold.text, text) for text in (answer, after)), "text"
    try:
        return _Comparison(gold).compare(answer, after)
    except TooLarge as error:
        return False, str(error)


@lru_cache(maxsize=1024)
def _gold_form(text: str) -> tuple[Form, str]:
    parts = tokens(text)
    return shape(parts), " ".join(token.text for token in parts)


class _Comparison:
    """One comparison: what is asked for, and the last rule that was used."""

    def __init__(self, gold: Gold) -> None:
        self.gold = gold
        self.rule = "value"
        self.signs = False
        self.evaluator = Evaluator()

    def compare(self, answer: str, after_letter: str) -> tuple[bool, str]:
        wanted, text = _gold_form(self.gold.text)
        words = numeric(wanted)
        asked = (isinstance(wanted, Quantity) and wanted.unit) or self.gold.unit
        if (money := _MONEY.search(answer)) and units_differ(asked, "dollar"):
            answer = rf"{money[1]}\text{{ dollars}}"
        self.signs = re.search(r"\\(?:pm|mp)|[±∓]", self.gold.text + answer) is not None
        readings = [after_letter, answer] if after_letter else [answer]
        if not answer.lstrip().startswith(("(", "[", "\\{")):
            bare = partial(_THOUSANDS.sub, lambda match: re.sub(r"\D", "", match[0]))
            readings += map(bare, readings[:])
        for reading in dict.fromkeys(readings):
            try:
                found = tokens(reading, words)
                if " ".join(token.text for token in found) == text:
                    return True, "same text"
                forms = [shape(found)] if found else []
                if words and forms and isinstance(forms[0], Words | Relation):
                    forms.append(shape(tokens(reading)))
                if any(self.same(wanted, form) for form in forms):
                    return True, self.rule
            except Unreadable:
                continue
        return False, self.rule

    def same(self, gold: Form, answer: Form) -> bool:
        if isinstance(gold, Ordered) and isinstance(answer, Several | Relation):
            answer = _point(answer) or answer
        if any(isinstance(f, Several) or len(self.variants(f)) > 1 for f in (gold, answer)):
            return self.same_values(gold, answer)
        if isinstance(gold, Relation) or isinstance(answer, Relation):
            return self.same_relation(gold, answer)
        if isinstance(gold, Quantity) and isinstance(answer, Quantity):
            return self.same_quantity(gold, answer)
        if isinstance(gold, Ordered) and isinstance(answer, Ordered):
            return self.same_ordered(gold, answer)
        self.rule = "shape"
        return isinstance(gold, Words) and gold == answer

    def same_ordered(self, gold: Ordered, answer: Ordered) -> bool:
        self.rule = "matrix" if gold.left == "matrix" else "tuple or interval"
        if gold.left == "matrix" and answer.left in "([":
            rows = (i.items if isinstance(i, Ordered) else (i,) for i in answer.items)
            answer = replace(gold, items=tuple(Ordered("row", "row", row) for row in rows))
        alike = (gold.left, gold.right, len(gold.items))
        return alike == (answer.left, answer.right, len(answer.items)) and all(
            map(self.same, gold.items, answer.items)
        )

    def same_values(self, gold: Form, answer: Form) -> bool:
        """Every value that is asked for, in any order, and no other; p = 3, q = 4 in this order."""
        if isinstance(answer, Several | Relation) and (named := _point(answer)):
            items = gold.items if isinstance(gold, Several) else ()
            if items and not any(isinstance(item, Relation | Ordered) for item in items):
                self.rule = "list"
                return len(items) == len(named.items) and all(map(self.same, items, named.items))
        for linked in (False, True):
            wanted, found = self.variants(gold, linked), self.variants(answer, linked)
            if max(len(wanted), len(found)) > MAX_VALUES:
                raise TooLarge("guard: length")
            rows = [[self.same(item, one) for one in found] for item in wanted]
            self.rule = "list"
            repeated = [
                row for item, row in zip(wanted, rows, strict=True) if wanted.count(item) > 1
            ]
            if (
                all(map(any, rows))
                and all(map(any, zip(*rows, strict=True)))
                and all(sum(row) == len(repeated) for row in repeated)
            ):
                return True
        return False

    def variants(self, form: Form, linked: bool = True) -> list[Form]:
        """The forms that the signs \\pm stand for; `linked`: all signs of a tuple go together."""
        if isinstance(form, Several):
            return [found for item in form.items for found in self.variants(item, linked)]
        if not self.signs:
            return [form]
        plus, minus = (mapped(form, partial(signed, sign=sign)) for sign in (1, -1))
        if isinstance(form, Ordered) and not linked and plus != minus:
            choices = product(*(self.variants(item, linked) for item in form.items))
            return [replace(form, items=items) for items in islice(choices, MAX_VALUES + 1)]
        return [plus, minus] if plus != minus else [form]

    def same_relation(self, gold: Form, answer: Form) -> bool:
        if not isinstance(gold, Relation):
            assert isinstance(answer, Relation)
            if isinstance(gold, Words):
                return gold in answer.sides
            return any(self.same(gold, side) for side in self.said(answer))
        self.rule = "equation"
        value = _named_value(gold)
        if not isinstance(answer, Relation):
            return value is not None and any(gold.names) and self.same(value, answer)
        if self.proportional(gold, answer):
            return True
        named = gold.names[0] and any(name[:1] == gold.names[0][0] for name in answer.names[:-1])
        if value is not None and named:
            return any(self.same(value, side) for side in self.said(answer))
        return (gold.signs == answer.signs and "=" not in gold.signs) and all(
            map(self.same, gold.sides, answer.sides)
        )

    def said(self, relation: Relation) -> Iterator[Form]:
        """The sides that an equation may offer as its answer.

        x^2 - 1 = 0 offers none: its right side is no value of anything. What is only about equal
        to a value may be the exact one before the sign; not for a decimal that is asked for.
        """
        last = _named_value(relation)
        first, before = relation.sides[0], relation.sides[-2]
        if last is None:
            return
        constant = isinstance(first, Quantity) and not variables(first.tree)
        if last == Quantity(("number", Fraction(0))) and not relation.names[0] and not constant:
            return
        yield last
        exact = relation.signs[-1] == "~=" and "." not in self.gold.text
        if exact and not relation.names[-2]:
            yield before
        units = [side.unit for side in (before, last) if isinstance(side, Quantity)]
        if len(units) == 2 and units_differ(*units):
            yield before

    def proportional(self, gold: Relation, answer: Relation) -> bool:
        """Whether two equations are multiples of each other."""
        one, other = _difference(gold), _difference(answer)
        if one is None or other is None:
            return False
        ratios: list[Value] = []
        for point in points(variables(one) | variables(other), whole=False):
            try:
                value = self.evaluator.value
                ratios.append(value(one, point) / value(other, point))
            except (Undefined, ZeroDivisionError, OverflowError):
                continue
        return len(ratios) > 1 and all(ratio and close(ratio, ratios[0]) for ratio in ratios)

    def same_quantity(self, gold: Quantity, answer: Quantity) -> bool:
        unit, answer_unit = gold.unit or self.gold.unit, answer.unit
        wanted, tree = gold.tree, answer.tree
        self.rule = "value"
        if unit == "degree" and not answer_unit and has(tree, "pi"):
            answer_unit = "radian"
        if answer_unit == "percent":
            tree, answer_unit = ("percent", tree), ""
        if unit == "percent":
            wanted, tree = (t[1] if t[0] == "percent" else t for t in (wanted, tree))
        elif units_differ(unit, answer_unit) and (unit, answer_unit) != ("celsius", "degree"):
            self.rule = "unit"
            turned = converted(tree, answer_unit, unit)
            return turned is not None and bool(self.evaluator.equal(wanted, turned))
        equal = self.evaluator.equal
        if wanted == tree or equal(wanted, tree):
            return True
        if any(equal(wanted, other) for other in _respelled(wanted, tree)):
            return True
        if self.gold.measured and self.rounds_to_gold(tree):
            self.rule = "rounded"
            return True
        return False

    def rounds_to_gold(self, answer: Tree) -> bool:
        """Whether a written decimal has more digits than a gold of several, and rounds to it."""
        written = _DECIMAL.fullmatch(self.gold.text)
        if written is None or any(has(answer, name) for name in ("divide", "percent", "root")):
            return False
        step = Fraction(10) ** (int(written[3] or 0) - len(written[2] or ""))
        try:
            value = self.evaluator.value(answer, {})
        except Undefined:
            return False
        if not isinstance(value, Fraction) or step == 1 or len(written[1] + (written[2] or "")) < 2:
            return False
        steps, wanted = value / step, Fraction(self.gold.text) / step
        return (
            steps.denominator > 1
            and -Fraction(1, 2) <= abs(steps) - abs(wanted) < Fraction(1, 2)
            and steps * wanted > 0
        )


def _named_value(relation: Relation) -> Form | None:
    """What an equation says that something is: the last side, or the first of 5 = x."""
    if set(relation.signs) - {"=", "~="}:
        return None
    if len(relation.sides) == 2 and relation.names[1] and not relation.names[0]:
        return relation.sides[0]
    return relation.sides[-1]


def _point(form: Several | Relation) -> Ordered | None:
    """The point (2, 4) of (x, y) = (2, 4), and of x=2, y=4 that are no minimum and maximum."""
    if isinstance(form, Relation):
        first, last = form.sides[0], form.sides[-1]
        both = isinstance(first, Ordered) and isinstance(last, Ordered) and form.signs[-1] == "="
        return last if both and isinstance(last, Ordered) else None
    items = [item for item in form.items if isinstance(item, Relation) and item.names[0]]
    names = {item.names[0] for item in items}
    if len(names) < max(2, len(form.items)) or any(
        item.signs not in (("=",), ("~=",)) for item in items
    ):
        return None
    if any("max" in name for name in names) and any("min" in name for name in names):
        return None
    return Ordered("(", ")", tuple(item.sides[1] for item in items))


def _difference(relation: Relation) -> Tree | None:
    trees = [side.tree for side in relation.sides if isinstance(side, Quantity)]
    if relation.signs != ("=",) or len(trees) != 2:
        return None
    return ("add", trees[0], ("negate", trees[1]))


def _respelled(gold: Tree, answer: Tree) -> Iterator[Tree]:
    """The answer with its free constants called as in the gold, in every order."""
    names, used = variables(gold), variables(answer)
    wanted = sorted(name for name in names if name[0] in "cC" and _CONSTANT.fullmatch(name))
    others = names - set(wanted)
    constants = sorted(name for name in used - others if _CONSTANT.fullmatch(name))
    if others and 0 < len(wanted) == len(constants) <= 4 and used - others == set(constants):
        for order in permutations(wanted):
            yield renamed(answer, dict(zip(constants, order, strict=True)))
