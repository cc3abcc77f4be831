"""Decide whether the answer of a response equals the gold, shape by shape, and name the rule.

A wrong answer that passes is worse than a right one that is refused: a text that cannot be read
equals only itself. Guards bound the lengths of answers, sizes of numbers and operations.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, islice, permutations, product
from typing import NamedTuple

from evals.errors import EvalsError
from evals.math.final_answers import TEXT, Gold, extract, trim
from evals.math.formulas import Tree, choose_signs, has, number, substitute, variables
from evals.math.notation import MAX_LENGTH, MODULO, TooLarge, Unreadable, plain, tokens
from evals.math.numbers import Evaluator, Undefined, Value
from evals.math.shapes import (
    Form,
    Ordered,
    Quantity,
    Relation,
    Several,
    Unread,
    Words,
    alike,
    is_numeric,
    map_trees,
    shape,
    unread_part,
)
from evals.math.units import convert, measure, units_differ
from evals.math.words import changes, in_digits, is_condition, same_words
from evals.recipes import Template

SHOWN = 2_000
"""Most characters of an extracted answer in a verdict."""
MAX_VALUES = 64

_OPTION = r"(?:(?:[Oo]ption|[Cc]hoice|[Gg]raph|[Ff]igure|[Pp]lot)\s+)?"
_CHOICE = re.compile(
    rf"\s*{_OPTION}(?:\\(?:text|math|bold)\w*\s*\{{\s*)?{_OPTION}(?:\}}\s*)?"
    r"(?:\(([A-J])\)|([A-J])(?=[.:)}]|\s*$))[.:)]?\s*\}?[.:,]?(?:\\?[ ~]|\\quad)*(.*)",
    re.DOTALL,
)
"""The letter of a choice, and its content."""
_DESCRIBED = re.compile(r"(?:\\text|[\s~${}.]|(?!(?:and|or)\b)[A-Za-z]{2,}+|\d++|a\b)*+")
"""The words or the number that may follow the letter of a choice."""
_THOUSANDS = re.compile(
    r"(?<![\d.,/])\d{1,3}(?:(?:,(?:\\!)?|\\[,:; ]|[~ ])\d{3})+(?![\d,/]|\s*,\s*\d)"
)
_ROUGHLY = (
    r"(?<![A-Za-z\\])(?:about|approximately|approx\.?|around|roughly|nearly|almost)(?![A-Za-z])"
)
_OR_ROUGHLY = re.compile(rf"(?:\bor\s+|\()\s*(?:\\text\s*\{{\s*)?{_ROUGHLY}([^()]*)\)?")
_MONEY = re.compile(r"(?<!\S)\\?\$\s*(\d[\d,.]*+)(?![^$]*\$)")
_LOG = re.compile(r"\\?\blog(?!\s*_|[a-z])")
_LOG_10 = re.compile(r"log\s*_\s*\{?10(?!\d)|\blg(?![a-z])")
_CONSTANT = re.compile(r"[A-DKkc](?:_?\d)?")
_NAME = re.compile(r"([^_'(]+)(_[^'(]*)?('*)(?:\((.*)\))?")
"""A name, f_1'(x): its letters, subscript, primes and argument."""
_AMOUNT = re.compile(r"[-+\d.,/ ]*\d\s+(?:[A-Za-z]{2}|[A-Za-z]/[A-Za-z])")
"""A number, a space and a unit, 12 cm or 3 m/s, where 2ab is a product."""


class Match(NamedTuple):
    """Whether an answer is the gold, the rule that decided, and the answer of a response."""

    correct: bool
    reason: str
    extracted: str | None = None


def grade(gold: Gold, response: str, template: Template | None = None) -> Match:
    """Return the verdict on the marked answer of a response. template: of the prompt."""
    answer, rule = extract(response, template)
    if answer is None:
        return Match(False, rule)
    return compare(gold, answer)._replace(extracted=answer[:SHOWN])


