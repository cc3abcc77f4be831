"""Cut an answer in LaTeX or plain spelling into tokens, with one spelling for each sign."""

import re
import unicodedata
from typing import NamedTuple

MAX_LENGTH = 4_096
"""Characters of an answer that is read."""
MAX_NESTING = 32
MAX_DIGITS = 256
"""Digits in a row."""


class TooLarge(ValueError):
    """A guard refused to read or to compute; the text is the guard's name."""


class Unreadable(ValueError):
    """The text is no formula that is read here."""


class Token(NamedTuple):
    """kind: number, letter, command (a function, a Greek letter), text (words) or sign."""

    kind: str
    text: str
    spaced: bool = False


FUNCTIONS = set(
    str.split("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp ln log sqrt")
)
GREEK = set(
    str.split(
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
        "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega hbar ell"
    )
)
OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil"}
CLOSING = set(OPENING.values())
_SPELLINGS = {
    "*": "times cdot ast bullet", "/": "div", "<=": "le leq leqslant leqq",
    ">=": "ge geq geqslant geqq", "!=": "ne neq", "<": "lt", ">": "gt", "=": "equiv",
    "~=": "approx simeq thickapprox approxeq", ":": "colon", "∪": "cup bigcup", "∈": "in",
    "without": "setminus backslash", "±": "pm", "∓": "mp", "'": "prime", "°": "circ degree",
    "(": "langle", ")": "rangle", "\\{": "lbrace", "\\}": "rbrace", "|": "mid vert lvert rvert",
    "and": "land wedge", "or": "lor vee", "=>": "implies Rightarrow Longrightarrow iff",
}  # fmt: skip
_SIGNS = {name: sign for sign, names in _SPELLINGS.items() for name in names.split()}
_COMMANDS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "varphi": "phi", "varepsilon": "epsilon", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "lg": "log", "bar": "overline", "infinity": "infty",
    "varnothing": "emptyset",
}  # fmt: skip
_SKIPPED = set(
    str.split(
        "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr displaystyle textstyle "
        "limits nolimits quad qquad large Large LARGE huge Huge small normalsize bf rm it"
    )
)
_FONTS = set(
    str.split(
        "text textbf textit textrm textsf texttt textnormal mbox hbox mathrm mathbf mathit mathsf "
        "mathtt boldsymbol bm operatorname emph underline mathbb mathcal"
    )
)
_ROMAN = {"text", "textrm", "textnormal", "mathrm", "mbox", "hbox", "operatorname"}
UNIT_LETTERS = set("ghmsACFJKLMNVW")
"""Units of one letter; another letter after a number is a variable."""
_ENDS = {")", "]", "}", "°", "pi"}
"""End a value, as a number does."""
_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "∕": "/",
        "⁄": "/", "∞": r"\infty ", "º": "°", "≤": "<=", "≥": ">=", "≠": "!=", "≈": r"\approx ",
        "≡": "=", "∖": r"\setminus ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
        "⌉": r"\rceil ", "ℝ": r"\mathbb{R}", "′": "'", "’": "'", "″": "''", "€": "$", "£": "$",
        "¢": r"\text{ cents}", "Å": r"\AA ", "。": ".", "、": ",", "⇒": "=>", "⟹": "=>",
        **{
            half[0]: rf"\frac{{{half[1]}}}{{{half[2]}}}"
            for half in str.split("½12 ⅓13 ⅔23 ¼14 ¾34 ⅕15 ⅖25 ⅗35 ⅘45 ⅙16 ⅚56 ⅛18 ⅜38 ⅝58 ⅞78")
        },
        **{
            character: f"\\{unicodedata.name(character).split()[-1].lower()} "
            for character in "αβγδεζηθικλμνξπρστυφχψω"
        },
    }
)  # fmt: skip
_SCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉ₙ", "0123456789+-n0123456789n")
NO_SOLUTION = (
    r"(?i)^\s*+(?:\\text\s*\{\s*+)?(?:there (?:is|are) )?"
    r"(?:no (?:real )?(?:solution|root)s?(?: exists?)?|none)[\s}.]*$"
)
"""A whole answer that says that there is none."""
_RAISED = re.compile(
    r"\^\s*(?:\{\s*(MARK)\s*\}|(MARK))".replace("MARK", r"\\circ(?![a-z])|°|(?:'|\\prime\s*)+")
)
_REWRITTEN = (
    (
        re.compile(r"\\\{(?:\s|\\[,;:! ])*\\\}|^\s*\{\s*\}\s*$|∅|⌀|(?:the )?empty set"),
        r"\\emptyset ",
    ),
    (re.compile(NO_SOLUTION), r"\\emptyset "),
    (
        re.compile(
            r"^\s*(?:\\text\s*\{)?\s*(?:the )?(?:set of )?(?:all )?real(?:s| numbers)[\s}.]*$"
        ),
        r"\\mathbb{R}",
    ),
    (re.compile(r"\\text[a-z]*\s*\{\s*(?:negative|minus) infinity\s*\}"), r"-\\infty "),
    (re.compile(r"\\text[a-z]*\s*\{\s*(?:positive )?infinity\s*\}"), r"\\infty "),
    (re.compile(r"\bper cent\b"), "percent"),
    (re.compile(r"\\not\s*(?==)"), "!"),
    (re.compile(r"\.\.\.|…|\\(?:ldots|cdots|dotsc|dotsb)(?![a-z])"), r"\\dots "),
    (re.compile(r"(?<=\d)(?:\{\s*,\s*\}|,\\!)\s*(?=\d{3})"), ""),  # thousands, surely
    (re.compile(r"(?<!\\)\{\s*\}"), ""),
    (re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))"), "*"),
    (re.compile(r"\\(?:begin|end)\s*\{(?:aligned|align\*?|gathered|cases|split)\}|&(?==)"), " "),
    (_RAISED, r"\1\2 "),
    (re.compile(r"(°|\\circ|\\degree)\s*\}?\s*([CF])(?![A-Za-z])"), r"\1 \\text{\2}"),
    (re.compile(r"\(\s*\\?mod\s*\d+\s*\)"), ""),
)
_TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\\[\s,;:!>()\[\]$&#_])+|\$)"
    r"|(?P<number>\d+(?:\.\d+)?[eE][-+]?\d+(?![A-Za-z\d])|\d+\.(?!\.)\d*|\.\d+|\d+)"
    r"|(?P<row>\\\\(?:\s*\[[-\d. ]+[a-z]{2}\])?)"
    r"|\\(?P<command>[A-Za-z]+)\*?\s*|(?P<brace>\\[{}|])|\\?(?P<percent>%)"
    r"|(?P<word>[A-Za-z]+)|(?P<sign>\*\*|<=|>=|!=|=<|==|=>|\S)",
    re.DOTALL,
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SAME = {"**": "^", "=<": "<=", "==": "=", "\\|": "|"}
_LETTERS = re.compile(
    "arcsin|arccos|arctan|asin|acos|atan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|exp|ln|log|sqrt|pi"
    "|theta|omega|[A-Za-z]"
)
"""The pieces of a run of letters."""


def tokens(text: str, words: bool = False) -> list[Token]:
    """The tokens of an answer. Raises TooLarge and Unreadable.

    words: runs of letters are words, such as units, and no products of variables.
    """
    if len(text) > MAX_LENGTH:
        raise TooLarge("guard: length")
    if not text.isascii():
        text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: f"^{{{m[0].translate(_SCRIPTS)}}}", text)
        text = re.sub("[₀₁₂₃₄₅₆₇₈₉ₙ]+", lambda m: f"_{{{m[0].translate(_SCRIPTS)}}}", text)
        text = re.sub(r"√\s*(?:\(([^()]*)\)|(\d+|[A-Za-z]))", r"\\sqrt{\1\2}", text)
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    for pattern, put in _REWRITTEN:
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
            if after and content in _ROMAN and len(new) == 1 and new[0].text in UNIT_LETTERS:
                new = [Token("text", new[0].text)]
        elif kind == "space":
            new = []
        else:
            new = [Token("sign", "row" if kind == "row" else _SAME.get(content, content))]
        for token in new:
            if token.kind == "text" and sequence and sequence[-1].kind == "text":
                sequence[-1] = Token(
                    "text", f"{sequence[-1].text} {token.text}", sequence[-1].spaced
                )
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
    if run not in ("e", "i") and (
        words or run == "mod" or (len(run) > 3 and len(pieces) == len(run))
    ):
        return [Token("text", run)]
    return [
        Token("command" if len(piece) > 1 else "letter", _COMMANDS.get(piece, piece))
        for piece in pieces
    ]


