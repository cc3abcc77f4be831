"""The strength that mutations accept: a relative change of every update."""

from __future__ import annotations

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
