"""The exceptions of the package, one root that is a ValueError; and what errors say alike."""

from collections.abc import Iterable
from difflib import get_close_matches


class EvalsError(ValueError):
    """Root of every error this package raises on purpose: what was found, what to type."""


class SettingsChanged(EvalsError):
    """An output folder holds the samples of a run with other settings."""


class EngineStopped(EvalsError):
    """An engine that generates stopped working: nobody's input is wrong."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not among the known ones."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type's name."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
