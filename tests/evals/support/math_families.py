"""Pairs of math answers made by program, of families whose truth is known by construction."""

import math
import random
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from evals.math.final_answers import canonical_gold
from evals.math.grader import grade

_FILE = Path(__file__).parents[1] / "data" / "math_families.toml"
FAMILIES: dict[str, dict[str, Any]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
ROUNDS = 60
"""Golds of each family."""


class Pair(NamedTuple):
    """A right answer of a question, an answer, whether it is right, and whether it passes."""

    question: str
    gold: str
    answer: str
    right: bool
    accepted: bool


def frac(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def poly(coefficients: list[int], name: str = "x") -> str:
    """A polynomial, the constant term first in the list, the highest power first in the text."""
    parts = []
    for power, number in reversed(list(enumerate(coefficients))):
        if number:
            body = {0: "", 1: name}.get(power, f"{name}^{{{power}}}")
            size = str(abs(number)) if abs(number) != 1 or not power else ""
            parts.append(("-" if number < 0 else "+") + size + body)
    return "".join(parts).removeprefix("+") or "0"


def graded(name: str) -> Iterator[Pair]:
    """Yield the pairs of a family, always the same ones, with their verdicts."""
    family, draw = FAMILIES[name], random.Random(name)
    for _ in range(ROUNDS):
        known: dict[str, Any] = {"frac": frac, "poly": poly, "Fraction": Fraction}
        known |= {"comb": math.comb, "sqrt": math.sqrt}
        known |= {
            name: getattr(draw, name) for name in ("choice", "randint", "randrange", "sample")
        }
        for variable, expression in family["draw"].items():
            known[variable] = eval(f"({expression})", known)
        right, wrong = (
            [_text(text, known) for text in family[part]] for part in ("right", "wrong")
        )
        text, question = _text(family["gold"], known), _text(family.get("question", ""), known)
        gold = canonical_gold(text, question)
        for answer in (*right, *wrong):
            verdict = grade(gold, rf"So it is \boxed{{{answer}}}.")
            yield Pair(question, text, answer, answer in right, verdict.correct)


def _text(template: str, known: dict[str, Any]) -> str:
    return str(eval(f"rf'''{template}'''", known))
