"""The one root of every refusal this package makes, and checks of plain values from outside."""

import shlex
import sys
from typing import TypeGuard


class LoraEvoError(ValueError):
    """Input that cannot be used: the message says what was found and what to do instead."""


class EngineStopped(LoraEvoError):
    """An engine that generates stopped working: no input is wrong."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type's name."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def pip_install(*packages: str) -> str:
    """Return the command that installs packages for the Python that runs."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an int or a float; True and False are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked_count(name: str, value: object, least: int = 1) -> int:
    """The value of `name`, a whole number of at least `least`; else `LoraEvoError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise LoraEvoError(f"{name} is {value!r}; expected a whole number of at least {least}")
    return value
