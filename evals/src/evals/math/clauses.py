"""The value that a sentence states: the last formula or number of its main clause.

Values joined by commas, "and" or "or" make one answer. "for all $x$", "after 4 hours", "more than
the $96" and the like hold circumstances, not answers.
"""

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile

from evals.math.asides import ASIDE, ASIDE_BRACKETS, CIRCUMSTANCE, LEADING_CLAUSE, NAMED_AMOUNT
from evals.math.formulas.words import NUMBER_WORDS, TENS
from evals.math.marks import MATH, PROSE, VALUE, trim
from evals.math.several import Stated, assignments, beside, extremes, together, with_count

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
_GOES_ON = re.compile(
    r",? (?:in |\()base[- ](?:\d+|[a-z]+)\)?"
    r"|,?\s*(?:and|with|plus|as well as|together with|up to)\s(?:[a-z]+\s){0,4}"
    r"(?:permutations?|orderings?)"
    r"|\s(?:square|cubic)\s(?:inch(?:es)?|feet|yards?|miles?|(?:centi|milli|kilo)?met(?:er|re)s?"
    r"|[cmk]?m)\b"
)
"""What belongs to a value after it: a base, its permutations, an area."""
_GROUP = r"[(\[{](?=[^()\[\]{}]{3,160}[)\]}])[^()\[\]{}]*\d[^()\[\]{}]*,[^()\[\]{}]*[)\]}]"
_RUN = (
    r"(?<!\S)[-−(]?(?:[\dπ√+\-*/^_().²³⁴!½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]|sqrt|arc|sin|cos|tan|log|ln|pi"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))+"
)
_PLAIN = re.compile(
    rf"{_GROUP}|{_RUN}(?=[,.;:!?]?(?:\s|$))(?:\s[-+*/·×]\s\S+)*"
    rf"(?!\s*(?:[x×*·]\s*10|,\d)|{_LARGE})|{_NUMBER}"
)
AND = re.compile(r"[\s.*]*(?:,|;|\band\b|\bor\b|,\s*(?:and|or)\b)[\s*]*")
_AMOUNT_IN_BRACKETS = re.compile(r"(?<=\s)[a-z]+\s\(([-−]?\d[^()]*)\)")
"""a week (7 days)"""
_OF_SIZE = re.compile(r"\s(?:[a-z]+ )?[a-z]{3,}s of\s(?!.)")
"""8 rows of 5"""
_NUMBER_WORDS = re.compile(
    rf"\b(?:{_UNIT})\b(?:[\s-](?:{_UNIT}|and(?=\s(?:{_UNIT}|a half))|(?:a )?half|halves|\w+ths?"
    r"|thirds?|quarters?)\b)*",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"(?:\b(?:is|are|equals|be)|:)\s+(?:(?:at|exactly|only|just)\s)?"
    r"((?:(?!\b(?:is|are|equals|be)\s|: ).)+)$"
)
"""What a line ends with after its last verb."""
_SENTENCES = re.compile(r"(?<=[a-z\d$)%*][.!?])(?<!\bMrs\.)(?<!\b[MD][rs]\.)\s+(?=[A-Z])")
_COMMENT = re.compile(r"(?:This|That|It|These|Here|Note|Notice|Remember|Check|Verif\w+)\b")
"""What begins a sentence about the answer before it."""
_CONCLUSION = re.compile(
    r"(?:[,.]\s*(?:so|therefore|thus|hence|which (?:means|leaves|gives|makes|brings|comes to)"
    r"|whose (?:sum|product|total|difference|average))\b|;|\bso\b(?! that| far| much| many)"
    r"|\b[Ww]ait,|\bor rather\b|,\s*(?:giving|yielding|totaling)\b|[⟹⇒])\s"
)
_COPULA = re.compile(
    r"(?:\b(?:is|are|equals|was|i\.e\.,?|namely,?)|=)\s(?:exactly |just |simply |therefore )?$"
)
_SAID_FIRST = re.compile(r"\*{0,2}\s(?:is|are)\s(?:the|our|an?)\s[a-z]{3}")
"""265 is the value of m + n."""
_SOLVED = re.compile(r"[A-Za-z]\s*=")
_UNSOLVED = re.compile(r"(?!\\?[A-Za-z]\w*(?:'|_[^=\s]+|\([^()]*\))?\s*=)[^=]+=")
"""3x + 3 = 61 and x = 58/3"""
_ORDERED = re.compile(
    r"\ball (?:real )?numbers (greater|larger|less|smaller) than( or equal to)? "
    r"\$?([-−]?[\d./]*\d|\\[^$\n]{2,40}(?=\$))\$?"
)
_SUBORDINATE = re.compile(
    r"\b(?:which|that|who|where|if|when|since|because|as|unless|while|whereas|whose|note"
    r"|suppose|assuming|given|provided)\b[^,;]*$"
)
_EQUATION = re.compile(
    r"(?:^|[\s:])((?:[A-Za-zα-ω]\w{0,2}'*(?:\([a-z](?:,\s?[a-z])*\))?|d[a-z]/d[a-z])\s*=[^=]+)$"
)


