"""The step of a mutation found from the change it must make."""

from __future__ import annotations

from collections.abc import Callable

from lora_evo.errors import LoraEvoError

_TOLERANCE = 1e-7


def solve_step(change: Callable[[float], float], target: float) -> float:
    """A step e > 0 with change(e) = target to a relative 1e-7; `change` is continuous from 0.

    Doubles the step until the change exceeds the target, then closes in by regula falsi in the
    Illinois form (Dowell & Jarratt 1971). Raises `LoraEvoError` when no step changes enough.
    """
    low, below = 0.0, -target
    high = target
    above = change(high) - target
    for _ in range(60):
        if above >= 0:
            break
        low, below = high, above
        high *= 2
        above = change(high) - target
    if not above >= 0:
        raise LoraEvoError(f"no step reaches a relative change of {target}; ask for less")
    side = 0
    for _ in range(200):
        if abs(above) <= _TOLERANCE * target:
            break
        middle = high - above * (high - low) / (above - below)
        gap = change(middle) - target
        if abs(gap) <= _TOLERANCE * target:
            return middle
        if gap > 0:
            high, above = middle, gap
            below = below / 2 if side > 0 else below
            side = 1
        else:
            low, below = middle, gap
            above = above / 2 if side < 0 else above
            side = -1
    return high
