"""Split an answer in LaTeX or plain spelling into tokens, with one spelling for each sign."""

import re
import tomllib
import unicodedata
from pathlib import Path
from typing import NamedTuple

MAX_LENGTH = 4_096
"""Most characters of an answer."""
MAX_NESTING = 32
MAX_DIGITS = 256


class TooLarge(Exception):
    """A limit is exceeded; the text is the guard's name."""


class Unreadable(ValueError):
    """The text is no formula of the known notation."""


class Token(NamedTuple):
    """kind: number, letter, command (a function, a Greek letter), text (words) or sign."""

    kind: str
    text: str
    spaced: bool = False


_LISTS = tomllib.loads(Path(__file__).with_name("notation.toml").read_text(encoding="utf-8"))
FUNCTIONS, GREEK, _SKIPPED, _FONTS, _UPRIGHT = (
    set(_LISTS[name].split()) for name in ("functions", "greek", "skipped", "fonts", "upright")
)
OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil"}
CLOSING = set(OPENING.values())
_SIGNS, _COMMANDS = (
    {name: symbol for symbol, names in _LISTS[part].items() for name in names.split()}
    for part in ("signs", "commands")
)
UNIT_LETTERS = set("ghmsACFJKLMNVW")
"""Units of one letter; another letter after a number is a variable."""
_ENDS = {")", "]", "}", "°", "pi"}
"""Signs that end a value, as a number does."""
_PUT = {one: put for put, characters in _LISTS["characters"].items() for one in characters}
for _half in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞":
    _PUT[_half] = r"\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", _half).split("⁄"))
for _letter in "αβγδεζηθικλμνξπρστυφχψω":
    _PUT[_letter] = f"\\{unicodedata.name(_letter).split()[-1].lower()} "
_CHARACTERS = str.maketrans(_PUT)
_PLAIN = str.maketrans({c: put for put in ("-", " ", "") for c in _LISTS["characters"][put]})
_SCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉ₙ", "0123456789+-n0123456789n")


def _rules(name: str) -> list[tuple[re.Pattern[str], str]]:
    """Patterns with their replacements."""
    parts = ("no_solution", "raised", "mod", "dotted", "unit_vector")
    named = {part.upper(): _LISTS[part] for part in parts}
    pattern = re.compile("|".join(named))
    rows = _LISTS[name]
    return [(re.compile(pattern.sub(lambda m: named[m[0]], row)), put) for row, put in rows]


