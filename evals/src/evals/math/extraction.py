"""Find the final answer in a response.

What comes before the last `</think>` is the solver's own affair. In the rest, in this order: the
last `<answer>` tag, the last box (adjacent boxes joined by "and" or a comma make one answer),
`#### x`, a final-answer phrase, the text itself when it is one line of mathematics, the last value
of the last line. A last box that never closes is ill-formed; no earlier box stands in for it. A
box or phrase inside an answer tag counts before the tag's other text.
"""

import re
from dataclasses import dataclass

from evals.math.clauses import conclusion
from evals.math.marks import MATH, has_words, is_prose, marked, trim
from evals.math.prose import BROKEN_OFF, stated
from evals.math.several import extremes

TAIL = 20_000
"""Characters at the end of a response in which phrases and last values are looked for."""
MAX_BOX = 20_000
"""Characters in which a box must close."""

_OPEN, _CLOSE = "<think>", "</think>"
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
_BETWEEN = re.compile(
    r"[\s$.,;]*(?:\\\)|\\\]|\\text\{)?[\s$,;]*(?:(?:and|or|,)[\s}$]*)"
    r"(?:\\\(|\\\[|\\text\{)?[\s$]*(?:[A-Za-z]\w?(?:_\w|\([^()=$]{1,12}\))?\s*=\s*)?[\s$]*"
)
_SPACE = re.compile(r"\\q?quad(?![A-Za-z])|\\[,;:! ]|\\text\{(?=\s*,?\s*(?:and|or)\s*\})")
_MARKS = re.compile(r"\$|\\[()\[\]]")
_NAMED = re.compile(r"(?<![A-Za-z\\])([A-Za-z])\s*=[\s$]*$")
"""The letter whose value a box holds."""
_BELOW = re.compile(
    r"_\{?(\d+|[a-z]+)\}?|(?:\$|\\\))?[\s~]*(?:\\text\{)?\s*\(?(?:in )?base[- ](\d+|[a-z]+)"
)
"""The base of a number in a box, after the box."""
_ORDERS = re.compile(
    r"(?:\$|\\\))?[\s,]*((?:\\text\{)?\s*(?:and|with|plus) (?:[a-z]+ ){0,3}permutations)"
)
"""Tuples that are meant in every order, after a box."""
_QUESTION = re.compile(r"\n\s*(?:Q|Question|Problem|Human|User)\s*\d*\s*:")
_END = re.compile(r"<\|(?:endoftext|im_end|eot_id|end)\|>|</s>$")
"""Where a model ended its text."""
_PHRASE = re.compile(
    r"(?:final\s+answer|answer|\bans|答案)\s*(?:\*\*|\*|__)?\s*(?:to (?:the|this)[^.:\n]{0,60}?\s)?"
    r"(?:is\b|are\b|=|:|：|是|为|(?:would|must|should|will|can only|has to) be\b|becomes\b|equals\b"
    r"|comes out (?:to|as)(?: be)?\b)+"
    r"\s*(?:therefore|thus|simply|just|then|indeed|exactly|given by)?\s*:?\s*(?:\*\*)?"
    r"|^\s*A\s*:\s*|answer\s+(?=[-−$\\]{0,2}[\d.,/]+\W*$)",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD = re.compile(
    r"[\"'](?:final[ _])?answer[\"']\s*:\s*(?:\"([^\"\n]*)\"|([^\",}\n]+))", re.IGNORECASE
)
_LEADS = re.compile(r"(?:\b(?:is|are|equals|be)|:)\W*$")
"""The end of a line that the next line completes."""
_AS_ASKED = re.compile(r",?\s+as (?:required|desired|claimed|expected|needed|wanted|asked)\W*$")
_REMARK = re.compile(r"\s+\((?!(?:in )?base\b)[^()]*[A-Za-z]{3}[^()]*\)\s*$")
_BOLD = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)")
_PRAISE = re.compile(
    r"(?:indeed |not |also |now |thus )*(?:correct|incorrect|right|wrong|valid|reasonable|clear"
    r"|verified|found|consistent|confirmed|unique|obtained|given|as follows)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:sorry|could not|couldn't|cannot|can't|unable|don't|too hard|not sure)\b", re.IGNORECASE
)
_GOES_ON = re.compile(r"\$,\s[a-z]{4}|\$\s(?:for|if|when|where|with)\s")
"""Where a text goes on after a formula in words that are no unit."""
_JOINED = re.compile(r"\s*(?:,|;|,?\s*(?:and|or)\b)\s*(?=\$|\\\()")
_AGAIN = re.compile(r",?\s*(?:i\.e\.|that is|namely|or equivalently),?\s*(?=\$|\\\()")
_THEREFORE = re.compile(
    r",?\s*(?:and\s)?(?:so|thus|hence|therefore),?\s[^.$\n]{0,80}\b(?:is|are|equals)\s*(?=\$|\\\()"
)
"""What leads from a formula to the one that it gives."""
_HEADING = re.compile(r"^[\W_]*(?:final\s+)?answer[\W_]*\n+(?=[^\n])", re.IGNORECASE | re.MULTILINE)
_SENTENCE = re.compile(
    r"[.!?](?=\**\s+[A-Z(]|\**\s*$)|;\s|,\s+(?:not|because|since|so|as|which|who|whose|where|if|when|while|unless|assuming|given)\b|\s[—–]\s(?=[a-z])"
)


