"""The right answer of a row, brought into one form once, when a benchmark is loaded."""

import re
from dataclasses import dataclass

from evals.math.units import canonical_unit


@dataclass(frozen=True)
class Gold:
    """What an answer is compared with.

    text: LaTeX. kind: "value", "text" (words) or "choice" (the letter of one).
    unit: what the answer is counted in where the row says so; "percent" lets 8 and 8% pass alike.
    measured: whether a decimal is a rounded amount, so that what has more digits and rounds to it
    is the same.
    """

    text: str
    kind: str = "value"
    unit: str = ""
    measured: bool = False


_RULES: tuple[tuple[str, str], ...] = (
    (r"\\\$\s*|(?<!\\)\$", " "),
    (r"[ .]+$", ""),
    (r"^(-?\d+)\.0$", r"\1"),
    (r"^\+?0*(?=\d+$)", ""),
    (r"np\.(?=arc|sin|cos|tan|sqrt|exp|log)", r"\\"),
    (r"^[a-z](?=\(\d+,\d+\]$)", ""),
)
"""What is done to the text of a row, in this order."""
_THOUSANDS = re.compile(r"\d{1,3}(?:,(?:\\!)?\s*\d{3})+")
_CHOICE = re.compile(r"\\(?:text|textbf|mathrm)\s*\{\s*\(([A-E])\)\s*\}")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm)\s*\{\s*([^{}]*[A-Za-z]{2,}[^{}]*?)\s*\}")
_ASKS_PERCENT = re.compile(
    r"(?:what|how many|how much|as an?|which|determine the|find the|compute the)\b[^.?!]*"
    r"percent(?:age)?s?\b",
    re.IGNORECASE,
)
_ASKS_UNIT = re.compile(
    r"\b(?:how many(?: more| total)?|in(?: units of| degrees)?) "
    r"(?:\$?\\(?:mathrm|text)\s*\{[~\s]*)?"
    r"(cents|dollars|seconds|minutes|hours|days|weeks|months|years|(?:centi|milli|kilo)?meters"
    r"|inches|feet|yards|miles|(?:kilo)?grams|degrees|radians|joules|angstroms|celsius|kelvin"
    r"|(?-i:cm|mm|km|nm|m|kg|eV|k?J))\b"
    r"(?!\s*\}?\s*(?:\^|/(?!\s*(?:\\(?:text|mathrm)\s*\{)?[~\s]*mole?\b)))",
    re.IGNORECASE,
)
"""Units of which another size may stand in an answer."""


def canonical_gold(raw: object, question: str = "", unit: str = "", measured: bool = False) -> Gold:
    """The gold of a row.

    raw: its text or number. question: read for a percentage or a unit that is asked for.
    unit: what a column of the row says that the answer is counted in. measured: see `Gold`.
    """
    text = str(raw).strip()
    money = "\\$" in text
    for pattern, put in _RULES:
        text = re.sub(pattern, put, text).strip()
    if _THOUSANDS.fullmatch(text):
        text = re.sub(r"\D", "", text)
    if choice := _CHOICE.fullmatch(text):
        return Gold(choice[1], "choice")
    if words := _TEXT.fullmatch(text):
        return Gold(words[1], "text")
    asked = question.rfind("?")
    end = asked if asked >= 0 else len(question.rstrip(" ."))
    sentence = question[max(question.rfind(mark, 0, end) for mark in (". ", "? ", "! ")) + 1 : end]
    units = set(_ASKS_UNIT.findall(sentence))
    if unit.strip():
        unit = "degree" if "circ" in unit else canonical_unit(unit.strip("$ "))
    elif _ASKS_PERCENT.search(question):
        unit = "percent"
    elif len(units) == 1:
        unit = canonical_unit(units.pop())
    elif money:
        unit = "dollar"
    return Gold(text, "value", unit, measured)
