"""The exceptions of the package, with one root that is a ValueError; and parts of messages."""

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from lora_evo.terminal import pip_install


class EvalsError(ValueError):
    """Root of every error that this package raises on purpose."""


class SettingsChanged(EvalsError):
    """An output folder holds the samples of a run with other settings."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return the part of a message that suggests one of the known names."""
    names = list(choices)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"


def optional(name: str, purpose: str) -> Any:
    """Import a library of the extra `benchmarks`. Raises EvalsError, with what to type, if it is
    missing or broken."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        state = "is not installed" if missing else f"cannot be imported ({error})"
        raise EvalsError(
            f"{name} {state}, and it is needed {purpose}; "
            f"type: {pip_install(name.partition('.')[0])}"
        ) from None