def compare(gold: Gold, answer: str) -> Match:
    """Return whether an answer equals the gold, and by which rule."""
    answer = plain(answer)
    lettered = _CHOICE.fullmatch(answer)
    first, second, after = lettered.groups() if lettered else ("", "", "")
    if gold.kind == "choice":
        described = _DESCRIBED.fullmatch(after) and not changes(after) and is_condition([after])
        return Match(bool(described) and gold.text == (first or second), "choice")
    if gold.kind == "text":
        return Match(any(same_words(gold.text, text) for text in (answer, after)), "text")
    if (words := TEXT.fullmatch(answer)) and words[1].lower() == gold.text.lower():
        return Match(True, "text")
    try:
        return _Comparison(gold).compare(answer, after)
    except TooLarge as error:
        return Match(False, str(error))


def check_gold(gold: Gold) -> None:
    """Raise EvalsError for a gold that cannot be read: no answer would equal it."""
    if gold.kind == "value":
        try:
            reason = unread_part(_gold_form(gold.text)[0]) if gold.text else "no text"
        except (Unreadable, TooLarge) as error:
            reason = str(error) or "no formula"
        if reason is not None:
            raise EvalsError(f"the right answer {gold.text[:80]!r} cannot be read: {reason[:80]}")


def has_text(gold: str, response: str) -> bool:
    """Return whether the marked answer of a response is the text of an unreadable gold."""
    answer = extract(response).text
    if answer is None or _spelling(answer) == _spelling(gold):
        return answer is not None
    word = _unknown(gold)  # as 7 zorps and 14/2 zorps
    gold_text, reply = (re.sub(rf"\b{word}\b", "items", text) for text in (gold, answer))
    return word == _unknown(answer) != "" and compare(Gold(gold_text), reply).correct


def _unknown(text: str) -> str:
    """The unknown word that makes an answer unreadable, or ""."""
    try:
        word = unread_part(shape(tokens(in_digits(text), True))) or ""
    except (Unreadable, TooLarge):
        return ""
    return word if re.fullmatch("[a-z]{3,}", word) else ""


def _spelling(text: str) -> str:
    """A text with one spelling for each sign; without spaces where it is no formula."""
    try:
        spelled = " ".join(token.text for token in tokens(trim(text)))
        return re.sub(r"\{ (\S+) \}", r"\1", spelled)
    except (Unreadable, TooLarge):
        return "".join(text.split())


@lru_cache(maxsize=1024)
def _gold_form(text: str) -> tuple[Form, str]:
    spelled, words = in_digits(text), False
    if _AMOUNT.match(spelled):
        amount = shape(tokens(spelled, True))
        words = isinstance(amount, Quantity) and measure(amount.unit)[0] != ""
    parts = tokens(spelled, words)
    return shape(parts), " ".join(token.text for token in parts)


