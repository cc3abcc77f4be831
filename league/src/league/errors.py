"""Errors of a league, each with a class of its own under one root, and checks of numbers."""

import math
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class LeagueError(ValueError):
    """Anything this package refuses; the message says what was found and what was expected."""


class UnknownMember(LeagueError):
    """A name that no member of this league has ever had."""


class ConflictingResult(LeagueError):
    """A match that is already recorded came back with other numbers."""


class UnreadableLeague(LeagueError):
    """Files that are damaged, or written by another version."""


class LeagueLocked(LeagueError):
    """Another process has this league open for writing."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a question for the end of a message, or "" where no known name is close."""
    close = get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else ""


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Raise LeagueError unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise LeagueError(f"{name} is {value!r}; expected a whole number >= {least}")


def check_number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> None:
    """Raise LeagueError unless the value is a finite number from `low` to `high`."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not (abs(number) <= sys.float_info.max and low <= number <= high):
        bounds = "a finite number" + ("" if math.isinf(low) else f" >= {low:g}")
        bounds += "" if math.isinf(high) else f" and <= {high:g}"
        raise LeagueError(f"{name} is {value!r}; expected {bounds}")