def last_value(line: str) -> tuple[str, str] | None:
    """The last value of the main clause of a line; of the last conclusion, where it has one."""
    line = _ORDERED.sub(_in_signs, line[-2_000:])
    *before, last = _SENTENCES.split(line)
    if before and not _COMMENT.match(last) and (found := _sentence_value(last)):
        return found
    return _sentence_value(line)


def _in_signs(match: re.Match[str]) -> str:
    """All real numbers greater than 2, as x > 2."""
    sign = ">" if match.group(1) in ("greater", "larger") else "<"
    return f"$x {sign}{'=' if match.group(2) else ''} {match.group(3)}$"


def conclusion(line: str) -> str:
    """The last sentence of a line, from its conclusion on, without a clause before the main one."""
    sentence = _SENTENCES.split(line[-2_000:])[-1]
    places = [match.end() for match in _CONCLUSION.finditer(sentence)]
    return LEADING_CLAUSE.sub("", sentence[places[-1] if places else 0 :]).strip()


def _sentence_value(line: str) -> tuple[str, str] | None:
    for clause in list(_CONCLUSION.finditer(line))[:-4:-1]:
        if found := _clause_value(line[clause.end() :]):
            return found
    main = LEADING_CLAUSE.sub("", line)
    return _clause_value(main) or _clause_value(line)


def _clause_value(line: str) -> tuple[str, str] | None:
    bare = _without_remarks(line)
    values = list(_values(bare))
    if not values:
        words = list(_NUMBER_WORDS.finditer(bare))
        if words:
            return words[-1].group(), "number in words"
        named = _AMOUNT_IN_BRACKETS.search(line)
        return (named.group(1), "number in brackets") if named else None
    line = bare
    if not line[: values[0].start].strip(" *") and _SAID_FIRST.match(line, values[0].end):
        return trim(values[0].text), f"last {values[0].kind}"
    if len(values) > 1 and (both := together(line, *values[-2:])):
        return both, "last formula"
    pair = extremes(line, 0, values[-1].start)
    if not pair and _ends_with(line, values[-1]):
        return trim(values[-1].text), f"last {values[-1].kind}"
    main = list(_central(line, values)) or values
    ends = len(line)
    for aside in ASIDE.finditer(line):
        before = [value for value in main if value.end <= aside.start() + 1]
        holds = any(not re.fullmatch(r"\s*(?:\\[a-z]+|[A-Za-z])\s*", v.text) for v in before)
        if holds:
            main, ends = before, min(ends, aside.start())
    if not pair and not any(value.kind == "formula" for value in values):
        if predicate := _predicate(line):
            return with_count(line, line.rfind(predicate), trim(predicate)), "last formula"
        if assigned := assignments(line):
            return assigned, "last formula"
        equation = _EQUATION.search(line.strip().rstrip("."))
        if equation and not PROSE.search(equation.group(1).partition("=")[2]):
            return trim(equation.group(1)), "last formula"
        equals = line.rfind("=", 0, ends)
        said = re.search(r"(?:i\.e\.|that is|namely),?\s", line[equals:]) if equals >= 0 else None
        equals += said.end() if said else 0
        after = [value for value in values if ends > value.start > equals >= 0]
        if after:
            joined = (AND.fullmatch(line[a.end : b.start]) for a, b in pairwise(after))
            listed = after[: 1 + sum(takewhile(bool, map(bool, joined)))]
            return ", ".join(trim(value.text) for value in listed), "last number"
    last = len(main) - 1
    parts = [main[last].text]
    while (
        last
        and AND.fullmatch(line[main[last - 1].end : main[last].start])
        and ("%" in main[last - 1].text) == ("%" in main[last].text)  # 40%, or 10
        and not (_SOLVED.match(main[last].text) and _UNSOLVED.match(main[last - 1].text))
    ):
        last -= 1
        parts.insert(0, main[last].text)
    if len(parts) == 1 and beside(line, main[last].start):
        return None
    if len(parts) == 1 and last and extremes(line, main[last - 1].end, main[last].start):
        parts.insert(0, main[last - 1].text)
    text = with_count(line, main[last].start, ", ".join(map(trim, parts)))
    return text, f"last {main[-1].kind}"