class _Comparison:
    """One comparison with a gold, and the work that it may take."""

    def __init__(self, gold: Gold) -> None:
        self.gold = gold
        self.signs = False
        self.evaluator = Evaluator(positive=gold.measured)

    def compare(self, answer: str, after_letter: str) -> Match:
        target, text = _gold_form(self.gold.text)
        unit = (isinstance(target, Quantity) and target.unit) or self.gold.unit
        if (money := _MONEY.search(answer)) and units_differ(unit, "dollar"):
            answer = rf"{money[1]}\text{{ dollars}}"
        self.signs = re.search(r"\\(?:pm|mp)|[±∓]", self.gold.text + answer) is not None
        readings = [self.plain(part) for part in (after_letter, answer) if part]
        if not answer.lstrip().startswith(("(", "[", r"\{")):
            bare = partial(_THOUSANDS.sub, lambda match: re.sub(r"\D", "", match[0]))
            readings += map(bare, readings[:])
        match = Match(False, "value")
        for reading in dict.fromkeys(readings):
            result = self.read(target, text, reading) or match
            if result.correct:
                return result
            match = match if match.reason.startswith("unreadable") else result
        return match

    def read(self, target: Form, text: str, reading: str) -> Match | None:
        """Compare one way to read an answer; words are units first, then products of letters."""
        words, match = is_numeric(target), None
        try:
            sequence = tokens(reading, words)
            if " ".join(token.text for token in sequence) == text:
                return Match(True, "same text")
            forms = [shape(sequence)] if sequence else []
            no_value = forms and isinstance(forms[0], Words | Unread | Relation)
            if words and no_value and not changes(reading):
                forms.append(shape(tokens(reading)))
            for form in forms:
                part = unread_part(form)
                reason = f"unreadable: {str(part)[:80]}"
                result = self.match(target, form) if part is None else Match(False, reason)
                if result.correct:
                    return result
                match = match or result
        except Unreadable as error:
            match = match or Match(False, f"unreadable: {error}")
        return match

    def plain(self, answer: str) -> str:
        """The answer with numbers in digits, and \\approx before a value that is only rounded."""
        if "mod" in self.gold.text:
            answer = MODULO.sub(r"\\pmod ", answer)
        if _LOG_10.search(self.gold.text):
            answer = _LOG.sub(r"\\log_{10}", answer)
        answer = _OR_ROUGHLY.sub(r"\\approx \1", in_digits(answer[: MAX_LENGTH + 1]))
        return re.sub(_ROUGHLY, " ", answer) if self.gold.measured else answer

    def same(self, gold: Form, answer: Form) -> bool:
        return self.match(gold, answer).correct

    def match(self, gold: Form, answer: Form) -> Match:
        gold, answer = alike(gold, answer)
        labelled, labels = _by_label(gold), _by_label(answer)
        if shared := labelled.keys() & labels.keys():
            same = all(self.same(labelled[label], labels[label]) for label in shared)
            if not same or labelled.keys() == labels.keys():
                return Match(same, "list")
        golds, values = _by_name(gold), _by_name(answer)
        if golds and values:
            same_names = golds.keys() == values.keys()
            return Match(same_names and all(self.same(golds[n], values[n]) for n in golds), "list")
        if isinstance(gold, Ordered) and values:
            answer = _point(values)
        elif golds and (isinstance(answer, Several) or getattr(answer, "left", "") == "("):
            items = getattr(answer, "items", ())
            if not any(isinstance(item, Relation) for item in items):
                gold, answer = _point(golds), Ordered("(", ")", items)
        if any(isinstance(f, Several) or len(self.variants(f)) > 1 for f in (gold, answer)):
            return Match(self.same_values(gold, answer), "list")
        if isinstance(gold, Relation) or isinstance(answer, Relation):
            return self.match_relation(gold, answer)
        if isinstance(gold, Quantity) and isinstance(answer, Quantity):
            return self.match_quantity(gold, answer)
        if isinstance(gold, Ordered) and isinstance(answer, Ordered):
            rule = "matrix" if gold.left == "matrix" else "tuple or interval"
            return Match(self.same_ordered(gold, answer), rule)
        return Match(isinstance(gold, Words) and gold == answer, "shape")

    def same_ordered(self, gold: Ordered, answer: Ordered) -> bool:
        if gold.left == "matrix" and answer.left in "([":
            rows = (i.items if isinstance(i, Ordered) else (i,) for i in answer.items)
            answer = replace(gold, items=tuple(Ordered("row", "row", row) for row in rows))
        brackets = (gold.left, gold.right, len(gold.items))
        return brackets == (answer.left, answer.right, len(answer.items)) and all(
            map(self.same, gold.items, answer.items)
        )

    def same_values(self, gold: Form, answer: Form) -> bool:
        """Whether the answer has the gold's values alone, in any order but for p = 3, q = 4."""
        by_name = _by_name(answer)
        if by_name and len({re.sub(r"[\d_{}]+$", "", name) for name in by_name}) == 1:
            answer = Several(tuple(by_name.values()))  # x_1 = 3, x_2 = 5
        elif by_name:
            items = gold.items if isinstance(gold, Several) else ()
            if items and not any(isinstance(item, Relation | Ordered) for item in items):
                values = _point(by_name).items
                return len(items) == len(values) and all(map(self.same, items, values))
        for linked in (False, True):
            golds, answers = self.variants(gold, linked), self.variants(answer, linked)
            if max(len(golds), len(answers)) > MAX_VALUES:
                raise TooLarge("guard: length")
            rows = [[self.same(one, other) for other in answers] for one in golds]
            repeated = [row for one, row in zip(golds, rows, strict=True) if golds.count(one) > 1]
            complete = all(map(any, (*rows, *zip(*rows, strict=True))))
            complete = complete and all(sum(row) == len(repeated) for row in repeated)
            if complete and (len(golds) == len(answers) or _spells_one(golds, answers)):
                return True
        return False

    def variants(self, form: Form, linked: bool = True) -> list[Form]:
        """The forms that a form with \\pm stands for. linked: all signs of a tuple are equal."""
        if isinstance(form, Several):
            return [part for item in form.items for part in self.variants(item, linked)]
        if not self.signs:
            return [form]
        plus, minus = (map_trees(form, partial(choose_signs, sign=sign)) for sign in (1, -1))
        if isinstance(form, Ordered) and not linked and plus != minus:
            choices = product(*(self.variants(item, linked) for item in form.items))
            return [replace(form, items=items) for items in islice(choices, MAX_VALUES + 1)]
        return [plus, minus] if plus != minus else [form]

    def match_relation(self, gold: Form, answer: Form) -> Match:
        value = _named_value(gold) if isinstance(gold, Relation) else gold
        matches: Iterable[Match] = ()
        if isinstance(gold, Relation) and isinstance(answer, Relation):
            answer = _rename_argument(gold, answer)
        if not isinstance(answer, Relation):
            if value is not None and isinstance(gold, Relation) and any(gold.names):
                return self.match(value, answer)
        elif isinstance(gold, Words):
            return Match(gold in answer.sides, "equation")
        elif isinstance(gold, Relation) and self.proportional(gold, answer):
            return Match(True, "equation")
        elif value is not None and (
            not isinstance(gold, Relation)
            or any(_same_name(gold.names[0], name) for name in answer.names[:-1])
        ):
            matches = (self.match(value, side) for side in self.answer_sides(answer))
        elif isinstance(gold, Relation) and gold.signs == answer.signs and "=" not in gold.signs:
            orders = [answer.sides] + [answer.sides[::-1]] * (gold.signs == ("!=",))
            same = any(all(map(self.same, gold.sides, sides)) for sides in orders)
            return Match(same, "equation")
        return next((match for match in matches if match.correct), Match(False, "equation"))

    def answer_sides(self, relation: Relation) -> Iterator[Form]:
        """The sides of an equation that may be its answer: the last one, and the exact value before
        an \\approx, unless the gold is a decimal. x^2 - 1 = 0 has none."""
        last = _named_value(relation)
        first, before = relation.sides[0], relation.sides[-2]
        named = relation.names[0] or (isinstance(first, Quantity) and not variables(first.tree))
        if last is None or (last == Quantity(number(0)) and not named):
            return
        yield last
        is_exact = relation.signs[-1] == "~=" and "." not in self.gold.text
        is_exact = is_exact and not relation.names[-2]
        if isinstance(before, Quantity) and isinstance(last, Quantity):
            is_exact = is_exact or units_differ(before.unit, last.unit)
            if is_exact and self.agree(before, last):
                yield before

    def agree(self, exact: Quantity, rounded: Quantity) -> bool:
        """Whether the second can be the first, rounded to the digits that it is written with."""
        tree = rounded.tree
        if units_differ(exact.unit, rounded.unit):
            tree = convert(tree, rounded.unit, exact.unit) or ("variable", "")
        names = variables(exact.tree)
        point: dict[str, Value] = dict.fromkeys(names, Fraction(3, 2))
        if names != variables(tree):
            return False
        try:
            value = self.evaluator.value(tree, point)
            target = complex(self.evaluator.value(exact.tree, point))
            gap = abs(target - complex(value))
        except (Undefined, OverflowError):
            return False
        decimals = value if isinstance(value, Fraction) and not names else Fraction(0)
        step = next((10**-d for d in range(9) if (decimals * 10**d).denominator == 1), 0)
        return gap <= max(abs(target) / 500, step if step < 1 else 0.5)

    def proportional(self, gold: Relation, answer: Relation) -> bool:
        """Whether two equations are multiples of each other."""
        one, other = _difference(gold), _difference(answer)
        if one is None or other is None:
            return False
        names = sorted(variables(one, other))
        for start in (Fraction(7, 5), Fraction(23, 9), Fraction(4)):
            values = {n: number(start + place * start**2 / 3) for place, n in enumerate(names)}
            at_one, at_other = substitute(one, values), substitute(other, values)
            try:
                scales = [self.evaluator.value(tree, {}) for tree in (at_one, at_other)]
                if all(isinstance(scale, Fraction) for scale in scales):
                    at_one, at_other = (("number", scale) for scale in scales)
                if all(scales):
                    products = ("multiply", one, at_other), ("multiply", other, at_one)
                    return bool(self.evaluator.equal(*products))
            except Undefined:
                continue
        return False

    def match_quantity(self, gold: Quantity, answer: Quantity) -> Match:
        unit, answer_unit = gold.unit or self.gold.unit, answer.unit
        target, tree = gold.tree, answer.tree
        if "/" not in unit and (not gold.unit or measure(unit)[0] == "dollar1"):
            answer_unit = answer_unit.partition("/")[0]
        if unit == "degree" and not answer_unit and has(tree, "pi"):
            answer_unit = "radian"
        if answer_unit == "percent":
            tree, answer_unit = ("percent", tree), ""
        equal = self.evaluator.equal
        if unit == self.gold.unit == "percent" and not has(target, "percent"):
            tree = tree[1] if tree[0] == "percent" else tree
        elif unit == "percent":
            if equal(target, tree):
                return Match(True, "value")
            target, tree = (t[1] if t[0] == "percent" else t for t in (target, tree))
        elif unit[:4] == answer_unit[:4] == "mod ":
            return Match(unit == answer_unit and self.congruent(target, tree, unit[4:]), "modulus")
        elif answer_unit == "degree" and unit in ("celsius", "fahrenheit"):
            pass
        elif units_differ(unit, answer_unit):
            turned = convert(tree, answer_unit, unit)
            return Match(turned is not None and bool(equal(target, turned)), "unit")
        trees = chain([tree], _rename_constants(target, tree))
        return Match(target == tree or any(equal(target, other) for other in trees), "value")

    def congruent(self, one: Tree, other: Tree, modulus: str) -> bool:
        """Whether two values are in the same class of whole numbers, or equal."""
        if self.evaluator.equal(one, other):
            return True
        if not modulus.isdigit() or not int(modulus) or variables(one, other):
            return False
        gap = self.evaluator.value(("add", one, ("negate", other)), {})
        return isinstance(gap, Fraction) and gap % int(modulus) == 0