MODULO = re.compile(_LISTS["mod"])
_REWRITTEN, GOLD_RULES, UNIT_RULES = map(_rules, ("rewritten", "gold", "units"))
PATTERNS = {name: re.compile(text) for name, text in _LISTS["patterns"].items()}
_TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\\[\s,;:!>()\[\]$&#_])+|\$)"
    r"|(?P<number>\d+(?:\.\d+)?[eE][-+]?\d+(?![A-Za-z\d])|\d+\.(?!\.)\d*|\.\d+|\d+)"
    r"|(?P<row>\\\\(?:\s*\[[-\d. ]+[a-z]{2}\])?)"
    r"|\\(?P<command>[A-Za-z]+)\*?\s*|(?P<brace>\\[{}|])|\\?(?P<percent>%)"
    r"|(?P<word>[A-Za-z]+)|(?P<sign>\*\*|<=|>=|!=|=<|==|=>|\S)",
    re.DOTALL,
)
_CAPITALS = re.compile("[AP]M|[KMGT][BJLNVW]|EUR|GBP|INR|JPY|USD")
"""Units in capitals, which are no products of letters."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DIGITS = re.compile(r"\d+")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SAME = {"**": "^", "=<": "<=", "==": "=", "\\|": "|"}
_LETTERS = re.compile(
    "arcsin|arccos|arctan|asin|acos|atan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|exp|ln|log|sqrt|pi"
    "|theta|omega|[A-Za-z]"
)
"""The names and letters in a run of letters."""


def plain(text: str) -> str:
    """Return the text with one minus sign and hyphen, one space, and no invisible characters."""
    return text.translate(_PLAIN)


def tokens(text: str, words: bool = False) -> list[Token]:
    """Return the tokens of an answer. words: runs of letters are words, such as units, not products
    of variables. Raises TooLarge and Unreadable."""
    if len(text) > MAX_LENGTH:
        raise TooLarge("guard: length")
    if not text.isascii():
        text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: f"^{{{m[0].translate(_SCRIPTS)}}}", text)
        text = re.sub("[₀₁₂₃₄₅₆₇₈₉ₙ]+", lambda m: f"_{{{m[0].translate(_SCRIPTS)}}}", text)
        text = re.sub(r"√\s*(?:\(([^()]*)\)|(\d+|[A-Za-z]))", r"\\sqrt{\1\2}", text)
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    for pattern, put in () if _NUMBER.fullmatch(text) else _REWRITTEN:
        text = pattern.sub(put, text)
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth > MAX_NESTING:
            raise TooLarge("guard: nesting")
    sequence = _scan(text, words)
    if any(token.kind == "number" and len(token.text) > MAX_DIGITS for token in sequence):
        raise TooLarge("guard: digits")
    return sequence


def _scan(text: str, words: bool) -> list[Token]:
    sequence: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None  # every character is a token
        kind, place = str(match.lastgroup), match.end()
        content = match[kind]
        if kind == "number":
            new = [Token("number", content)]
        elif kind == "word":
            new = _word(content, words)
        elif kind == "command":
            new, place = _command(content, text, place, words)
            after = sequence and (sequence[-1].kind == "number" or sequence[-1].text in _ENDS)
            if after and content in _UPRIGHT and len(new) == 1 and new[0].text in UNIT_LETTERS:
                new = [Token("text", new[0].text)]
        elif kind == "space":
            new = []
        else:
            new = [Token("sign", "row" if kind == "row" else _SAME.get(content, content))]
        for token in new:
            if token.kind == "text" and sequence and sequence[-1].kind == "text":
                before = sequence[-1]
                sequence[-1] = before._replace(text=f"{before.text} {token.text}")
            else:
                sequence.append(token._replace(spaced=spaced))
            spaced = False
        spaced = spaced or not new
    return sequence


def _word(run: str, words: bool) -> list[Token]:
    """A run of letters: a separator, a name that is known, a word, or single letters."""
    name = _COMMANDS.get(run, run)
    if run.lower() in ("and", "or"):
        return [Token("sign", run.lower())]
    if name in FUNCTIONS or name in ("pi", "infty"):
        return [Token("command", name)]
    if len(run) > 3 and run.isupper():  # an acronym, not a product
        return [Token("letter", run)]
    pieces = _LETTERS.findall(run)
    is_word = words or run == "mod" or (len(run) > 3 and len(pieces) == len(run))
    if is_word and run not in ("e", "i"):
        return [Token("text", run)]
    kinds = ("command" if len(piece) > 1 else "letter" for piece in pieces)
    return [Token(kind, _COMMANDS.get(p, p)) for kind, p in zip(kinds, pieces, strict=True)]


def _command(name: str, text: str, place: int, words: bool) -> tuple[list[Token], int]:
    """The tokens of a command, and the place behind it."""
    if name in ("color", "textcolor"):
        return [], _group(text, place)[1]
    if name == "pmod":
        digits = _DIGITS.match(text, place)
        content, place = (digits[0], digits.end()) if digits else _group(text, place)
        return [Token("modulus", content.strip())], place
    if name in ("bmod", "mod"):
        return [Token("text", "mod")], place
    if name in _FONTS or name in ("begin", "end"):
        content, place = _group(text, place)
        if name in _FONTS:
            return _text(name, content, words), place
        if content == "array" and name == "begin":
            place = _group(text, place)[1]
        return [Token("sign", name)], place
    if name in _SKIPPED:
        return [], place
    if name == "AA" or (words and name in ("mu", "Omega")):
        return [Token("text", "angstrom" if name == "AA" else name)], place
    if name in _SIGNS:
        return [Token("sign", _SIGNS[name])], place
    return [Token("command", _COMMANDS.get(name, name))], place


def _text(font: str, content: str, words: bool) -> list[Token]:
    """The tokens in a change of font: words, a letter, or a formula."""
    bare = content.strip()
    if re.fullmatch(r"\d(?: \d)+", bare):  # digits that are set apart
        return [Token("number", bare.replace(" ", ""))]
    if font == "mathbb" and bare in ("R", "C"):
        return [Token("sign", "reals" if bare == "R" else "complexes")]
    if re.search(r"\d|\\[A-Za-z]|[%$=]", bare):
        return _scan(bare, True)
    if re.fullmatch(r"[A-Za-z]|[A-Z]{2,6}", bare) and not _CAPITALS.fullmatch(bare):
        return _word(bare, words)
    sequence = []
    for part in re.split(r"\b(and|or)\b|^(,)$", re.sub(r"[\\~]", " ", bare), flags=re.IGNORECASE):
        if part and part.lower() in ("and", "or", ","):
            sequence.append(Token("sign", part.lower()))
        elif part and part.strip(" ,.;:"):
            sequence.append(Token("text", part.strip(" ,;:")))
            sequence += [Token("sign", ":")] * part.rstrip().endswith(":")
    return sequence


def _group(text: str, place: int) -> tuple[str, int]:
    """The text in the braces at `place`, or the next character; and the place behind it."""
    place = len(text) - len(text[place:].lstrip())
    if text[place : place + 1] != "{":
        return text[place : place + 1], place + 1
    end = closing(text, place, len(text)) or len(text) + 1
    return text[place + 1 : end - 1], end


def closing(text: str, place: int, most: int) -> int | None:
    """Return the place behind the brace that closes the one at `place`, if within `most`."""
    depth = 0
    for mark in _BRACE.finditer(text, place, min(place + most, len(text))):
        depth += (mark[0] == "{") - (mark[0] == "}")
        if depth == 0:
            return mark.end()
    return None
