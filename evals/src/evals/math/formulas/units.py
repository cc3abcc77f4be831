"""Units and words that follow a value, and the letter of a choice before it."""

import re

from evals.math.formulas.words import spelled_number

_NAMES = {
    "cm": "centimeter centimeters centimetre centimetres cms",
    "mm": "millimeter millimeters",
    "m": "meter meters metre metres",
    "km": "kilometer kilometers kilometre kilometres",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yards",
    "mi": "mile miles",
    "s": "second seconds sec secs",
    "min": "minute minutes mins",
    "h": "hour hours hr hrs",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "dollar": "dollars usd bucks",
    "cent": "cents",
    "degree": "degrees deg °",
    "radian": "radians rad rads",
    "g": "gram grams",
    "kg": "kilogram kilograms",
    "percent": "percentage %",
    "nm": "nanometer nanometers",
    "angstrom": "angstroms",
    "j": "joule joules",
    "kj": "kilojoule kilojoules",
    "ev": "electronvolt electronvolts",
    "celsius": "°c",
    "kelvin": "k kelvins",
}  # fmt: skip
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in (unit, *names.split())}
_LENGTHS = {"cm", "mm", "m", "km", "in", "ft", "yd", "mi"}
_POWER = re.compile(r"\b(sq(?:uared?)?\b)|\b(cu(?:bic|bed)?\b)|\^\s*\{?\s*([23])")
_IGNORED = re.compile(
    r"\b(?:square|squared|cubic|cubed|sq|cu|of|per|old)\b|/?\s*\b(?:mol|moles?)\b|\^\s*\{?-?\d\}?|[~{}.,\s]"
)
_ANGLE = re.compile(r"(?:sin|cos|tan|cot|sec|csc)[^A-Za-z]*°$")
"""The degrees of an angle whose sine is taken are no unit of the value."""
_TEXT = re.compile(
    r"\s*\\text\{([^{}]*+(?:\{[^{}]*\}[^{}]*+)*+)\}(\s*\^\s*(?:\{\s*-?\d\s*\}|-?\d))?\s*/?\s*$"
)
_PART = r"(?:\\text\s*\{[^{}]*\}|[A-Za-z]|\^\s*(?:\{-?\d\}|-?\d)|\\cdot|[\s*/])++"
"""One side of a unit that is a fraction."""
# Possessive: a long answer must not be tried in every way of cutting it into words.
_WORDS = re.compile(
    r"(?:(?<=[\d)}!°%])|(?<=\\pi)|(?<=\\pi\s))\s*(?:/\s*(?=[A-Za-z]{2}))?"
    r"(?:(?:\\Omega|\\mu|[LMR]\s*_\s*\{?\s*\\odot\s*\}?|[A-Za-z][A-Za-z&']*+)[-.]?(?:\s*\^\s*\{?-?\d\}?)?\s*[/*]?\s*)++$"
    r"|(?<=\})\s*\\cdot\s*[A-Za-z]{1,3}(?:\s*\^\s*\{?-?\d\}?)?$"
    rf"|\s*\\frac\s*\{{{_PART}\}}\s*\{{{_PART}\}}$|\s*°\s*[CFK]$"
)
_OPTION = r"(?:(?:[Oo]ption|[Cc]hoice|[Gg]raph|[Ff]igure|[Pp]lot)\s+)?"
_CHOICE = re.compile(
    rf"^\s*{_OPTION}(?:\\text\{{\s*{_OPTION}\(?([A-E])\)?[.:)]?\s*\}}|\(([A-E])\)|([A-E])\s*[).:])"
    r"\s*[:.,]?\s*(.*)$"
    rf"|^\s*\\text\{{\s*{_OPTION}(?:\(([A-E])\)|([A-E])[).:])\s*([^{{}}]*)\}}$",
    re.DOTALL,
)
_NAMED_CHOICE = re.compile(r"\(([A-E])\)|\b(?:[Oo]ption|[Cc]hoice|answer is)\s+([A-E])\b")


def without_unit(text: str, words: bool) -> tuple[str, str]:
    """The value and the unit after it, canonical where it is a common one; "" for none.

    words: units may also stand as plain letters, which could be variables.
    """
    found: list[str] = []
    while True:
        match = _TEXT.search(text)
        if match and match.start() and text[match.start() - 1] not in "_^":
            found.insert(0, match.group(1) + (match.group(2) or ""))
            text = text[: match.start()].rstrip(" \\").rstrip("/").removesuffix("\\cdot").strip()
            continue
        if text.endswith("°") and len(text) > 1 and not _ANGLE.search(text):
            found.insert(0, "°")
            text = text[:-1].strip()
            continue
        if marks := re.search(r"(?<=[\d}])\s*(?:'{1,2}|\")$", text):
            found.insert(0, marks.group().strip())
            text = text[: marks.start()]
            continue
        plain = _WORDS.search(text) if words else None
        if plain and plain.start():
            found.insert(0, plain.group().strip())
            text = text[: plain.start()].strip()
            continue
        break
    return text, canonical_unit(" ".join(found))


def only_number(text: str) -> str | None:
    """The number in words and numbers that are one text: spelled out, at its start, at its end."""
    inner = re.fullmatch(r"\\text\{\s*(\d[^{}]*)\}", text)
    if inner:
        return inner.group(1)
    if spelled := spelled_number(text):
        return spelled
    bare = re.sub(r"\\text|[{}]", " ", text).strip(" .!")
    match = re.fullmatch(r"[A-Za-z][A-Za-z ,':]*\s(-?[\d,]*\.?\d+)", bare)
    return match.group(1) if match else None


def canonical_unit(text: str) -> str:
    """A unit by its short name where it is a common one, a length with its power: cm^2."""
    bare = _IGNORED.sub(" ", text.replace("\\", "")).strip().lower()
    name = _CANONICAL.get(bare, bare)
    power = _POWER.search(text.lower()) if name in _LENGTHS else None
    if power is None:
        return name
    return f"{name}^{power.group(3) or (2 if power.group(1) else 3)}"


def units_differ(one: str, other: str) -> bool:
    """Whether both are common units, and not the same one."""
    return one != other and all(unit.partition("^")[0] in _NAMES for unit in (one, other))


def choice(text: str) -> tuple[str | None, str]:
    """The letter A-E of a choice at the start of an answer, and what follows it."""
    match = _CHOICE.match(text)
    if match is None:
        letter = re.fullmatch(rf"{_OPTION}([A-E])", text)
        return (letter.group(1), "") if letter else (None, text)
    *letters, rest = match.groups()[:4] if match.group(4) is not None else match.groups()[4:]
    return next(letter for letter in letters if letter), rest.strip()


def chosen(text: str) -> str | None:
    """The letter that an answer begins with, or the only one that its sentence names."""
    letter = choice(text)[0]
    named = {one or other for one, other in _NAMED_CHOICE.findall(text)}
    return letter or (named.pop() if len(named) == 1 else None)
