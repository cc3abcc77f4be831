"""Modules that operators treat alike: one by one, by block, or by layer."""

import re
from collections.abc import Mapping

from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Request

LEVELS = ("module", "block", "layer")

_LAYER = re.compile(r"(?:.*?\.)?\d+(?=\.|$)")


def units_of(request: Request) -> Mapping[str, str]:
    """The unit of every module under the parameter `level`; `LoraEvoError` for another level."""
    level = request.parameters["level"]
    if level not in LEVELS:
        raise LoraEvoError(f"level is {level!r}; expected one of {', '.join(LEVELS)}")
    return {path: unit_of(path, str(level)) for path in request.paths}


def unit_of(path: str, level: str) -> str:
    """The module itself, its path without the last part, or its path up to the first number.

    A module that lies in no block or layer is a unit of its own.
    """
    if level == "block":
        return path.rpartition(".")[0] or path
    match = _LAYER.match(path) if level == "layer" else None
    return match[0] if match else path
