"""One spelling for what LaTeX and Unicode write in many ways.

Nothing here changes a value: spacing and sizes go, synonyms become one command, fonts become
`\\text{...}`, plain signs take the place of the Unicode ones.
"""

import re
import unicodedata
from functools import lru_cache

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉ₙ", "0123456789n")
_VULGAR = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8),
    "⅞": (7, 8), "⅐": (1, 7), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
_SIGNS = {
    "−": "-", "–": "-", "—": "-", "×": r"\cdot ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*",
    "÷": "/", "∕": "/", "⁄": "/", "π": r"\pi ", "∞": r"\infty ", "°": "°", "º": "°", "≤": r"\leq ",
    "≥": r"\geq ", "≠": r"\neq ", "≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "±": r"\pm ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "λ": r"\lambda ", "ω": r"\omega ", "τ": r"\tau ", "φ": r"\phi ", "σ": r"\sigma ",
    "ρ": r"\rho ", "μ": r"\mu ", "ε": r"\epsilon ", "δ": r"\delta ", "Δ": r"\Delta ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "′": "'", "’": "'", "€": "$", "£": "$",
    "¢": r"\text{ cents}", "≡": "=", "Å": " angstrom ", "∖": r"\setminus ", "。": ".", "、": ",",
    **{sign: rf"\frac{{{top}}}{{{bottom}}}" for sign, (top, bottom) in _VULGAR.items()},
}  # fmt: skip
_SIGN_TABLE = str.maketrans(_SIGNS)
_FONTS = (
    r"\\(?:textbf|textit|textrm|textsf|texttt|textnormal|mbox|hbox|mathrm|mathbf|mathit|mathsf|"
    r"mathtt|boldsymbol|bm|operatorname\*?|emph|underline|text)\s*(?=\{)"
)
_SYNONYMS = (
    (r"\\(?:left|right|bigl|bigr|Bigl|Bigr|biggl|biggr|big|Big|bigg|Bigg)(?![A-Za-z])\s*\.?", ""),
    (r"\\[!,;:> ]|~|\\q?quad(?![A-Za-z])|\\(?:displaystyle|textstyle|limits|nolimits)\b", " "),
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
    (r"\\(?:times|ast|bullet)(?![A-Za-z])", r"\\cdot "),
    (r"\\(?:large|Large|LARGE|huge|Huge|small|normalsize|bf|rm|it)(?![A-Za-z])", " "),
    (r"\\(?:text)?color\s*\{\w+\}", " "),
    (r"(?:Fraction|Rational)\(\s*(-?\d+)\s*,\s*(\d+)\s*\)", r"\\frac{\1}{\2}"),
    (r"(?<![A-Za-z\\_^])C\(([^(),]{1,20}),([^(),]{1,20})\)", r"\\binom{\1}{\2}"),
    (r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    (r"\\div(?![A-Za-z])", "/"),
    (r"\\AA(?![A-Za-z])", " angstrom "),
    (r"\\(?:leqslant|leqq|le)(?![A-Za-z])|<=|=<", r"\\leq "),
    (r"\\(?:geqslant|geqq|ge)(?![A-Za-z])|>=", r"\\geq "),
    (r"\\ne(?![A-Za-z])|!=", r"\\neq "),
    (r"\\lt(?![A-Za-z])", "<"),
    (r"\\gt(?![A-Za-z])", ">"),
    (r"\\langle(?![A-Za-z])", "("),
    (r"\\rangle(?![A-Za-z])", ")"),
    (r"\\(?:lbrace)(?![A-Za-z])", r"\\{"),
    (r"\\(?:rbrace)(?![A-Za-z])", r"\\}"),
    (r"\\(?:simeq|thickapprox|doteq)(?![A-Za-z])", r"\\approx "),
    (r"\\(?:land|wedge)(?![A-Za-z])", r"\\text{ and }"),
    (r"\\(?:lor|vee)(?![A-Za-z])", r"\\text{ or }"),
    (r"\\(?:varphi)(?![A-Za-z])", r"\\phi "),
    (r"\\(?:varepsilon)(?![A-Za-z])", r"\\epsilon "),
    (r"\\equiv(?![A-Za-z])", "="),
    (r"\\prime(?![A-Za-z])", "'"),
    (r"\^\s*\{\s*('+)\s*\}|\^\s*('+)", r"\1\2"),
    (r"\^\s*\{\s*('(?:\s*')+)\s*\}", "''"),
    (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])|\{\s*°\s*\}|°)|\\degree(?![A-Za-z])", "°"),
    (r"\\%", "%"),
    (r"\\\$|(?<!\\)\$", " "),
    (r"\{\s*,\s*\}", ","),
    (r"(?<=\d)\s*\^\s*(?:\{\s*(?:o|\\text\{o\})\s*\}|o(?![A-Za-z]))", "°"),
    (r"(?<![A-Za-z\\])([A-Za-z])\s*:\s*([A-Za-z])\s*\\mapsto(?![a-z])", r"\1(\2)="),
    (r"\\text\s*\{\s*\}", " "),
    (r"\\[()\[\]]", " "),
    (r"\s*\\p?mod\s*\{[^{}]*\}|\s*\(\s*\\?(?:mod|bmod)\s[^()]*\)\s*$", ""),
    (r"√\s*(\d+|[A-Za-z])", r"\\sqrt{\1}"),
    (r"√\s*\(([^()]*)\)", r"\\sqrt{\1}"),
    (r"\\approxeq", r"\\approx "),
    (r"(?<=\d)\{\s*\}(?=\d)|\{\s*\}(?=\s*(?:\^|°))", " "),
    (r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))", r"\\cdot "),
    (r"(10\s*\^)\s*\(\s*(-?\d+)\s*\)", r"\1{\2}"),
)  # fmt: skip
_RULES = tuple((re.compile(pattern), put) for pattern, put in _SYNONYMS)
_BARE_RULES = tuple(
    rule for rule in _RULES if "|" in rule[0].pattern or not rule[0].pattern.startswith(r"\\")
)
"""For a text without commands."""
_FONT = re.compile(_FONTS)
_PLAIN_TEXT = re.compile(
    r"\\text\{\s*([-+]?[\d.,/]+|\(\s*\d[\d.,]*\s*\)|[eE][-+]?\d+|[A-Za-z]|[A-Z]{2,6})\s*\}"
)
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{(\d+)\}")
_GOES_ON = re.compile(r"(?<![\d.])(\d{1,40}\.\d{0,12}?)(?:(\d)\2{2,12}|(\d{2,9})\3{1,4})\s*\.{3}")
"""0.1666... and 0.142857142857..."""
_ALIGNED = re.compile(
    r"\\begin\s*\{(aligned|align\*?|gathered|cases|split)\}(.*?)\\end\s*\{\1\}", re.DOTALL
)
_GAP = re.compile(r"\\\\\s*\[\s*-?[\d.]+\s*(?:pt|ex|em|mm|cm)\s*\]")
"""The end of a row with the space after it."""
_POWERS = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_BELOW = re.compile(r"[₀₁₂₃₄₅₆₇₈₉ₙ]+")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:,\s?\d{3})+)(?![\d,]|\s*,\s*\d)")
_SPACED = re.compile(r"(?<![\d.,/])\d{1,3}(?: \d{3})+(?![\d/])")
_LARGE = (("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12))
_LARGE_WORDS = re.compile(
    r"(?<=\d)\s*(\\text\{\s*)?(thousand|million|billion|trillion)\b\s*(\})?", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """`text` in the one spelling; at most a few times as long."""
    if text.isascii() and text.isdigit():
        return text
    text = _POWERS.sub(lambda match: "^{" + match.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _BELOW.sub(lambda match: "_{" + match.group().translate(_SUBSCRIPTS) + "}", text)
    text = unicodedata.normalize("NFKC", text.translate(_SIGN_TABLE)).translate(_SIGN_TABLE)
    text = _ALIGNED.sub(_lines, text)
    text = _GAP.sub(r"\\\\ ", text).replace("\\\\[", "\\\\ [")
    text = re.sub(r"\\[lc]?dots(?![A-Za-z])", "...", text)
    rows = text.split("\\\\")  # rows of a matrix; the rules below would eat its line ends
    text = "\\\\".join(_apply(row) for row in rows)
    text = _REPEATING.sub(_repeated, _GOES_ON.sub(_overlined, text))
    text = _LARGE_WORDS.sub(
        lambda match: (
            rf"\cdot 10^{{{dict(_LARGE)[match.group(2).lower()]}}} "
            + (r"\text{ " if match.group(1) and not match.group(3) else "")
        ),
        text,
    )
    return re.sub(r"\s+", " ", text).strip().rstrip(".;,").removesuffix("\\").strip()


def _apply(text: str) -> str:
    text = _FONT.sub(r"\\text", text)
    for pattern, put in _RULES if "\\" in text else _BARE_RULES:
        text = pattern.sub(put, text)
    return _PLAIN_TEXT.sub(r"\1", text)


def _lines(match: re.Match[str]) -> str:
    """The lines of aligned equations as a list; a line that begins with = goes on."""
    text = match.group(2).replace("&", " ")
    return re.sub(r"\\\\\s*(?!\s*[=<>])", ", ", text).replace("\\\\", " ")


def _overlined(match: re.Match[str]) -> str:
    """0.1666... as 0.1\\overline{6}."""
    return rf"{match.group(1)}\overline{{{match.group(2) or match.group(3)}}}"


def _repeated(match: re.Match[str]) -> str:
    """0.1\\overline{6} as a fraction."""
    whole, steady, repeated = match.groups()
    bottom = int("9" * len(repeated) + "0" * len(steady))
    top = int((whole + steady + repeated)[-200:]) - int((whole + steady or "0")[-200:])
    return rf"\frac{{{top}}}{{{bottom}}}"


def without_thousands(text: str) -> str:
    """Separators of groups of three digits removed: 1,234,567 is one number, (1,234) is none."""
    if text.startswith(("(", "[", "\\{")):
        return text
    text = _SPACED.sub(lambda match: match.group().replace(" ", ""), text)
    return _THOUSANDS.sub(lambda match: match.group(1) + re.sub(r"\D", "", match.group(2)), text)


def split(text: str, separators: tuple[str, ...]) -> list[str]:
    """Cut at separators that stand outside all brackets; parts are stripped."""
    parts, depth, begin, place = [], 0, 0, 0
    while place < len(text):
        character = text[place]
        if depth == 0:
            found = next((mark for mark in separators if text.startswith(mark, place)), None)
            if found is not None and not _inside_command(text, place, found):
                parts.append(text[begin:place].strip())
                place += len(found)
                begin = place
                continue
        if character == "\\" and place + 1 < len(text) and text[place + 1] in "{}":
            character = text[place + 1]
            place += 1
        depth += (character in "([{") - (character in ")]}")
        depth = max(depth, 0)
        place += 1
    parts.append(text[begin:].strip())
    return parts


def _inside_command(text: str, place: int, mark: str) -> bool:
    """Whether a command found at `place` goes on, as \\in does in \\infty."""
    after = place + len(mark)
    return mark[-1].isalpha() and after < len(text) and text[after].isalpha()