def _spells_one(targets: list[Form], values: list[Form]) -> bool:
    """Whether lists of different lengths may say the same: 1/2 or 0.5; both angles are 90°."""
    if len(values) < len(targets):
        return any(isinstance(item, Relation) for item in targets)
    return len(targets) == 1 and all(values.count(value) == 1 for value in values)


def _same_name(gold: str, answer: str) -> bool:
    """Whether names may be of one thing: m and m_max, f and f(x); not f(x) and f'(x)."""
    parts = zip(_name_parts(gold), _name_parts(answer), (False, True) * 2, strict=True)
    return gold != "" and all(a == b or (free and not (a and b)) for a, b, free in parts)


def _name_parts(name: str) -> tuple[str, ...]:
    match = _NAME.fullmatch(re.sub(r"[{}\s]", "", name))
    return match.groups("") if match else (name, "", "", "")


def _rename_argument(gold: Relation, answer: Relation) -> Relation:
    """The answer f(t) = t + 1 as f(x) = x + 1, if so the gold is written."""
    one, other = (_name_parts(relation.names[0])[3] for relation in (gold, answer))
    if not (one.islower() and other.islower() and len(one) == len(other) == 1):
        return answer
    swapped = {one: ("variable", other), other: ("variable", one)}
    names = (answer.names[0].replace(f"({other})", f"({one})"), *answer.names[1:])
    sides = tuple(map_trees(side, partial(substitute, trees=swapped)) for side in answer.sides)
    return replace(answer, sides=sides, names=names)


