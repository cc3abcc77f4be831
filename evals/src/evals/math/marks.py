"""Marks around an answer: mathematics mode and bold type; and what tells words from values."""

import re

MATH = re.compile(
    r"\$\$(.{1,4000}?)\$\$|\\\[(.{1,4000}?)\\\]|\\\((.{1,4000}?)\\\)"
    r"|(?<!\\)\$(?=(\s?))([^$\n]*?[^\s$\\])\4(?<!\\)\$(?!\d)",
    re.DOTALL,
)
"""A formula between its marks, of bounded length: marks that nothing closes would each be read to
the end. Two amounts of money are none: "$2 = $18"."""
VALUE = re.compile(r"[\dπ√½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
PROSE = re.compile(
    r"(?<![\\A-Za-z{])(?!(?:sqrt|sin|cos|tan|arc|log|exp|ln|pi)[a-z]*\b)[A-Za-z]{3,}"
)


def has_value(text: str) -> bool:
    """Whether there is a digit, a formula or an equals sign."""
    return VALUE.search(text) is not None or MATH.search(text) is not None or "=" in text


def is_prose(text: str) -> bool:
    """Whether a text is a sentence, not a value with or without a unit."""
    words = len(PROSE.findall(text))
    return (
        words > 3
        or (words > 1 and "=" in text)
        or (words > 1 and not re.match(r"\s*[-$\\(\[]?\s*\d", text))
    )


def has_words(text: str) -> bool:
    """Whether there are words of three letters and more that are no functions."""
    return PROSE.search(text) is not None


def marked(text: str) -> str:
    """Bold type of HTML, inline code, and large amounts in the marks that are looked for."""
    text = re.sub(r"(?<=\d)(?:\{,\}|,\\!)(?=\d{3})", ",", text)
    text = re.sub(r"(\$\d[\d.,]*)[kK]\b(?![^$\n]{0,200}\$(?!\d))", r"\1 thousand", text)
    text = re.sub(r"[∎■□▪✓✔✅☑️]|\\blacksquare|\\qed\b", "", text)
    text = re.sub(r"<<[^<>\n]*>>", "", text)  # the calculator's notes of GSM8K
    text = re.sub(r"</?(?:b|strong)>", "**", text)
    return re.sub(r"(?<![`\w])`([^`\n$]+)`(?!`)", r"$\1$", text)


def trim(text: str) -> str:
    """Without the marks of mathematics mode, bold type and the full stop around an answer."""
    text = text.strip().strip("*").strip().rstrip("。")
    for left, right in (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$")):
        if text.startswith(left) and text.endswith(right) and len(text) > len(left + right):
            inner = text[len(left) : -len(right)]
            if left not in inner:
                text = inner.strip()
    return text if text.endswith(("\\.", "...")) else text.rstrip(".").strip()
