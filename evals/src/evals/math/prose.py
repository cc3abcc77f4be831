"""The line of a text that states its answer, where no box, tag or heading marks it.

In the last line that says something: what is in bold type; else what its last sentence states.
"""

import re
from itertools import takewhile

from evals.math.clauses import AND, last_value
from evals.math.marks import PROSE, VALUE, has_value, trim

_BOLD = re.compile(r"\*\*(?!\s)([^*\n]+?)\*\*(?!\s*:)|__(?!\s)([^_\n]+?)__(?!\s*:)")
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
_CLOSING = re.compile(
    r"\b(?:hope|let me know|feel free|any questions|glad|happy to|thank|good luck)\b", re.IGNORECASE
)


def stated(tail: str) -> tuple[str, str] | None:
    """The answer at the end of a text and the name of the rule; None where there is none."""
    lines = [line for line in tail.splitlines() if line.strip(" *_#-")]
    while len(lines) > 1 and (
        _NOTE.match(lines[-1])
        or re.fullmatch(r"\s*\([^()]*\)\W*", lines[-1])
        or (_CLOSING.search(lines[-1]) and not VALUE.search(lines[-1]))
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
    if has_value(text):
        parts = [text]
        for earlier, later in zip(found[-2::-1], found[:0:-1], strict=True):
            if not AND.fullmatch(line[earlier.end() : later.start()]):
                break
            parts.insert(0, earlier.group(1) or earlier.group(2))
        if len(parts) == 1 and PROSE.search(text) and not re.match(r"[-−$\\\d(]", text):
            return last_value(text) or (text, "bold")
        return ", ".join(map(trim, parts)), "bold"
    rest = line[last.end() :]
    if (
        has_value(rest)
        or rest.lstrip().startswith(",")
        or line[: last.start()].rstrip()[-1:].isdigit()
    ):
        return None
    if re.fullmatch(r"\(?[A-E]\)?", text) and (said := last_value(line[: last.start()])):
        return f"({text.strip('()')}) {said[0]}", "bold"
    return trim(text), "bold"
