"""The words that answers may contain; any other word makes an answer unreadable.

Whole numbers in words become digits first: `a hundred and twenty`. Counted things may stand after a
number, a sentence that ends in a verb before it, and a condition after an answer.
"""

import re
import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
SIZES: dict[str, str] = _LISTS.pop("sizes")
PREFIXES = _LISTS.pop("prefixes").split(",")
LARGE, _PARTS = (
    {name: int(value) for name, value in map(str.split, _LISTS.pop(kind).split(","))}
    for kind in ("large", "parts")
)
WORDS: dict[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in _LISTS.items()}
SIGNS = {"negative", "minus"}
CHANGING = WORDS["changing"] | SIGNS

_ONES, _TENS = _LISTS["ones"].split(), _LISTS["tens"].split()
_VALUES = {name: value for value, name in enumerate(_ONES)} | {"a": 1, "an": 1}
_VALUES |= {name: 10 * value for value, name in enumerate(_TENS, 2)}


def _any(*names: str) -> str:
    return f"(?:{'|'.join(sorted(names, key=len, reverse=True))})"


_UNDER_100 = rf"(?:{_any(*_TENS)}(?: {_any(*_ONES[1:10])})?|{_any(*_VALUES)}|\d+)"
_UNDER_1000 = rf"{_UNDER_100}(?: hundred(?: (?:and )?{_UNDER_100})?)?"
_WHOLE = re.compile(rf"(?:{_UNDER_1000} {_any(*LARGE)} ?(?:and )?)*(?:{_UNDER_1000})?")
_NUMBER_WORD = rf"(?:{_any(*_ONES, *_TENS, *LARGE)}|an?(?=[\s-]+{_any(*LARGE)}\b))"
_SPELLED = re.compile(
    rf"(?<![\w.^]){_NUMBER_WORD}(?:[\s-]+(?:and\s+)?{_NUMBER_WORD})*(?!\w)", re.IGNORECASE
)
_FRACTION = re.compile(
    rf"(?<![\w.,/^)}}])(?:(\d+)[\s-]+and[\s-]+|(?<!and ))(an?|\d+)[\s-]+({_any(*_PARTS)})(s?)\b",
    re.IGNORECASE,
)
_HALF = re.compile(r"(?<!and )\bhalf an? (?=[a-z])", re.IGNORECASE)
_OF = re.compile(rf"\b({_any(*_PARTS)}s?) of an? (?={_any('thousand', 'million', 'billion')}\b)")
_OVER = re.compile(r"(?<![\w.^])(\d+) over (\d+)(?![\w.])")
_TWICE = re.compile(r"\b(\d+)(?:\s*\(\s*\1\s*\)|\s*\\text\{\s*\(\1\)\s*\}|\s*:\s*\$?\1\b\$?)")


def in_digits(text: str) -> str:
    """Return the text with its spelled numbers in digits, without a repetition: fifteen (15)."""
    text = _OF.sub(r"\1 ", _HALF.sub("0.5 ", text))
    digits = _SPELLED.sub(lambda match: _digits(match[0]), text)
    text = text if digits == text else _TWICE.sub(r"\1", digits)
    return _OVER.sub(r"\\frac{\1}{\2}", _FRACTION.sub(_fraction, text))


def _fraction(match: re.Match[str]) -> str:
    """The fraction of `3 quarters`, `a half` and `5 and a half`; `3 quarter` is none."""
    whole, top, part, plural = match.groups()
    count = int(top) if top.isdigit() else 1
    if (count != 1) != bool(plural):
        return match[0]
    return rf"{whole or ''}\frac{{{count}}}{{{_PARTS[part.lower()]}}}"


def _digits(run: str) -> str:
    """A run of number words in digits: as one number, else as numbers between `and`."""
    if (value := _whole(run.lower().replace("-", " ").split())) is not None:
        return str(value)
    parts = re.split(r"\s+and\s+", run, flags=re.IGNORECASE)
    return run if len(parts) == 1 else " and ".join(map(_digits, parts))


def _whole(words: list[str]) -> int | None:
    if not _WHOLE.fullmatch(" ".join(words)):
        return None
    total, group = 0, 0
    for word in words:
        if word == "hundred":
            group *= 100
        elif word in LARGE:
            total, group = total + group * LARGE[word], 0
        elif word != "and":
            group += int(word) if word.isdigit() else _VALUES[word]
    return total + group


_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


def words_of(text: str) -> list[str]:
    """Return the words of a text, without the names of commands."""
    return _WORD.findall(re.sub(r"\\[A-Za-z]+", " ", text))


def is_plain(word: str) -> bool:
    """Return whether a word does not change a value: the, total; or a counted thing: apples."""
    ends = (("s", ""), ("es", ""), ("ies", "y"))
    forms = {word, *(word.removesuffix(end) + put for end, put in ends if word.endswith(end))}
    return word in WORDS["plain"] or any(form in WORDS["nouns"] for form in forms)


def is_name(word: str) -> bool:
    """Return whether a word is a name, by its capital: Jenny, City."""
    return word[0].isupper() and len(word) > 1 and word.lower() not in CHANGING


def is_label(text: str) -> bool:
    """Return whether words only announce the answer after them: `The answer is`, `Jenny has`."""
    if re.fullmatch(r"\(?[A-E]\)?", text):
        return True
    words, verbs, heads = words_of(text), WORDS["verbs"], WORDS["heads"]
    small = [word.lower() for word in words]
    remainder = [w for w in words if not is_name(w) and w.lower() not in verbs | heads]
    if not words or not all(is_plain(word.lower()) for word in remainder):
        return False
    sentence = small[-1] in verbs or (small[-1] == "of" and {"total", *verbs} & set(small))
    return bool(sentence) or set(small) <= heads


def is_condition(texts: list[str]) -> bool:
    """Return whether words that begin with `for`, `where` or the like are only a condition."""
    words = [word.lower() for text in texts for word in words_of(text)]
    return all(len(word) == 1 or word in WORDS["conditions"] or is_plain(word) for word in words)


def changes(text: str) -> bool:
    """Return whether a text has a word that changes a value: negative, half."""
    return bool(CHANGING & {word.lower() for word in words_of(text)})


_PIECES = re.compile(r"[a-z0-9+\-/^]+")
_NO_WORDS = re.compile(
    r"\\(?:text|math|bold)[a-z]*|\\(?:[^a-z]|q?quad\b)|(?<=\d)(?:st|nd|rd|th)\b|'s\b|\(.*\)"
)


def same_words(gold: str, answer: str) -> bool:
    """Return whether an answer names the gold, perhaps in a sentence, and nothing else."""
    pieces = (_PIECES.findall(_NO_WORDS.sub(" ", text.lower())) for text in (gold, answer))
    target, words = ([word for word in part if word not in WORDS["fillers"]] for part in pieces)
    tail, does = words[len(target) :], WORDS["does"]
    is_sentence = not tail or (tail[0] in does and all(w in does or is_plain(w) for w in tail[1:]))
    return bool(target) and words[: len(target)] == target and is_sentence
