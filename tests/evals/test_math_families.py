"""Pairs of math answers made by program, of families whose truth is known by construction."""

import math
import random
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from evals import math_score

ROUNDS = 60
"""Golds of each family."""

FILE = Path(__file__).parent / "data" / "math_families.toml"
FAMILIES = tomllib.loads(FILE.read_text(encoding="utf-8"))


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


def made(family: dict[str, Any], draw: random.Random) -> tuple[str, list[str], list[str]]:
    """A gold, answers that equal it and answers that do not."""
    known: dict[str, Any] = {"frac": frac, "poly": poly, "Fraction": Fraction}
    known |= {"comb": math.comb, "sqrt": math.sqrt}
    known |= {name: getattr(draw, name) for name in ("choice", "randint", "randrange", "sample")}
    for name, expression in family["draw"].items():
        known[name] = eval(expression, known)
    texts = (family["right"], family["wrong"])
    right, wrong = ([eval(f"rf'''{text}'''", known) for text in part] for part in texts)
    return eval(f"rf'''{family['gold']}'''", known), right, wrong


@pytest.mark.slow
def test_pairs_of_known_truth() -> None:
    pairs, refused = Counter[str](), Counter[str]()
    accepted, examples = set[tuple[str, str, str]](), set[tuple[str, str, str]]()
    for name, family in FAMILIES.items():
        draw = random.Random(name)
        for _ in range(ROUNDS):
            gold, right, wrong = made(family, draw)
            for answer in (*right, *wrong):
                pairs[name] += 1
                if math_score("", rf"So it is \boxed{{{answer}}}.", gold) == (answer in right):
                    continue
                if answer in right:
                    refused[name] += 1
                    examples.add((name, gold, answer))
                else:
                    accepted.add((name, gold, answer))
    assert sum(pairs.values()) > 10_000
    assert accepted == set()
    assert sum(refused.values()) <= sum(pairs.values()) / 100, (refused, sorted(examples)[:50])
