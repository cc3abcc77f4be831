"""The right answer of a row, brought into one form once, when the benchmark is loaded.

`Gold.rules` names what was done to the text of the row; `docs/math-golds.md` lists every row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from evals.math.formulas.notation import plain
from evals.math.formulas.units import canonical_unit, without_unit


@dataclass(frozen=True)
class Gold:
    """What an answer is compared with.

    text: LaTeX. kind: "value", "text" (words) or "choice" (the letter of one).
    unit: what the answer is counted in where the row says so; "percent" lets 8 and 8% pass alike.
    power: of a unit of length, "^2" for an area and "^3" for a volume.
    ratio: whether a ratio is asked for, so that 3:4 is 3/4.
    measured: whether a decimal is a rounded amount, so that what has more digits and rounds to it
    is the same.
    rules: the names of what was done to the text of the row.
    """

    text: str
    kind: str = "value"
    unit: str = ""
    rules: tuple[str, ...] = ()
    power: str = ""
    ratio: bool = False
    measured: bool = False


_E_NOTATION = re.compile(r"^([-+]?)(\d+(?:\.\d+)?)[eE]([-+]?)0*(\d+)$")
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
_ASKS_RATIO = re.compile(r"\bratio\b", re.IGNORECASE)
_CHOICE = re.compile(r"^\\text\{\s*\(([A-E])\)\s*\}$")
_TEXT = re.compile(r"^\\text\{([^{}]*[A-Za-z]{2,}[^{}]*)\}$")


def _e_notation(text: str) -> str:
    match = _E_NOTATION.match(text)
    if match is None:
        return text
    sign, digits, power_sign, power = match.groups()
    return f"{sign}{digits} \\cdot 10^{{{power_sign.strip('+')}{power}}}"


def _dollars(text: str) -> str:
    """Mathematics signs around and inside a gold; an escaped one is money."""
    return re.sub(r"(?<!\\)\$", " ", text).strip()


def _last_sentence(question: str) -> str:
    """The last question of a text, or its last sentence."""
    asked = question.rfind("?")
    end = asked if asked >= 0 else len(question.rstrip(" ."))
    return question[max(question.rfind(mark, 0, end) for mark in (". ", "? ", "! ")) + 1 : end]


Rule = tuple[str, Callable[[str], str]]
RULES: tuple[Rule, ...] = (
    ("mathematics signs", _dollars),
    ("currency sign", lambda text: re.sub(r"\\\$\s*", "", text)),
    ("side remark", lambda text: re.sub(r",?\s*where\b.*$", "", text, flags=re.DOTALL)),
    ("full stop", lambda text: text.rstrip(" .")),
    ("float of a whole number", lambda text: re.sub(r"^(-?\d+)\.0$", r"\1", text)),
    ("leading zeros", lambda text: re.sub(r"^0+(?=\d+$)", "", text)),
    ("plus sign", lambda text: re.sub(r"^\+(?=\d)", "", text)),
    (
        "thousands separators",
        lambda text: re.sub(r"\D", "", text)
        if re.fullmatch(r"\d{1,3}(?:,(?:\\!)?\s*\d{3})+", text)
        else text,
    ),
    ("e-notation", _e_notation),
    ("point without decimals", lambda text: re.sub(r"(?<=\d)\.(?=/)", "", text)),
    ("point without a whole number", lambda text: re.sub(r"^(-?)\.(?=\d)", r"\g<1>0.", text)),
    ("numpy function", lambda text: re.sub(r"np\.(?=arc|sin|cos|tan|sqrt|exp|log)", r"\\", text)),
    (
        "braces of a function",
        lambda text: re.sub(r"\\(exp|arcsin|sin|cos|ln)\s*\{([^{}]*)\}", r"\\\1(\2)", text),
    ),
    ("letter before an interval", lambda text: re.sub(r"^[a-z](?=\(\d+,\d+\]$)", "", text)),
    ("percent sign", lambda text: re.sub(r"\s*\\?%$", r"\\%", text)),
)  # fmt: skip
"""Applied in this order to the text of a row."""


def canonical_gold(raw: object, question: str = "", unit: str = "", measured: bool = False) -> Gold:
    """The gold of a row.

    raw: its text or number. question: read for a percentage that is asked for.
    unit: what a column of the row says that the answer is counted in. measured: see `Gold`.
    """
    text = str(raw).strip()
    used = []
    for name, rule in RULES:
        changed = rule(text)
        if changed != text:
            used.append(name)
            text = changed.strip()
    spelled = plain(text)
    if choice := _CHOICE.match(spelled):
        return Gold(choice.group(1), "choice", rules=(*used, "letter of a choice"))
    if words := _TEXT.match(spelled):
        return Gold(words.group(1).strip(), "text", rules=(*used, "words"))
    if unit.strip():
        used.append("unit of the row")
        unit = "degree" if "circ" in unit else canonical_unit(unit.strip("$ "))
    elif _ASKS_PERCENT.search(question):
        used.append("percentage asked for")
        unit = "percent"
    elif len(asked := set(_ASKS_UNIT.findall(_last_sentence(question)))) == 1:
        used.append("unit asked for")
        unit = canonical_unit(asked.pop())
    elif "currency sign" in used:
        unit = "dollar"
    else:
        value, unit = without_unit(spelled, words=False)
        if unit and "," not in spelled and value:
            used.append("unit in the gold")
            text = value
        else:
            unit = ""
    name, mark, power = unit.partition("^")
    ratio = _ASKS_RATIO.search(_last_sentence(question)) is not None
    return Gold(text, "value", name, tuple(used), mark + power, ratio, measured)
