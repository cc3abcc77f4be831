"""What can go wrong, each with a class of its own under one root, and checks of numbers."""

import math


class LeagueError(ValueError):
    """Anything this package refuses; the message says what was found and what was expected."""


class UnknownMember(LeagueError):
    """A name that no member of this league has ever had."""


class ConflictingResult(LeagueError):
    """A match that is already recorded came back with other numbers."""


class UnreadableLeague(LeagueError):
    """Files that are missing, damaged, or written by a newer version."""


class LeagueLocked(LeagueError):
    """Another process has this league open for writing."""


def whole_number(name: str, value: object, least: int = 0) -> None:
    """Raise LeagueError unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise LeagueError(f"{name} is {value!r}; expected a whole number >= {least}")


def is_finite(value: object) -> bool:
    """Whether the value is a number, and neither infinite nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
