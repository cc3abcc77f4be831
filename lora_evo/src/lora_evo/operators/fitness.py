"""The parents' fitnesses, given with an order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Request


def checked_fitness(request: Request) -> tuple[float, ...] | None:
    """The parameter `fitness`, one finite number per parent (higher is better), or None.

    Raises `LoraEvoError` for anything else.
    """
    given = request.parameters["fitness"]
    if given is None:
        return None
    parents = len(request.configs)
    example = "[0.7, 0.4]"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise LoraEvoError(
            f"fitness is {given!r}; expected a list of {parents} numbers, one for each parent, "
            f"for example --set 'fitness={example}'"
        )
    if len(given) != parents:
        raise LoraEvoError(f"{len(given)} fitness value(s) for {parents} parents; give one each")
    for value in given:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise LoraEvoError(f"fitness holds {value!r}; expected finite numbers")
    return tuple(float(value) for value in given)


def checked_number(request: Request, name: str, low: float, high: float) -> float:
    """The parameter `name` as a number from `low` to `high`; raises `LoraEvoError` otherwise."""
    value = request.parameters[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise LoraEvoError(f"{name} is {value!r}; expected a number from {low:g} to {high:g}")
    return float(value)
