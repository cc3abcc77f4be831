"""Presets: named configurations that come with the package.

A preset, or a user's file, may begin with `extends: PRESET`: it then holds only what differs.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import yaml

from selfplay.errors import ConfigError

_PRESETS = files("selfplay.config") / "presets"


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
    return extended(yaml.safe_load(preset_text(name)))


def extended(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what the preset that it extends has beside it."""
    own = dict(data)
    name = own.pop("extends", None)
    if name is None:
        return own
    if not isinstance(name, str):
        raise ConfigError(f"extends is {name!r}; expected a preset: {', '.join(preset_names())}")
    return _over(read_preset(name), own)


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {**below, **above}
    for name, section in above.items():
        if isinstance(section, Mapping) and isinstance(below.get(name), Mapping):
            both[name] = _over(below[name], section)
    return both


def preset_text(name: str) -> str:
    """Return the preset's YAML file as it is."""
    return _PRESETS.joinpath(f"{name}.yaml").read_text()
