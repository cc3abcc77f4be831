"""The published answers of math benchmarks, and what words make of them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evals.math.final_answers import Gold, canonical_gold
from evals.math.grader import compare

_FILE = Path(__file__).parents[1] / "data" / "math_pairs.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in _FILE.read_text().splitlines()]
GOLDS = sorted({(row["benchmark"], row["gold"], row.get("question", "")) for row in ROWS})
BEFORE = ("negative ", "minus ", r"\text{negative }", "half of ", "square root of ")
BEFORE += ("twice ", "the reciprocal of ", "not ", "at least ", "more than ")
AFTER = ("x", " y", "/x", "x^2", " dozen", " squared", " cubed", " doubled", r"\text{ blargs}")
AFTER += (" tenths", " score", " thirds")
NOUGHT = re.compile(r"=\s*0\$?$|(?<![\d.])0(?:\.0)?(?=[,)$]|$)")
"""Marks the golds that a factor may leave as they are."""


def published() -> list[tuple[Gold, str]]:
    """Every gold as it is read, and as it is written."""
    return [
        (canonical_gold(gold, question, measured=name == "minerva_math"), gold)
        for name, gold, question in GOLDS
    ]


def accepted_with_a_word(golds: Iterable[tuple[Gold, str]]) -> list[tuple[str, str]]:
    """The golds, and those of their changed forms that pass as the same answer."""
    accepted = []
    for gold, raw in golds:
        if NOUGHT.search(raw):
            continue
        text = raw.strip("$")
        changed = [before + text for before in BEFORE] + [text + after for after in AFTER]
        accepted += [(raw, answer) for answer in changed if compare(gold, answer)[0]]
    return accepted
