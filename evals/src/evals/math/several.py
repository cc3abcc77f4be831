"""Values that a sentence states beside each other: a number of things and their list, and amounts
of one unit of which none is said to be the answer."""

import re
from dataclasses import dataclass

from evals.math.formulas.notation import split
from evals.math.formulas.words import NUMBER_WORDS
from evals.math.marks import trim

_COUNT = re.compile(
    rf"(?<![\w.$^{{])(\d{{1,3}}|{'|'.join(NUMBER_WORDS[2:])})\b(?:\s[A-Za-z$,\\() ]{{0,80}})?:\s"
)
_AND = re.compile(r",?\s*\b(?:and|or)\b")
_SIDE = r"(?:from|on|in|at|to|for|of|by|with|as)\s[^\d;:=]{1,60}"
_COMPOUND = (
    r"(?:hours?|minutes?|seconds?|dollars?|cents?|feet|inch(?:es)?|days?|weeks?|years?|months?)"
)
_BESIDE = re.compile(
    rf"(?<![\w.,$])\d[\d,.]* ([a-z]{{3,}}) {_SIDE}\band (?P<second>\d[\d,.]*) \1 {_SIDE}$"
    rf"|(?<![\w.,$=])(?<!= )\d[\d,.]*(?: (?!{_COMPOUND})[a-z]{{3,}}){{1,3}}"
    rf" and (?P<other>\d[\d,.]*)(?: (?!{_COMPOUND})[a-z]{{3,}}){{1,3}}$"
)
_EXTREMES = re.compile(
    r"\b(?:min|small|least|low|short)(?=.*\b(?:max|larg|great|high|long|big))"
    r"|\b(?:max|larg|great|high|long|big)(?=.*\b(?:min|small|least|low|short))",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"\s*,?\s*\(?(?:except|excluding|other than|but not)(?: for| at| that| when| where)?\s*"
)
_AGAIN = re.compile(r"\s*,?\s*(?:i\.e\.|that is|namely),?\s*")
_AND_THE = re.compile(r",?\s(?:and|while)\s(?:the|its)\s[\w\s-]{2,40}\sis\s")
_NAME = r"(?<![\w$\\])[A-Za-z]\w?(?:\(\w{1,4}\))?(?= ?= ?)"
_IS = rf"{_NAME} ?= ?[-−]?[^\s,=$]*[^\s,=$A-Za-z][^\s,=$]*"
_ASSIGNED = re.compile(rf"{_IS}(?:(?:, and |, | and ){_IS})+$")
_ORDER = re.compile(r"[<>≤≥]|\\[lg]eq?(?![a-z])")
_NAMED = re.compile(r"[A-Za-z]\s*(?:=|\\neq?|≠)\s*")


@dataclass(frozen=True)
class Stated:
    """A value in a line. kind: "formula" or "number"."""

    start: int
    end: int
    text: str
    kind: str


def assignments(line: str) -> str | None:
    """The values that a line names at its end: d(6) = 1/3, d(16) = 1 and d(72) = 1/9."""
    found = _ASSIGNED.search(line[-400:].rstrip(" ."))
    names = re.findall(_NAME, found.group()) if found else []
    return _AND.sub(",", found.group()).strip() if found and len(set(names)) == len(names) else None


def extremes(line: str, first: int, second: int) -> bool:
    """Whether the values that end at `first` and begin at `second` are a smallest and a largest:
    the minimum is 1 and the maximum is 5."""
    found = _EXTREMES.search(line[max(first - 200, 0) : second])
    joined = re.search(r"(?:\band|,|;|\bwhile|\bwhereas)\s[^,;]{3,60}\s$", line[first:second])
    return found is not None and joined is not None


def together(line: str, first: Stated, second: Stated) -> str | None:
    """The answer that two values make, each of which alone is half of it or says it again."""
    if _EXCEPT.fullmatch(line, first.end, second.start):  # 0 < x < 36 except x = 9
        points = _NAMED.sub("", trim(second.text))
        joined = r", x \neq " if _ORDER.search(first.text) else r" \text{ except } "
        return trim(first.text) + joined + points
    part = line[: first.start].endswith("of ")
    if not part and _AGAIN.fullmatch(line, first.end, second.start):
        return f"{trim(first.text)}, i.e. {trim(second.text)}"
    names = [_NAMED.match(value.text) for value in (first, second)]
    if (
        all(names)
        and len({name.group()[0] for name in names if name}) == 2
        and _AND_THE.fullmatch(line, first.end, second.start)
    ):  # the slope is m = 1 and the intercept is b = 2
        return f"{first.text}, {second.text}"
    return None


def with_count(line: str, start: int, listed: str) -> str:
    """Listed values after their number, where the sentence names it: `3: 1, 2, 5`."""
    count = _count_before(line, start, _length(listed))
    return f"{count}: {listed}" if count else listed


def _length(listed: str) -> int:
    return len(split(_AND.sub(",", listed), (",",)))


def _count_before(line: str, start: int, listed: int) -> str | None:
    counts = list(_COUNT.finditer(line, max(0, start - 120), start))
    if not counts or line[counts[-1].end() : start].strip(" $\\([*"):
        return None
    said = counts[-1].group(1)
    count = int(said) if said.isdigit() else NUMBER_WORDS.index(said)
    return str(count) if count == listed else None


def readings_of_count(text: str) -> tuple[str, ...]:
    """The two answers of `8: 1, 2, ...`: the count, and the list of so many values."""
    count, _, rest = text.partition(": ")
    if count.isdigit() and int(count) > 1 and _length(rest) == int(count):
        return count, rest
    return ()


def beside(line: str, start: int) -> bool:
    """Whether the number at `start` is the second of two: 27 miles from A and 18 miles from B."""
    found = _BESIDE.search(line[max(0, start - 200) :].rstrip(" ."))
    return found is not None and found.start(found.lastgroup or 0) == min(start, 200)
