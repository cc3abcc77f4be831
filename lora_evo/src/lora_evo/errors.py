"""The base class of the package's errors, and checks of plain values from outside."""

import errno
import shlex
import sys
from typing import TypeGuard


class LoraEvoError(ValueError):
    """Input that cannot be used: what was found, and what to do instead."""


class EngineStopped(LoraEvoError):
    """A generation engine that stopped working; no input is wrong."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type's name."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def remedy(error: BaseException | None) -> str:
    """Return how the line on an error ends: what to do about a full disk, else nothing."""
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "; free some space on this disk" if is_full else ""


def pip_install(*packages: str) -> str:
    """Return the command that installs packages for this Python."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an int or a float, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked_count(name: str, value: object, least: int = 1) -> int:
    """Return the value if it is a whole number of at least `least`; else raise `LoraEvoError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise LoraEvoError(f"{name} is {value!r}; expected a whole number of at least {least}")
    return value
