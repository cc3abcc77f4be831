"""The answer that a sentence states, where no box, tag or heading marks it.

In the last line that says something: what is in bold type; else the last formula or number of
the main clause. Values joined by commas, "and" or "or" make one answer. "for all $x$", "after 4
hours", "more than the $96" and the like hold circumstances, not answers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from evals.math.asides import ASIDE, ASIDE_BRACKETS, CIRCUMSTANCE, LEADING_CLAUSE, NAMED_AMOUNT
from evals.math.formulas.words import NUMBER_WORDS, TENS

MATH = re.compile(
    r"\$\$(.{1,4000}?)\$\$|\\\[(.{1,4000}?)\\\]|\\\((.{1,4000}?)\\\)"
    r"|(?<!\\)\$(?=(\s?))([^$\n]*?[^\s$\\])\4(?<!\\)\$(?!\d)",
    re.DOTALL,
)
"""A formula between its marks, of bounded length: marks that nothing closes would each be read to
the end. Two amounts of money are none: "$2 = $18"."""
_BOLD = re.compile(r"\*\*(?!\s)([^*\n]+?)\*\*(?!\s*:)|__(?!\s)([^_\n]+?)__(?!\s*:)")
_UNIT = "|".join((*NUMBER_WORDS, *TENS, "hundred", "thousand", "million"))
_TIMES_TEN = (
    r"\s*(?:[x×*·⋅]|\\times|\\cdot)\s*10"
    r"(?:\s?\^\s?(?:\{[-+−]?\d+\}|\(?[-+−]?\d+\)?)|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)"
)
_LARGE = r"\s(?:hundred|thousand|million|billion|trillion)\b"
_NUMBER = (
    r"(?<![\w.])(?:[-−+]\s?)?\\?\$?-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))"
    rf"(?:{_TIMES_TEN}|/\d+|{_LARGE})?%?"
)
_COUNTED = re.compile(r"\s(?:cent|second|minute|hour|day)s?\b(?!\s+(?:and|old|later)\b)")
"""Units that a question may ask for in another size."""
_GROUP = r"[(\[{](?=[^()\[\]{}]{3,160}[)\]}])[^()\[\]{}]*\d[^()\[\]{}]*,[^()\[\]{}]*[)\]}]"
_RUN = (
    r"(?<!\S)[-−(]?(?:[\dπ√+\-*/^_().²³⁴!½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]|sqrt|arc|sin|cos|tan|log|ln|pi"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))+"
)
_PLAIN = re.compile(
    rf"{_GROUP}|{_RUN}(?=[,.;:!?]?(?:\s|$))(?:\s[-+*/·×]\s\S+)*"
    rf"(?!\s*(?:[x×*·]\s*10|,\d)|{_LARGE})|{_NUMBER}"
)
_VALUE = re.compile(r"[\dπ√½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
_AND = re.compile(r"[\s.*]*(?:,|;|\band\b|\bor\b|,\s*(?:and|or)\b)[\s*]*")
_AMOUNT_IN_BRACKETS = re.compile(r"(?<=\s)[a-z]+\s\(([-−]?\d[^()]*)\)")
"""a week (7 days)"""
_NUMBER_WORDS = re.compile(
    rf"\b(?:{_UNIT})\b(?:[\s-](?:{_UNIT}|and(?=\s(?:{_UNIT}|a half))|(?:a )?half|halves|\w+ths?"
    r"|thirds?|quarters?)\b)*",
    re.IGNORECASE,
)
_PREDICATE = re.compile(r"(?:\b(?:is|are|equals|be)|:)\s+((?:(?!\b(?:is|are|equals|be)\s|: ).)+)$")
"""What a line ends with after its last verb."""
_SENTENCES = re.compile(r"(?<=[a-z\d$)%*][.!?])(?<!\bMrs\.)(?<!\b[MD][rs]\.)\s+(?=[A-Z])")
_COMMENT = re.compile(r"(?:This|That|It|These|Here|Note|Notice|Remember|Check|Verif\w+)\b")
"""What begins a sentence about the answer before it."""
_CONCLUSION = re.compile(
    r"(?:[,.]\s*(?:so|therefore|thus|hence|which means)\b|;|\bso\b(?! that| far| much| many))\s"
)
_NOTE = re.compile(
    r"^\W*(?:(?:to |let(?:'s| us| me) )?(?:double[- ]?)?(?:check|verify|confirm)\b"
    r"|(?:note|remark|explanation|verification|source|hint)s?\b\W)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\bsorry\b|\b(?:not enough|insufficient) information\b"
    r"|\b(?:unable to|cannot|can't|could not|couldn't) (?:be )?(?:determin|solv|answer|find)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s")
_EXPLAINED = re.compile(r"\*\*[^*]*\d[^*]*\*\*[^*]*:\W*$")
"""A line with a value in bold type that a list explains."""
BROKEN_OFF = re.compile(
    r"(?:\b(?:the|an?|of|in|which|we|he|she|they|is|are|and|or|that|then|so|with|to|for|by|from)"
    r"|[=+×,(])\s*$"
)
"""The end of a line that was cut."""
_EVERYWHERE = re.compile(
    r"\s*,?\s*for (?:all|every|any|each)\s+(?:[a-z]+\s){0,3}\$[a-z]\$(?=,?\s+(?:and|or)\s)"
)
"""The domain of a function before the next function."""
_EQUATION = re.compile(
    r"(?:^|[\s:])((?:[A-Za-zα-ω]\w{0,2}'*(?:\([a-z](?:,\s?[a-z])*\))?|d[a-z]/d[a-z])\s*=[^=]+)$"
)
_PROSE = re.compile(
    r"(?<![\\A-Za-z{])(?!(?:sqrt|sin|cos|tan|arc|log|exp|ln|pi)[a-z]*\b)[A-Za-z]{3,}"
)
_CLOSING = re.compile(
    r"\b(?:hope|let me know|feel free|any questions|glad|happy to|thank|good luck)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Stated:
    """A value in a line. kind: "formula" or "number"."""

    start: int
    end: int
    text: str
    kind: str


def stated(tail: str) -> tuple[str, str] | None:
    """The answer at the end of a text and the name of the rule; None where there is none."""
    lines = [line for line in tail.splitlines() if line.strip(" *_#-")]
    while len(lines) > 1 and (
        _NOTE.match(lines[-1]) or (_CLOSING.search(lines[-1]) and not _VALUE.search(lines[-1]))
    ):
        lines.pop()
    items = sum(1 for _ in takewhile(_ITEM.match, reversed(lines)))
    if items and len(lines) > items and _EXPLAINED.search(lines[-1 - items]):
        del lines[-items:]
    if not lines or BROKEN_OFF.search(lines[-1]) or _REFUSAL.search(lines[-1]):
        return None
    line = lines[-1]
    if bold := _bold(line):
        return bold
    for left, right in (("$$", "$$"), ("\\[", "\\]")):
        end = tail.rfind(right)
        if right in line and (start := tail.rfind(left, 0, end)) >= 0:
            line = tail[start:]
    return last_value(_EVERYWHERE.sub("", line.replace("**", "")))


def _bold(line: str) -> tuple[str, str] | None:
    """What stands in bold type, with what is joined to it, unless values come after words."""
    found = [
        match
        for match in _BOLD.finditer(line)
        if not (match.group(1) or match.group(2)).rstrip().endswith(":")
    ]
    if not found:
        return None
    last = found[-1]
    text = last.group(1) or last.group(2)
    if _has_value(text):
        parts = [text]
        for earlier, later in zip(found[-2::-1], found[:0:-1], strict=True):
            if not _AND.fullmatch(line[earlier.end() : later.start()]):
                break
            parts.insert(0, earlier.group(1) or earlier.group(2))
        if len(parts) == 1 and _PROSE.search(text) and not re.match(r"[-−$\\\d(]", text):
            return last_value(text) or (text, "bold")
        return ", ".join(map(trim, parts)), "bold"
    rest = line[last.end() :]
    if (
        _has_value(rest)
        or rest.lstrip().startswith(",")
        or line[: last.start()].rstrip()[-1:].isdigit()
    ):
        return None
    if re.fullmatch(r"\(?[A-E]\)?", text) and (said := last_value(line[: last.start()])):
        return f"({text.strip('()')}) {said[0]}", "bold"
    return trim(text), "bold"


def _has_value(text: str) -> bool:
    return _VALUE.search(text) is not None or MATH.search(text) is not None or "=" in text


def last_value(line: str) -> tuple[str, str] | None:
    """The last value of the main clause of a line; of the last conclusion, where it has one."""
    *before, last = _SENTENCES.split(line[-2_000:])
    if before and not _COMMENT.match(last) and (found := _sentence_value(last)):
        return found
    return _sentence_value(line)


def _sentence_value(line: str) -> tuple[str, str] | None:
    for clause in list(_CONCLUSION.finditer(line))[:-4:-1]:
        if found := _clause_value(line[clause.end() :]):
            return found
    main = LEADING_CLAUSE.sub("", line)
    return _clause_value(main) or _clause_value(line)


def _clause_value(line: str) -> tuple[str, str] | None:
    bare = ASIDE_BRACKETS.sub(lambda match: " " * len(match.group()), line)
    values = list(_values(bare))
    if not values:
        words = list(_NUMBER_WORDS.finditer(bare))
        if words:
            return words[-1].group(), "number in words"
        named = _AMOUNT_IN_BRACKETS.search(line)
        return (named.group(1), "number in brackets") if named else None
    line = bare
    main = list(_central(line, values)) or values
    ends = len(line)
    for aside in ASIDE.finditer(line):
        before = [value for value in main if value.end <= aside.start() + 1]
        holds = any(not re.fullmatch(r"\s*[A-Za-z]\s*", v.text) for v in before)
        if holds:
            main, ends = before, min(ends, aside.start())
    if not any(value.kind == "formula" for value in values):
        if predicate := _predicate(line):
            return trim(predicate), "last formula"
        equation = _EQUATION.search(line.strip().rstrip("."))
        if equation and not _PROSE.search(equation.group(1).partition("=")[2]):
            return trim(equation.group(1)), "last formula"
        equals = line.rfind("=", 0, ends)
        said = re.search(r"(?:i\.e\.|that is|namely),?\s", line[equals:]) if equals >= 0 else None
        equals += said.end() if said else 0
        after = [value for value in values if ends > value.start > equals >= 0]
        if after:
            return trim(after[0].text), "last number"
    last = len(main) - 1
    parts = [main[last].text]
    while last and _AND.fullmatch(line[main[last - 1].end : main[last].start]):
        last -= 1
        parts.insert(0, main[last].text)
    return ", ".join(map(trim, parts)), f"last {main[-1].kind}"


def _predicate(line: str) -> str | None:
    """The mathematics that a line ends with after its last verb; None where words are in it."""
    found = _PREDICATE.search(line.strip().rstrip("."))
    if found is None or ASIDE.search(line[: found.start(1)]):
        return None
    text = re.split(r"\bi\.e\.,?", found.group(1))[-1]
    bare = re.sub(r"\b(?:and|or)\b", "", text)
    return text if _VALUE.search(bare) and not _PROSE.search(bare) else None


def _central(line: str, values: list[Stated]) -> Iterator[Stated]:
    """Values that are no circumstance; what "and" joins to a circumstance is one too."""
    before, outside = 0, False
    named = list(NAMED_AMOUNT.finditer(line))
    for value in values:
        between = line[max(before, value.start - 60) : value.start].rstrip() + " "
        joined = outside and re.search(r"\band\s$", between) is not None
        if "$" in value.text:
            outside = any(match.start() < value.start < match.end() for match in named)
        else:
            circumstance = joined or CIRCUMSTANCE.search(between) is not None
            outside = value.kind == "number" and circumstance
        before = value.end
        if not outside:
            yield value


def _values(line: str) -> Iterator[Stated]:
    """Formulas, and between them numbers and what is written of them in plain signs."""
    place = 0
    for match in MATH.finditer(line):
        yield from _numbers(line, place, match.start())
        text = next(group for group in (*match.groups()[:3], match.group(5)) if group is not None)
        yield Stated(match.start(), match.end(), text, "formula")
        place = match.end()
    yield from _numbers(line, place, len(line))


def _numbers(line: str, start: int, end: int) -> Iterator[Stated]:
    for match in _PLAIN.finditer(line, start, end):
        text = match.group().rstrip(".,;:")
        amount = re.fullmatch(r"\((\\?\$[\d,.]+|[\d.]+)\)", text)
        text = amount.group(1) if amount else text
        if _VALUE.search(text):
            stop = match.start() + len(text)
            unit = _COUNTED.match(line, stop)
            yield Stated(match.start(), stop, text + (unit.group() if unit else ""), "number")


def is_prose(text: str) -> bool:
    """Whether a text is a sentence, not a value with or without a unit."""
    words = len(_PROSE.findall(text))
    return words > 3 or (words > 1 and not re.match(r"\s*[-$\\(\[]?\s*\d", text))


def has_words(text: str) -> bool:
    """Whether there are words of three letters and more that are no functions."""
    return _PROSE.search(text) is not None


def marked(text: str) -> str:
    """Bold type of HTML, inline code, and large amounts in the marks that are looked for."""
    text = re.sub(r"(?<=\d)(?:\{,\}|,\\!)(?=\d{3})", ",", text)
    text = re.sub(r"(\$\d[\d.,]*)[kK]\b(?![^$\n]{0,200}\$(?!\d))", r"\1 thousand", text)
    text = re.sub(r"[∎■□▪✓✔✅☑️]|\\blacksquare|\\qed\b", "", text)
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