@dataclass(frozen=True)
class Extraction:
    """text: the answer, None where there is none. rule: how it was found, or what is wrong."""

    text: str | None
    rule: str


def extract(response: str, words: bool = False) -> Extraction:
    """The final answer of a response of any length, in time linear in it.

    words: it is words or the letter of a choice, for which no value of a sentence stands in.
    """
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
    body = _before_next_question(_END.split(body.strip())[0] or body)
    tag = body.rfind("<answer>")
    if tag >= 0:
        inside = body[tag + len("<answer>") :].partition("</answer>")[0]
        if not inside.strip():
            return Extraction(None, "empty answer tag")
        tail = marked(inside[-TAIL:])
        found = _box(inside) or _phrase(tail, words) or _line(tail, words)
        if found is None:
            return Extraction(trim(tail if len(inside) <= TAIL else inside), "answer tag")
        return Extraction(found.text, found.rule if found.text is None else "answer tag")
    tail = marked(body[-TAIL:])
    return (
        _box(body)
        or _hashes(tail)
        or _field(tail)
        or _phrase(tail, words)
        or (_whole(tail) if len(body) < TAIL else None)
        or _stated(tail, words)
        or _short(body, words)
        or Extraction(None, "no answer")
    )


def _before_next_question(body: str) -> str:
    """A text that answers, and then makes up the next question, without what comes after."""
    for match in _QUESTION.finditer(body[:TAIL], 1):
        head = body[: match.start()]
        if head.strip() and (_box(head) or _hashes(head) or _phrase(head)):
            return head
    return body


def _box(body: str) -> Extraction | None:
    start = max(body.rfind("\\boxed"), body.rfind("\\fbox"), body.rfind("\\framebox"))
    if start < 0:
        return None
    last = _content(body, start)
    if last is None:
        return Extraction(None, "unterminated box")
    if not last.strip():
        return Extraction(None, "empty box")
    name = _NAMED.search(body, max(0, start - 40), start)
    names = [name.group(1) if name else ""]
    below = _BELOW.match(body, body.find("{", start) + len(last) + 2)
    base = f"_{{{below.group(1) or below.group(2)}}}" if below and "_" not in last else ""
    orders = _ORDERS.match(body, body.find("{", start) + len(last) + 2)
    boxes, window = [last + base + (orders.group(1) if orders else "")], max(0, start - MAX_BOX)
    earlier = list(_BOX.finditer(body, window, start))
    for match in reversed(earlier[-16:]):
        content = _content(body, match.start())
        end = None if content is None else match.end() + len(content) + 2
        if content is None or end is None or end > start:
            break
        if start - end >= 120 or not _adjacent(body[max(0, end - 200) : end], body[end:start]):
            break
        boxes.insert(0, content)
        start = match.start()
        name = _NAMED.search(body, max(0, start - 40), start)
        names.insert(0, name.group(1) if name else "")
    if len(boxes) == 1:
        return Extraction(trim(boxes[0]), "box")
    if all(names) and len(set(names)) == len(names):
        boxes = [f"{name} = {trim(box)}" for name, box in zip(names, boxes, strict=True)]
    return Extraction(", ".join(map(trim, boxes)), "boxes")


