"""Checks that operators share: strength, fitness, numbers, and the ranks of parents."""

import math
from collections.abc import Sequence

from lora_evo.checks import is_number
from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Request


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
