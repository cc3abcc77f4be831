"""Checks of the numbers that a caller gives."""

import math

from league.errors import LeagueError


def whole_number(name: str, value: object, least: int = 0) -> None:
    """Raise LeagueError unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise LeagueError(f"{name} is {value!r}; expected a whole number >= {least}")


def is_finite(value: object) -> bool:
    """Whether the value is a number, and neither infinite nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