def _adjacent(before: str, between: str) -> bool:
    """Whether two boxes make one answer: by what joins them, or as a smallest and a largest."""
    if _BETWEEN.fullmatch(_SPACE.sub(" ", between)):
        return True
    line = _MARKS.sub(" ", before)
    return extremes(line + _MARKS.sub(" ", between), len(line), len(line) + len(between))


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
    text = trim(tail[place + 4 :].strip().partition("\n")[0])
    return Extraction(text, "####") if text else Extraction(None, "nothing after ####")


def _field(tail: str) -> Extraction | None:
    """The last field "answer" of an object in JSON or the like."""
    fields = _FIELD.findall(tail)
    text = trim((fields[-1][0] or fields[-1][1]).replace("\\\\", "\\")) if fields else ""
    return Extraction(text, "field") if text else None


def _phrase(tail: str, words: bool = False) -> Extraction | None:
    """What follows the last final-answer phrase, but for "the answer is correct"."""
    matches = [*_PHRASE.finditer(tail), *_HEADING.finditer(tail)]
    for match in sorted(matches, key=lambda match: -match.end())[:16]:
        rest = tail[match.end() :].lstrip(" \t:*\n")
        if not rest:
            continue
        if "would" in match.group() and re.match(r"[^.\n]{0,80}\bif\b", rest):
            continue
        text = _value_of(rest, words)
        if not _PRAISE.match(text):
            return Extraction(text, "phrase")
    return None


def _value_of(rest: str, words: bool = False) -> str:
    """The answer at the start of `rest`: its first formulas, or its first sentence."""
    formula = MATH.match(rest)
    if formula:
        parts, place = [], 0
        while formula:
            groups = (*formula.groups()[:3], formula.group(5))
            parts.append(next(group for group in groups if group is not None))
            place = formula.end()
            joined = _JOINED.match(rest, place)
            formula = MATH.match(rest, joined.end()) if joined else None
        if then := _THEREFORE.match(rest, place):
            return _value_of(rest[then.end() :])
        text = ", ".join(map(trim, parts))
        again = _AGAIN.match(rest, place)
        return f"{text}, i.e. {_value_of(rest[again.end() :])}" if again else text
    line = rest.partition("\n")[0]
    goes_on = rest[len(line) :].strip()
    if goes_on and has_words(line) and _LEADS.search(line):
        return _value_of(goes_on, words)
    end = _SENTENCE.search(line)
    sentence = line[: end.start()] if end else line
    if not words and has_words(sentence) and not re.match(r"\\?[$\d\-]", sentence):
        found = stated(sentence)
        if found is not None:
            return found[0]
    return trim(_REMARK.sub("", _BOLD.sub("", sentence)))


def _line(body: str, words: bool) -> Extraction | None:
    """The last value of a sentence in an answer tag; None where the tag holds mathematics."""
    return _stated(body, words) if is_prose(body) else None


def _whole(body: str) -> Extraction | None:
    text = re.sub(r"^(?:So|Thus|Hence|Therefore|Then|Finally)\b,?\s*", "", body.strip().strip("*"))
    text = _AS_ASKED.sub("", text)
    if "\n" in text or len(text) > 400 or "**" in text or is_prose(text):
        return None
    if re.search(r"[.!?]\$?\s+[A-Z][a-z]|(?<=\s)(?:is|are|so|lies|lie|equals|has)\s", text):
        return None
    value = MATH.search(text) or re.search(r"\d", text)
    if value and (has_words(text[: value.start()]) or _GOES_ON.search(text)):
        return None
    return Extraction(trim(text), "whole text")


def _stated(tail: str, words: bool = False) -> Extraction | None:
    found = stated(tail)
    return Extraction(*found) if found and not (words and found[1] != "bold") else None


def _short(body: str, words: bool) -> Extraction | None:
    """The words of a short last line; of its conclusion, where the answer is words."""
    line = body[-TAIL:].strip().splitlines()[-1].replace("**", "")
    text = trim(conclusion(line) if words else line)
    unfit = len(text) > 120 or _REFUSAL.search(text) or BROKEN_OFF.search(text)
    return None if unfit else Extraction(text, "words")
