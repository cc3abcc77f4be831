"""Limits on an answer before anything computes with it: one hostile answer must stay cheap."""

import re

MAX_ANSWER = 4_096
"""Characters of an extracted answer."""
MAX_NESTING = 64
MAX_DIGITS = 256
"""Digits in a row."""
MAX_EXPONENT = 10_000
"""Of an exponent that is written out, and of an exact power."""
MAX_FACTORIAL = 2_000
MAX_BITS = 60_000
"""Of an exact whole number."""

_EXPONENT = re.compile(r"\^\s*\{?\s*[-+]?\s*(\d{5,})")
_TOWER = re.compile(
    r"\^\s*\{[^{}]{0,40}\^\s*\{[^{}]{0,40}\^|\^\s*\w\s*\^|(?:\^\s*\{[^{}^]{0,20}){3}"
)
_FACTORIAL = re.compile(r"(\d{5,})\s*!|!\s*[!)}\s]*!")
_LIMITS = re.compile(r"\\(?:i+nt|sum|prod|lim)(?![a-z])")
"""What one comparison can evaluate once, hardly twice."""
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")


class TooLarge(ValueError):
    """A guard refused to compute; the text is the guard's name."""


def check_length(answer: str) -> None:
    """Raise TooLarge for an answer that is too long, too deep or has too long numbers."""
    if len(answer) > MAX_ANSWER:
        raise TooLarge("guard: length")
    depth = 0
    for character in answer:
        if character in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise TooLarge("guard: nesting")
        elif character in ")]}":
            depth -= 1
    if _DIGITS.search(answer):
        raise TooLarge("guard: digits")


def check_growth(answer: str) -> None:
    """Raise TooLarge for powers, factorials and limits that no arithmetic should be given."""
    if any(int(found) > MAX_EXPONENT for found in _EXPONENT.findall(answer)):
        raise TooLarge("guard: exponent")
    if _TOWER.search(answer):
        raise TooLarge("guard: tower")
    if _FACTORIAL.search(answer):
        raise TooLarge("guard: factorial")
    if len(_LIMITS.findall(answer)) > 1:
        raise TooLarge("guard: limits")