def _without_remarks(line: str) -> str:
    """A line with blanks for the words in brackets that are no part of a formula."""
    inside = {place for match in MATH.finditer(line) for place in range(*match.span())}
    return ASIDE_BRACKETS.sub(
        lambda match: match[0] if match.start() in inside else " " * len(match[0]), line
    )


def _ends_with(line: str, value: Stated) -> bool:
    """Whether a formula is all that comes after the verb of the last clause."""
    before = line[max(0, value.start - 200) : value.start]
    verb = _COPULA.search(before) if value.kind == "formula" else None
    return (
        verb is not None
        and not line[value.end :].strip(" .!")
        and not _SUBORDINATE.search(before[: verb.start()].lower())
    )


def _predicate(line: str) -> str | None:
    """The mathematics that a line ends with after its last verb; None where words are in it."""
    found = _PREDICATE.search(line.strip().rstrip("."))
    if found is None or ASIDE.search(line[: found.start(1)]):
        return None
    text = re.split(r"\bi\.e\.,?", found.group(1))[-1]
    bare = re.sub(r"\b(?:and|or)\b", "", text)
    return text if VALUE.search(bare) and not PROSE.search(bare) else None


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
            inside = before and _OF_SIZE.match(line, before, value.start)
            outside = value.kind == "number" and bool(circumstance or inside)
        before = value.end
        if not outside:
            yield value


def _values(line: str) -> Iterator[Stated]:
    """Formulas, and between them numbers and what is written of them in plain signs."""
    place = 0
    for match in MATH.finditer(line):
        yield from _numbers(line, place, match.start())
        text = next(group for group in (*match.groups()[:3], match.group(5)) if group is not None)
        more = _GOES_ON.match(line, match.end())
        place = more.end() if more else match.end()
        yield Stated(match.start(), place, text + (more.group() if more else ""), "formula")
    yield from _numbers(line, place, len(line))


def _numbers(line: str, start: int, end: int) -> Iterator[Stated]:
    place = start
    for match in _PLAIN.finditer(line, start, end):
        if match.start() < place:
            continue
        text = match.group().rstrip(".,;:")
        amount = re.fullmatch(r"\((\\?\$[\d,.]+|[\d.]+)\)", text)
        text = amount.group(1) if amount else text
        if VALUE.search(text):
            stop = match.start() + len(text)
            unit = _COUNTED.match(line, stop) or _GOES_ON.match(line, stop)
            place = unit.end() if unit else stop
            yield Stated(match.start(), place, text + (unit.group() if unit else ""), "number")
