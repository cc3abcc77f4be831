"""The right answer of a row, in one form, and the marked final answer of a response.

Ignored: thoughts, and turns that the model invents. The answer is, in this order: the last
`<answer>` tag, the last box (adjacent boxes joined by "and" or a comma make one answer), `#### x`,
a final-answer phrase, or the text itself if it is one line of few words. Prose without such a mark
has no answer. A last box that never closes is ill-formed, even after other boxes. Inside an answer
tag, a box or a phrase is preferred to the other text.
"""

import re
from dataclasses import dataclass
from numbers import Number
from typing import NamedTuple

from evals.errors import EvalsError
from evals.math.notation import GOLD_RULES, MAX_LENGTH, PATTERNS, closing, plain, tokens
from evals.math.units import canonical_unit, measure
from evals.math.words import in_digits
from evals.recipes import Template, own_turn


@dataclass(frozen=True)
class Gold:
    """A right answer. text: LaTeX. kind: "value", "text" (words) or "choice" (a letter). unit: of
    the answer, if the row names it; with "percent" both 8 and 8% are right. measured: whether it is
    a rounded amount, so that an answer may say "about"."""

    text: str
    kind: str = "value"
    unit: str = ""
    measured: bool = False


_THOUSANDS = re.compile(
    r"(-?[£€¥₹]?\s*)(\d{1,3}(?:(?:,|,?\\[!,:;]\s*|\{,\}| )\d{3})+)"
    r"((?:\.\d+)?(?:\s*\\\w+\s*\{[^{}\d\\]*\}(?:\^\S+)?|\s*\\?%"
    r"|\s+(?!and\b|or\b)(?:[A-Za-z]{2}|[ghmsACFJKLMNVW]\b)[^,;]*)?)"
)
"""An amount with separated thousands, its sign, decimals and unit."""
_CHOICE = re.compile(r"(?:\\(?:text|math|bold)\w*\s*\{\s*)?\(?\s*([A-J])\s*\)?\s*\}?")
TEXT = re.compile(r"\\(?:text|textbf|mathrm)\s*\{\s*([^{}]*[A-Za-z]{2,}[^{}]*?)\s*\}")


def canonical_gold(raw: object, question: str = "", unit: str = "", measured: bool = False) -> Gold:
    """Return the gold of a row. raw: a text, a number, or a list of values that are all required;
    for others raises EvalsError. question: may ask for a percentage or name a unit. unit: from a
    column of the row. measured: see `Gold`."""
    if isinstance(raw, list | tuple) and raw:
        raw = ", ".join(canonical_gold(part).text for part in raw) if len(raw) > 1 else raw[0]
    odd_type = isinstance(raw, bool) or not isinstance(raw, str | Number)
    if odd_type or str(raw) in ("", "nan", "inf", "-inf"):
        raise EvalsError(f"the right answer is {raw!r:.80}; expected a text, a number or a list")
    text = plain(str(raw)).strip()
    money = "\\$" in text
    for pattern, put in GOLD_RULES:
        text = pattern.sub(put, text).strip()
    if parts := _THOUSANDS.fullmatch(text):
        text = parts[1] + re.sub(r"\D", "", parts[2]) + parts[3]
    if choice := _CHOICE.fullmatch(text):
        return Gold(choice[1], "choice")
    if words := TEXT.fullmatch(text):
        return Gold(words[1], "text")
    if _is_plain_text(text):
        return Gold(text, "text")
    unit = "degree" if "circ" in unit else canonical_unit(unit.strip("$ "))
    unit = unit or _unit_of(question) or ("dollar" if money else "")
    unit = unit or ("percent" if text.endswith("%") else "")
    return Gold(text, "value", unit, measured)


def _unit_of(question: str) -> str:
    """The unit in which a question asks: percent, or the only one in its last sentence; else ""."""
    if PATTERNS["asks_percent"].search(question):
        return "percent"
    end = question.rfind("?") if "?" in question else len(question.rstrip(" ."))
    sentence = question[max(question.rfind(mark, 0, end) for mark in (". ", "? ", "! ")) + 1 : end]
    units = {canonical_unit(text) for text in PATTERNS["asks_unit"].findall(sentence)}
    units = {unit for unit in units if measure(unit)[0]}
    return units.pop() if len(units) == 1 else ""


