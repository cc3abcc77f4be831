"""Find the final answer in a response.

What comes before the last `</think>` is the solver's own affair. In the rest, in this order: the
last `<answer>` tag, the last box (adjacent boxes joined by "and" or a comma make one answer),
`#### x`, a final-answer phrase, the text itself when it is one line of mathematics, the last value
of the last line. A last box that never closes is ill-formed; no earlier box stands in for it. A
box or phrase inside an answer tag counts before the tag's other text.
"""

import re
from dataclasses import dataclass

TAIL = 20_000
"""Characters at the end of a response in which phrases and last values are looked for."""
MAX_BOX = 20_000
"""Characters in which a box must close."""

_OPEN, _CLOSE = "<think>", "</think>"
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
_BETWEEN = re.compile(
    r"[\s$.,;]*(?:\\\)|\\\]|\\text\{)?[\s$,;]*(?:(?:and|or|,)[\s}$]*)"
    r"(?:\\\(|\\\[|\\text\{)?[\s$]*(?:[A-Za-z]\w?(?:_\w)?\s*=\s*)?[\s$]*"
)
_PHRASE = re.compile(
    r"(?:final\s+answer|answer|ans)\s*(?:\*\*|\*|__)?\s*"
    r"(?:is\b|are\b|=|:|would be\b|must be\b)+\s*(?:therefore|thus|simply|just)?\s*:?\s*(?:\*\*)?"
    r"|^\s*A\s*:\s*",
    re.IGNORECASE | re.MULTILINE,
)
_MATH = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<!\\)\$(?!\s*\d[\d,.]*\s+[A-Za-z])([^$\n]+?)(?<!\\)\$",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?<![\w.])[-−+]?\s?\$?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:/\d+)?%?"
)
_SENTENCE = re.compile(r"[.!?](?=\s+[A-Z(]|\s*$)|,\s+(?:not|because|since|so|as|which)\b")
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{3,}")


@dataclass(frozen=True)
class Extraction:
    """text: the answer, None where there is none. rule: how it was found, or what is wrong."""

    text: str | None
    rule: str


def extract(response: str) -> Extraction:
    """The final answer of a response of any length, in time linear in it."""
    body = response
    closed = response.rfind(_CLOSE)
    if closed >= 0:
        body = response[closed + len(_CLOSE) :]
    if _OPEN in body:
        body = body[: body.index(_OPEN)]
        if not body.strip():
            return Extraction(None, "only thoughts")
    if not body.strip():
        return Extraction(None, "only thoughts" if closed >= 0 else "empty")
    tag = body.rfind("<answer>")
    if tag >= 0:
        inside = body[tag + len("<answer>") :].partition("</answer>")[0]
        if not inside.strip():
            return Extraction(None, "empty answer tag")
        found = _box(inside) or _phrase(inside[-TAIL:]) or _line(inside)
        if found is None:
            return Extraction(_trim(inside), "answer tag")
        return Extraction(found.text, found.rule if found.text is None else "answer tag")
    tail = body[-TAIL:].replace("**", "")
    return (
        _box(body)
        or _hashes(tail)
        or _phrase(tail)
        or (_whole(tail) if len(body) < TAIL else None)
        or _last_value(tail)
        or _short(body)
        or Extraction(None, "no answer")
    )


def _box(body: str) -> Extraction | None:
    start = max(body.rfind("\\boxed"), body.rfind("\\fbox"), body.rfind("\\framebox"))
    if start < 0:
        return None
    last = _content(body, start)
    if last is None:
        return Extraction(None, "unterminated box")
    if not last.strip():
        return Extraction(None, "empty box")
    boxes, window = [last], max(0, start - MAX_BOX)
    earlier = list(_BOX.finditer(body, window, start))
    for match in reversed(earlier[-16:]):
        content = _content(body, match.start())
        end = None if content is None else match.end() + len(content) + 2
        if content is None or end is None or end > start:
            break
        if not _BETWEEN.fullmatch(body[end:start]):
            break
        boxes.insert(0, content)
        start = match.start()
    return Extraction(", ".join(map(_trim, boxes)), "box" if len(boxes) == 1 else "boxes")


