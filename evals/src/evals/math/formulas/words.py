"""Answers in words: numbers that are spelled out, and whether words name what is asked for."""

import re

NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
TENS = {
    name: 10 * number
    for number, name in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2
    )
}
_SMALL = {**{name: number for number, name in enumerate(NUMBER_WORDS)}, **TENS}
_GROUPS = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = {"half": 2, "halves": 2} | {
    name + ending: number
    for number, names in enumerate(
        ("third", "fourth quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), 3
    )
    for name in names.split()
    for ending in ("", "s")
}
_MODIFIES = {"centered", "with", "when", "whose", "because", "since", "after", "having", "in", "at"}
_NEGATIONS = {"not", "neither", "nor", "no", "non", "never", "or", "and", "than", "but", "both"}
_FRAMES = {
    "a", "an", "the", "due", "function", "curve", "graph", "shape", "direction", "student",
    "towards", "always", "type", "of", "conic", "section", "equation", "part",
}  # fmt: skip
_IS = {"is", "are", "was", "were", "answer", "be", "faces", "facing"}
_DOES = {
    "is", "was", "has", "had", "wins", "won", "runs", "ran", "gets", "got", "with", "does", "would",
    "will", "can", "must", "should", "earns", "makes",
}  # fmt: skip


def spelled_number(text: str) -> str | None:
    """The number that the words at the start of a text spell, as a formula.

    "five apples" is 5, "one hundred and five" 105, "two thirds" 2/3, "three and a half" 7/2. None
    where the text goes on with another value, or begins with no number.
    """
    text, halves = re.subn(r"\band (?:a|one)[ -]half\b", "", text.lower())
    text = re.sub(r"^(\W*)(?:a )?(half|third|quarter)\b", r"\1one \2", text)
    words = re.findall(r"[a-z]+|\S", re.sub(r"\\text|[{}]|-", " ", text))
    total = group = place = 0
    for place, word in enumerate(words):
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred" and group:
            group *= 100
        elif word in _GROUPS and group:
            total, group = total + group * _GROUPS[word], 0
        elif not (word == "and" and 0 < place < len(words) - 1 and words[place + 1] in _SMALL):
            break
    else:
        place = len(words)
    rest = words[place:]
    if not place or any(not word.isalpha() and word not in ".,!" for word in rest):
        return None
    part = next((_PARTS[name] for name in rest[:1] if name in _PARTS), None)
    if set(rest[part is not None :]) & (set(_SMALL) | {"and", "or", "half"}):
        return None
    if part:
        return rf"\frac{{{total + group}}}{{{part}}}"
    if halves:
        return rf"\frac{{{2 * (total + group) + 1}}}{{2}}"
    return str(total + group)


def same_words(gold: str, answer: str) -> bool:
    """Whether an answer names the gold, perhaps in a sentence about it and nothing else."""
    wanted, found = _words(gold), _words(answer)
    if wanted == found or "".join(wanted) == "".join(found):
        return True
    if not wanted or (set(found) - set(wanted)) & _NEGATIONS:
        return False
    if found[: len(wanted)] == wanted and set(found[len(wanted) : len(wanted) + 1]) & _DOES:
        return True
    verb = max((place for place, word in enumerate(found) if word in _IS), default=-1)
    named = [word for word in found[verb + 1 :] if word not in _FRAMES]
    after = named[len(wanted) : len(wanted) + 1]
    return named[: len(wanted)] == wanted and set(after) <= _MODIFIES


def _words(text: str) -> list[str]:
    bare = re.sub(r"\\text|\\|(?<=\d)(?:st|nd|rd|th)\b", " ", text.lower())
    return [word for word in re.findall(r"[a-z0-9+\-]+", bare) if word not in ("a", "an", "the")]