def _is_plain_text(text: str) -> bool:
    """Whether a right answer is words: New York, yes; not abc, alpha, or two thirds."""
    spelled = not re.fullmatch(r"[A-Za-z]{2,}(?:[ '-][A-Za-z]+)*", text) or in_digits(text) != text
    if spelled or len(text) > MAX_LENGTH or {t.kind for t in tokens(text, True)} - {"text"}:
        return False
    return any(len(word) > 3 or word.lower() in ("yes", "no", "odd") for word in text.split())


TAIL = 20_000
"""Characters at the end of a response in which phrases are looked for."""
MAX_BOX = 20_000
"""Characters in which a box must close."""
MAX_LINE = 400
"""Characters of a response that is nothing but its answer."""

_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
_BASE = re.compile(r"_\{?(\d+|[a-z]+)\}?|[\s$~)\\]*+(?:text\{\s*+)?\(?(?:in )?base[- ](\d+|[a-z]+)")
"""The base of a number in a box, after the box."""
_NO_VALUE = re.compile(r"(?:indeed )?(?:in)?(?:correct|right|wrong|valid|verified|consistent)\b")
"""Words after "the answer is" that are no answer."""
_EXCLAIMED = re.compile(r"(?<=\d)!(?=\**(?:\s+[A-Z]|\s*$))")
"""The end of a sentence, which is no factorial: The answer is 42!"""
_JOINED = re.compile(
    r"\s*(?:,|;|,?\s*(?:and|\(?or)\b|(?P<words>[A-Za-z ]{0,30}\b(?:and|or|times|plus|minus|through"
    r"|in base|to(?!\W*\d\W*(?:decimal|significant))|(?:for(?: all)?|if|when)"
    r"(?=\W[^\n]{1,80}?(?:\$|\\\))[a-z ]*(?:[,;]|\b(?:and|or)\b)))|&|[–-]))\s*(?=\$|\\\()"
)
"""What joins two formulas to one answer: $3$ to $5$. A condition does if a value may follow it."""
_AFTER = re.compile(
    r"\s*(?:(?P<words>(?:\((?!and\b))?[A-Za-z])|[/_^!*+=<>\[\\-])(?:[^.,;:\n$]|\.(?=\S))*"
)
"""Text right after a formula that names its unit or changes its value: $3$ dozen."""
_LEAD = re.compile(r"^[.… ]*(?:So|Thus|Hence|Therefore|Then|Finally)\b,?\s*", re.I)
_WORD = re.compile(r"(?<![\\A-Za-z{])(?!(?:sqrt|sin|cos|tan|arc|log|exp|pi|and)\b)[A-Za-z]{3,}")


class Extraction(NamedTuple):
    """text: the answer, or None. rule: where it was found, or why there is none."""

    text: str | None
    rule: str


def extract(response: str, template: Template | None = None) -> Extraction:
    """Return the marked final answer of a response, in linear time. template: of the prompt, whose
    turns end the response."""
    body = own_turn(response, template, _answered).strip()
    if not body:
        return Extraction(None, "only thoughts" if response.strip() else "empty")
    tag = body.rfind("<answer>")
    if tag >= 0:
        inside = body[tag + len("<answer>") :].partition("</answer>")[0]
        if not inside.strip():
            return Extraction(None, "empty answer tag")
        tail = _plain(inside[-TAIL:])
        inner = _box(inside) or _phrase(tail) or Extraction(_value_of(tail.strip()), "")
        return Extraction(inner.text, inner.rule if inner.text is None else "answer tag")
    tail = _plain(body[-TAIL:])
    extraction = _box(body) or _hashes(tail) or _phrase(tail) or _line(tail, len(body))
    return extraction or Extraction(None, "no answer")


_LAST_SPACE = re.compile(
    r"(?<![\s~\\])(?<!\\[,;:!])(?<!quad)(?:\s|~|\\(?:[\s,;:!]|q?quad(?![a-z])|$))++$"
)
"""Space at the end; a match begins only where a run of spaces begins, which takes linear time."""


def trim(text: str) -> str:
    """Return an answer without quotes, marks of formulas and bold type, and its full stop."""
    text = _LAST_SPACE.sub("", text.strip().strip("*")).strip().rstrip("。")
    for left, right in map(str.split, (r"\( \)", r"\[ \]", "$$ $$", "$ $", '" "', "“ ”")):
        if text.startswith(left) and text.endswith(right) and len(text) > len(left + right):
            inner = text[len(left) : -len(right)]
            if left not in inner:
                text = inner.strip()
    return text if text.endswith(("\\.", "...")) else text.rstrip(".").strip()