def _named_value(relation: Relation) -> Form | None:
    """The value that an equation gives: the last side, or the first of 5 = x."""
    if set(relation.signs) - {"=", "~="}:
        return None
    if len(relation.sides) == 2 and relation.names[1] and not relation.names[0]:
        return relation.sides[0]
    return relation.sides[-1]


def _by_name(form: Form) -> dict[str, Form] | None:
    """The values by name of (x, y) = (2, 4), and of x=2, y=4; None for minimum and maximum."""
    if isinstance(form, Relation):
        first, last = form.sides[0], form.sides[-1]
        if not isinstance(first, Ordered) or not isinstance(last, Ordered):
            return None
        if last.left != "(" or form.signs[-1] != "=":
            return None
        trees = [getattr(item, "tree", ("", getattr(item, "text", ""))) for item in first.items]
        names, values = [str(tree[1]) for tree in trees], last.items
    elif isinstance(form, Several):
        items = [item for item in form.items if isinstance(item, Relation) and item.names[0]]
        names, values = [item.names[0] for item in items], tuple(item.sides[1] for item in items)
        equal = all(item.signs in (("=",), ("~=",)) for item in items)
        extremes = all(any(end in name for name in names) for end in ("max", "min"))
        if not equal or extremes or len(items) < max(2, len(form.items)):
            return None
    else:
        return None
    by_name = dict(zip((re.sub("[{}]", "", name) for name in names), values, strict=False))
    return by_name if len(by_name) == len(names) == len(values) else None


