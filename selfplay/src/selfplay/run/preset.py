"""Presets: named configurations that come with the package."""

from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import yaml

from selfplay.errors import ConfigError

_PRESETS = files("selfplay.run") / "presets"


def preset_names() -> list[str]:
    """Return the names that `read_preset` knows."""
    found = (f.name for f in _PRESETS.iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def read_preset(name: str) -> dict[str, Any]:
    """Return a preset as nested plain values."""
    names = preset_names()
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(names)}. {hint}".strip())
    data: dict[str, Any] = yaml.safe_load(preset_text(name))
    return data


def preset_text(name: str) -> str:
    """Return the preset's YAML file as it is."""
    return _PRESETS.joinpath(f"{name}.yaml").read_text()