def _plain(text: str) -> str:
    """The text with bold type as asterisks, code as formulas, no calculator's notes of GSM8K."""
    text = re.sub(r"</?(?:b|strong)>", "**", re.sub(r"<<[^<>\n]*>>", "", text))
    return re.sub(r"(?<![`\w])`([^`\n$]+)`(?!`)", r"$\1$", text)


def _answered(part: str) -> object:
    return "</answer>" in part or _box(part) or _hashes(part[-TAIL:]) or _phrase(part[-TAIL:])


def _box(body: str) -> Extraction | None:
    start = max(body.rfind("\\boxed"), body.rfind("\\fbox"), body.rfind("\\framebox"))
    if start < 0:
        return None
    text, rule = _content(body, start), "box"
    if text is None:
        return Extraction(None, "unterminated box")
    if not text.strip():
        return Extraction(None, "empty box")
    base = _BASE.match(body, body.find("{", start) + len(text) + 2)
    if base and text.strip().isdigit():
        text = f"{text}_{{{base[1] or base[2]}}}"
    for match in list(_BOX.finditer(body, max(0, start - MAX_BOX), start))[:-17:-1]:
        content = _content(body, match.start())
        end = match.end() + len(content or "") + 2
        near = content is not None and 0 <= start - end < 120
        if not near or not PATTERNS["between"].fullmatch(body, end, start):
            break
        text, rule = f"{content} {body[end:start].replace('$', '')} {text}", "boxes"
        start = match.start()
    return Extraction(trim(text), rule)


def _content(body: str, start: int) -> str | None:
    """The content of the box at `start`; None if it never closes."""
    if (match := _BOX.match(body, start)) is None:
        return None
    begin = match.end()
    if body[begin : begin + 1] != "{":
        return body[begin : begin + 1].strip("$\\") if match[0].endswith(" ") else None
    end = closing(body, begin, MAX_BOX)
    return None if end is None else body[begin + 1 : end - 1]


def _hashes(tail: str) -> Extraction | None:
    _, mark, answer = tail.rpartition("####")
    text = trim(answer.strip().partition("\n")[0])
    extraction = Extraction(text, "####") if text else Extraction(None, "nothing after ####")
    return extraction if mark else None


def _phrase(tail: str) -> Extraction | None:
    """The answer after the last final-answer phrase, which "the answer is correct" is not."""
    for match in list(PATTERNS["phrase"].finditer(tail))[:-17:-1]:
        answer = tail[match.end() :].lstrip(" \t:*\n`")
        if "would" in match[0] and re.match(r"[^.\n]{0,80}\bif\b", answer):
            continue
        text = _value_of(_EXCLAIMED.sub(".", answer, count=1))
        if text and not _NO_VALUE.match(text):
            return Extraction(text, "phrase")
    return None


def _value_of(answer: str) -> str:
    """The answer at the start of `answer`: its formulas with the words on them, or a sentence."""
    match, parts, end = PATTERNS["formula"].match(answer), [], 0
    while match:
        parts.append(trim(next(part for part in (*match.groups()[:3], match[5]) if part)))
        end = match.end()
        joined = _JOINED.match(answer, end)
        match = PATTERNS["formula"].match(answer, joined.end()) if joined else None
        if joined and match:
            words = joined[0].replace("(", "")
            parts.append(rf"\text{{{words}}}" if joined["words"] else words)
    line = answer[end:].partition("\n")[0]
    if parts:
        after = _AFTER.match(line)
        tail = after[0].rstrip("*") if after else ""
        return "".join((*parts, rf"\text{{{tail}}}" if after and after["words"] else tail))
    stop = PATTERNS["sentence"].search(line)
    return trim(re.sub(r"(?<!\d)\*\*|\*\*(?!\d)", "", line[: stop.start()] if stop else line))


def _line(tail: str, length: int) -> Extraction | None:
    """The answer of a response that is one line with at most a few words after the answer."""
    text = _LEAD.sub("", tail.strip().strip("*"))
    value = re.search(r"[\d$]|\\\(", text)
    if length > MAX_LINE or "\n" in text or len(_WORD.findall(text)) > 3 or "**" in text:
        return None
    if value and _WORD.search(text, 0, value.start()):
        return None
    return Extraction(trim(text), "whole text")
