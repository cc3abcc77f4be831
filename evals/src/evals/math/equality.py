"""Decide whether an answer is the gold, shape by shape, and name the rule that decided.

Values are compared by `numeric`. A formula that `expressions` cannot read goes to Math-Verify, one
value at a time, so that its merging of tuples, lists and intervals never comes into play.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from evals.math.formulas.forms import (
    Based,
    Bracketed,
    Form,
    Listing,
    Matrix,
    Ratio,
    Relation,
    Scalar,
    identity,
    quotient,
    shape,
)
from evals.math.formulas.guards import TooLarge, check_growth, check_length
from evals.math.formulas.named import derived, extremes, named_point, point, points, unnamed
from evals.math.formulas.notation import plain, without_thousands
from evals.math.formulas.relations import (
    between,
    equivalent,
    interval,
    is_name,
    named_value,
    punctured,
    renamed_argument,
    same_name,
    values_said,
)
from evals.math.formulas.signs import components, variants
from evals.math.formulas.units import choice, chosen, only_number, units_differ, without_unit
from evals.math.formulas.words import same_words
from evals.math.golds import Gold
from evals.math.quantities import compound
from evals.math.several import readings_of_count
from evals.math.values import rounds_to, same_value, squeezed

Symbolic: TypeAlias = Callable[[str, str], bool]
"""Math-Verify, or what stands for it: whether two formulas (gold, answer) are equal."""

_REMARK = re.compile(
    r"(?:\\text\{)?\s*\((?!\s*(?:base|mod|in base)\b)"
    r"(?=\s*or\b|[^()]*[a-z]{3})[^()]*[a-z ][^()]*\)\}?$"
)
"""Words in brackets after a value."""
_APPROXIMATELY = re.compile(
    r"\s*(?:\\text\{)?[\s,(]*(?:or\s+)?(?:approximately|about|roughly)\b.*$", re.DOTALL
)
"""A rounded value after the exact one."""
_AGAIN = re.compile(r",?\s*(?:\bi\.e\.|\bthat is,|\bwhich is|\bnamely)[,:]?\s*")
"""What is said again in other words: 2 hours, i.e. 120 minutes."""
_IMPLIES = re.compile(r"^.*(?:⟹|⇒|\\(?:implies|Rightarrow|Longrightarrow)(?![A-Za-z]))", re.DOTALL)
_SIGNS = re.compile(r"(?:\\(?:pm|mp)\s*){2}")
_MONEY = re.compile(r"\s*\\?\$\s*(\d[\d,.]*)")
_SPELLED = re.compile(r"(?<=\d)\s*\([a-z]+(?:[ -][a-z]+)*\)(?=\s)")
"""15 (fifteen) miles."""


@dataclass(frozen=True)
class Comparison:
    """equal: whether the answer is right. reason: the name of the rule that decided."""

    equal: bool
    reason: str


def compare(gold: Gold, answer: str, symbolic: Symbolic) -> Comparison:
    """Compare one extracted answer. `symbolic` may raise to hand the pair on."""
    try:
        check_length(answer)
        money = _MONEY.match(answer)
        if money and units_differ(gold.unit, "dollar"):
            answer = rf"{money.group(1)}\text{{ dollars}}"
        found = plain(answer)
        if not found or _SIGNS.search(found):
            return Comparison(False, "signs without a value" if found else "empty")
        if squeezed(found) == squeezed(plain(gold.text)):
            return Comparison(True, "same text")
        if gold.kind == "text":
            readings = (found, choice(found)[1], found[0] + found[1:].partition("(")[0])
            return Comparison(any(same_words(gold.text, text) for text in readings), "text")
        if gold.kind == "choice":
            return Comparison(chosen(found) == gold.text, "choice")
        return _Comparer(gold, symbolic).compare(found)
    except TooLarge as error:
        return Comparison(False, str(error))
    except RecursionError:
        return Comparison(False, "guard: nesting")


class _Comparer:
    """One comparison: what is asked for, and the last rule that was used."""

    def __init__(self, gold: Gold, symbolic: Symbolic) -> None:
        self.gold = gold
        self.symbolic = symbolic
        self.rule = "value"
        self.postponed = False

    def compare(self, answer: str) -> Comparison:
        wanted = shape(plain(self.gold.text))
        letter, rest = choice(answer)
        asked = self.symbolic
        texts = (
            *((rest,) if letter and rest else ()),
            answer,
            only_number(answer) or answer,
            _REMARK.sub("", answer) or answer,
            _SPELLED.sub("", answer),
            *_AGAIN.split(answer),
            _APPROXIMATELY.sub("", answer) or answer,
            *readings_of_count(answer),
            _IMPLIES.sub("", answer),
            *between(answer),
            *compound(answer),
        )
        readings = dict.fromkeys(
            reading for text in dict.fromkeys(texts) for reading in (text, without_thousands(text))
        )
        # Every reading is tried by the own rules before Math-Verify is asked about any.
        self.symbolic = self.postpone
        for _ in range(2):
            for reading in readings:
                if self.same(wanted, shape(reading)):
                    return Comparison(True, self.rule)
            if not self.postponed:
                break
            self.symbolic = asked
        return Comparison(False, self.rule)

    def postpone(self, gold: str, answer: str) -> bool:
        self.postponed = True
        return False

    def same(self, gold: Form, answer: Form) -> bool:
        if isinstance(answer, Listing):
            if isinstance(gold, Bracketed):
                answer = point(answer) or punctured(answer) or answer
            else:
                answer = points(answer) or punctured(answer) or derived(answer) or answer
        elif not (isinstance(gold, Listing) and unnamed(gold)) and (spot := named_point(answer)):
            answer = spot
        if isinstance(gold, Relation) and (found := interval(gold)) is not None:
            gold = found
        if isinstance(answer, Relation) and (found := interval(answer)) is not None:
            answer = found
        if isinstance(answer, Ratio) and self.gold.ratio and isinstance(gold, Scalar):
            answer = quotient(answer)
        if _several(gold) or _several(answer):
            return self.same_values(gold, answer)
        if isinstance(gold, Relation) or isinstance(answer, Relation):
            return self.same_relation(gold, answer)
        if isinstance(gold, Scalar) and isinstance(answer, Scalar):
            return self.same_value(gold.text, answer.text)
        if isinstance(gold, Bracketed) and isinstance(answer, Bracketed):
            self.rule = "tuple or interval"
            return (
                (gold.left, gold.right, len(gold.items))
                == (answer.left, answer.right, len(answer.items))
            ) and all(map(self.same, gold.items, answer.items))
        if isinstance(gold, Matrix):
            return self.same_matrix(gold, answer)
        if isinstance(gold, Based) or isinstance(answer, Based):
            self.rule = "base"
            return _based(gold) == _based(answer)
        self.rule = "ratio" if isinstance(gold, Ratio) or isinstance(answer, Ratio) else "shape"
        if isinstance(gold, Ratio) and isinstance(answer, Ratio):
            return len(gold.parts) == len(answer.parts) and all(
                map(self.same_value, gold.parts, answer.parts)
            )
        return False

    def same_values(self, gold: Form, answer: Form) -> bool:
        """Every value that is asked for, in any order, and no other; p = 3, q = 4 in this order."""
        named = point(answer) if isinstance(answer, Listing) else named_point(answer)
        ordered = named is not None and not extremes(answer)
        if named is not None and ordered and isinstance(gold, Listing) and unnamed(gold):
            self.rule = "list"
            return len(gold.items) == len(named.items) and all(
                map(self.same, gold.items, named.items)
            )
        for linked in (False, True):
            wanted, found = variants(gold, linked), variants(answer, linked)
            if len(found) > 64:
                raise TooLarge("guard: length")
            if (
                all(any(self.same(item, one) for one in found) for item in wanted)
                and all(any(self.same(item, one) for item in wanted) for one in found)
                and self.as_often(wanted, found)
            ):
                self.rule = "list"
                return True
        self.rule = "list"
        return False

    def as_often(self, wanted: list[Form], found: list[Form]) -> bool:
        """Whether what the gold has several times is there as often."""
        twice = [item for item in set(wanted) if wanted.count(item) > 1]
        return all(
            sum(self.same(item, one) for one in found) == wanted.count(item) for item in twice
        )

    def same_relation(self, gold: Form, answer: Form) -> bool:
        if not isinstance(gold, Relation):
            assert isinstance(answer, Relation)
            if isinstance(gold, Scalar):
                answer = renamed_argument(gold, answer)
            decimal = isinstance(gold, Scalar) and re.fullmatch(r"-?\d*\.\d+", gold.text)
            offered = values_said(answer, rounds=not decimal)
            sides = answer.sides if isinstance(gold, Based) else offered
            return any(self.same(gold, shape(side)) for side in sides)
        if not isinstance(answer, Relation):
            said = named_value(gold)
            if said is None or not (is_name(gold.sides[0]) or is_name(gold.sides[-1])):
                self.rule = "equation"
                return False
            return self.same(shape(said), answer)
        answer = renamed_argument(gold, answer)
        if equivalent(gold, answer):
            self.rule = "equation"
            return True
        said = named_value(gold)
        names = [side for side in answer.sides[:-1] if is_name(side)]
        if (
            said is not None
            and is_name(gold.sides[0])
            and any(same_name(gold.sides[0], name) or name.startswith("\\text") for name in names)
        ):
            return any(self.same(shape(said), shape(side)) for side in values_said(answer))
        self.rule = "equation"
        return (gold.signs == answer.signs and "=" not in gold.signs) and all(
            map(self.same_value, gold.sides, answer.sides)
        )

    def same_matrix(self, gold: Matrix, answer: Form) -> bool:
        self.rule = "matrix"
        rows: tuple[tuple[str, ...], ...]
        if isinstance(answer, Scalar) and len(gold.rows) == 3:
            return all(
                len(row) == 1 and self.same_value(row[0], part)
                for row, part in zip(gold.rows, components(answer.text), strict=False)
            )
        if isinstance(answer, Scalar):
            answer = identity(answer.text, len(gold.rows)) or answer
        if isinstance(answer, Matrix):
            rows = answer.rows
        elif isinstance(answer, Bracketed) and all(isinstance(i, Bracketed) for i in answer.items):
            rows = tuple(
                tuple(cell.text for cell in item.items if isinstance(cell, Scalar))
                for item in answer.items
                if isinstance(item, Bracketed)
            )
        elif isinstance(answer, Bracketed) and all(isinstance(i, Scalar) for i in answer.items):
            rows = tuple((item.text,) for item in answer.items if isinstance(item, Scalar))
        else:
            return False
        return [len(row) for row in rows] == [len(row) for row in gold.rows] and all(
            self.same_value(one, other)
            for wanted, found in zip(gold.rows, rows, strict=True)
            for one, other in zip(wanted, found, strict=True)
        )

    def same_value(self, gold: str, answer: str) -> bool:
        """Two formulas, each perhaps with a unit; Math-Verify's word on what cannot be read."""
        verdict, self.rule = same_value(gold, answer, self.gold.unit + self.gold.power)
        if self.rule == "value" and self.gold.measured and not verdict and rounds_to(gold, answer):
            verdict, self.rule = True, "rounded"
        if verdict is not None:
            return verdict
        self.rule = "symbolic"
        check_growth(answer)
        return self.symbolic(*(without_unit(text, words=False)[0] for text in (gold, answer)))


def _several(form: Form) -> bool:
    if isinstance(form, Bracketed):
        return any(_several(item) for item in form.items)
    if isinstance(form, Relation):
        return any("\\pm" in side for side in form.sides)
    return isinstance(form, Listing) or (isinstance(form, Scalar) and "\\pm" in form.text)


def _based(form: Form) -> tuple[str, int] | None:
    if isinstance(form, Based):
        return form.digits, form.base
    if isinstance(form, Scalar) and form.text.isdigit():
        return form.text.lstrip("0") or "0", 10
    return None
