"""The exceptions of the package, one root that is a ValueError; and what errors say alike."""

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from lora_evo import pip_install


class EvalsError(ValueError):
    """Root of every error that this package raises on purpose: what was found, what to type."""


class SettingsChanged(EvalsError):
    """An output folder holds the samples of a run with other settings."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return what to say of a name that is not among the known ones."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"


def optional(name: str, purpose: str) -> Any:
    """Import a library that the extra `benchmarks` brings.

    Raises EvalsError, with what to type, where it is missing or broken.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        state = "is not installed" if missing else f"cannot be imported ({error})"
        raise EvalsError(
            f"{name} {state}, and it is needed {purpose}; "
            f"type: {pip_install(name.partition('.')[0])}"
        ) from None
