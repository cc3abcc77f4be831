"""The exceptions of the package, one root that is a ValueError; and what errors say alike."""

from collections.abc import Iterable
from difflib import get_close_matches


class EvalsError(ValueError):
    """Root of every error this package raises on purpose: what was found, what to type."""


class SettingsChanged(EvalsError):
    """An output folder holds the samples of a run with other settings."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not among the known ones."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"
