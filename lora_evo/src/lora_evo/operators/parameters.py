"""Parameters that operators share: strength, fitness, numbers, ranks of parents, and levels."""

import math
import re
from collections.abc import Mapping, Sequence

from lora_evo.errors import LoraEvoError, is_number
from lora_evo.operators.operator import Request

LEVELS = ("module", "block", "layer")
"""Modules that an operator treats alike: each by itself, those of a block, or those of a layer."""
_LAYER = re.compile(r"(?:.*?\.)?\d+(?=\.|$)")


def checked_strength(request: Request, operator: str) -> float:
    """The target relative change |D' - D| / |D|, from 0 (a copy) to below 1; else refused."""
    strength = request.strength
    if strength is None or not 0.0 <= strength < 1.0:
        raise LoraEvoError(
            f"strength is {strength}; {operator} wants a relative change of the update, at "
            "least 0 (a copy) and below 1, for example 0.15"
        )
    return strength


def checked_fitness(request: Request) -> tuple[float, ...] | None:
    """The parameter `fitness`, one finite number per parent (higher is better), or None.

    Raises `LoraEvoError` for anything else.
    """
    given = request.parameters["fitness"]
    if given is None:
        return None
    parents = len(request.configs)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise LoraEvoError(
            f"fitness is {given!r}; expected a list of {parents} numbers, one for each parent, "
            "for example --set 'fitness=[0.7, 0.4]'"
        )
    if len(given) != parents:
        raise LoraEvoError(f"{len(given)} fitness value(s) for {parents} parents; give one each")
    for value in given:
        if not is_number(value) or not math.isfinite(value):
            raise LoraEvoError(f"fitness holds {value!r}; expected finite numbers")
    return tuple(float(value) for value in given)


def checked_number(request: Request, name: str, low: float, high: float) -> float:
    """The parameter `name` as a number from `low` to `high`; raises `LoraEvoError` otherwise."""
    value = request.parameters[name]
    if not is_number(value) or not low <= value <= high:
        raise LoraEvoError(f"{name} is {value!r}; expected a number from {low:g} to {high:g}")
    return float(value)


def check_equal_ranks(request: Request, advice: str) -> None:
    """Refuse parents of unequal rank, for an operator that needs their factors to be alike."""
    first, *others = request.configs
    for path in request.paths:
        for number, config in enumerate(others, start=2):
            if config.rank(path) != first.rank(path):
                raise LoraEvoError(
                    f"{path} has rank {first.rank(path)} in parent 1 and {config.rank(path)} in "
                    f"parent {number}; {advice}"
                )


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