def _content(body: str, start: int) -> str | None:
    """What the box at `start` holds; None when it never closes."""
    match = _BOX.match(body, start)
    if match is None:
        return None
    begin = match.end()
    if body[begin : begin + 1] != "{":
        return body[begin : begin + 1].strip("$\\") if match.group().endswith(" ") else None
    depth, place = 0, begin
    while place < min(len(body), begin + MAX_BOX):
        character = body[place]
        if character == "\\":
            place += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return body[begin + 1 : place]
        place += 1
    return None


def _hashes(tail: str) -> Extraction | None:
    place = tail.rfind("####")
    if place < 0:
        return None
    text = _trim(tail[place + 4 :].strip().partition("\n")[0])
    return Extraction(text, "####") if text else Extraction(None, "nothing after ####")


def _phrase(tail: str) -> Extraction | None:
    matches = list(_PHRASE.finditer(tail))
    for match in reversed(matches):
        rest = tail[match.end() :].lstrip(" \t:*\n")
        if rest:
            return Extraction(_value_of(rest), "phrase")
    return None


def _value_of(rest: str) -> str:
    """The answer at the start of `rest`: its first formula, or its first sentence."""
    formula = _MATH.match(rest)
    if formula:
        return _trim(next(group for group in formula.groups() if group is not None))
    line = rest.partition("\n")[0]
    end = _SENTENCE.search(line)
    sentence = line[: end.start()] if end else line
    if _PROSE.search(sentence):
        found = _last_value(sentence)
        if found is not None and found.text is not None and not re.match(r"[$\d\-]", sentence):
            return found.text
    return _trim(sentence)


def _line(body: str) -> Extraction | None:
    """The last value of a sentence in an answer tag; None where the tag holds mathematics."""
    return _last_value(body[-TAIL:]) if _is_prose(body[-TAIL:]) else None


def _whole(body: str) -> Extraction | None:
    text = body.strip().strip("*")
    if "\n" in text or len(text) > 400 or _is_prose(text):
        return None
    return Extraction(_trim(text), "whole text")


def _short(body: str) -> Extraction | None:
    """A few words, for answers that are words."""
    text = body.strip()
    return Extraction(_trim(text), "whole text") if len(text) <= 60 and "\n" not in text else None


def _is_prose(text: str) -> bool:
    """Whether a text is a sentence, not a value with or without a unit."""
    words = len(_PROSE.findall(text))
    return words > 3 or (words > 1 and not re.match(r"\s*[-$\\(\[]?\s*\d", text))


def _last_value(tail: str) -> Extraction | None:
    lines = [line for line in tail.splitlines() if line.strip()]
    if not lines:
        return None
    line = lines[-1]
    if "$$" in line or "\\]" in line:
        line = tail
    formulas = list(_MATH.finditer(line))
    numbers = [match for match in _NUMBER.finditer(line) if any(map(str.isdigit, match.group()))]
    if formulas and (not numbers or numbers[-1].end() <= formulas[-1].end()):
        text = next(group for group in formulas[-1].groups() if group is not None)
        return Extraction(_trim(text), "last formula")
    if numbers:
        equals = line.rfind("=")
        after = [match for match in numbers if match.start() > equals >= 0]
        return Extraction(_trim((after[0] if after else numbers[-1]).group()), "last number")
    return None


def _trim(text: str) -> str:
    """Without the marks of mathematics mode, bold type and the full stop around an answer."""
    text = text.strip().strip("*").strip()
    for left, right in (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$")):
        if text.startswith(left) and text.endswith(right) and len(text) > len(left + right):
            inner = text[len(left) : -len(right)]
            if left not in inner:
                text = inner.strip()
    return text.rstrip(".").strip() if not text.endswith("\\.") else text