def _command(name: str, text: str, place: int, words: bool) -> tuple[list[Token], int]:
    """The tokens of a command, and where the text goes on."""
    if name in ("color", "textcolor", "pmod"):
        return [], _group(text, place)[1]
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
    """What a change of font holds: words, a letter, or a formula."""
    bare = content.strip()
    if re.fullmatch(r"\d(?: \d)+", bare):  # digits that are set apart
        return [Token("number", bare.replace(" ", ""))]
    if font == "mathbb" and bare in ("R", "C"):
        return [Token("sign", "reals" if bare == "R" else "complexes")]
    if re.search(r"\d|\\[A-Za-z]|[%$=]", bare):
        return _scan(bare, True)
    if re.fullmatch(r"[A-Za-z]|[A-Z]{2,6}", bare):
        return _word(bare, words)
    sequence = []
    for part in re.split(r"\b(and|or)\b|^(,)$", re.sub(r"[\\~]", " ", bare), flags=re.IGNORECASE):
        if part and part.lower() in ("and", "or", ","):
            sequence.append(Token("sign", part.lower()))
        elif part and part.strip(" ,.;"):
            sequence.append(Token("text", part.strip(" ,;")))
    return sequence


def _group(text: str, place: int) -> tuple[str, int]:
    """What is in the braces at `place`, or the next character; and where the text goes on."""
    while text[place : place + 1].isspace():
        place += 1
    if text[place : place + 1] != "{":
        return text[place : place + 1], place + 1
    end = closing(text, place, len(text)) or len(text) + 1
    return text[place + 1 : end - 1], end


def closing(text: str, place: int, most: int) -> int | None:
    """The place after the brace that closes the one at `place`, within `most` characters."""
    depth = 0
    for mark in _BRACE.finditer(text, place, min(place + most, len(text))):
        depth += (mark[0] == "{") - (mark[0] == "}")
        if depth == 0:
            return mark.end()
    return None