def _by_label(form: Form) -> dict[str, Form]:
    """The values by the counted things, of 3 boys, 5 girls and of boys: 3, girls: 5, or by their
    conditions, if each has another: of 3 for n = 1, 4 for n = 2."""
    if isinstance(form, Several) and len({*form.conditions}) == len(form.items):
        return dict(zip(form.conditions, form.items, strict=False))
    by_label: dict[str, Form] = {}
    for item in form.items if isinstance(form, Several) else ():
        label, value = (item.unit, item) if isinstance(item, Quantity) else ("", item)
        if isinstance(item, Relation) and isinstance(item.sides[0], Words):
            label, value = item.names[0], item.sides[-1]
        if not label or measure(label)[0] or label in by_label:
            return {}
        by_label[label.lower().removesuffix("s")] = value
    return by_label if len(by_label) > 1 else {}


def _point(by_name: dict[str, Form]) -> Ordered:
    """The values in the order of their names: x before y, a_2 before a_10."""
    return Ordered("(", ")", tuple(by_name[name] for name in sorted(by_name, key=_order)))


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(n or 0), letters) for n, letters in re.findall(r"(\d+)|([A-Za-z]+)", name)]


def _difference(relation: Relation) -> Tree | None:
    trees = [side.tree for side in relation.sides if isinstance(side, Quantity) and not side.unit]
    if relation.signs != ("=",) or len(trees) != 2:
        return None
    return ("add", trees[0], ("negate", trees[1]))


def _rename_constants(gold: Tree, answer: Tree) -> Iterator[Tree]:
    """The answer with its free constants renamed to those of the gold, in every order."""
    gold_names, names = variables(gold), variables(answer)
    if gold[0] == "multiply" and gold[1][0] == "number":
        return  # 12cm, which 12km is not
    free = sorted(name for name in gold_names if name[0] in "cC" and _CONSTANT.fullmatch(name))
    bound = gold_names - set(free)
    constants = sorted(name for name in names - bound if _CONSTANT.fullmatch(name))
    if bound and 0 < len(free) == len(constants) <= 4 and names - bound == set(constants):
        for order in permutations(("variable", name) for name in free):
            yield substitute(answer, dict(zip(constants, order, strict=True)))
