"""The step of a mutation found from the change it must make."""

import math
from collections.abc import Callable

from lora_evo.errors import LoraEvoError

_TOLERANCE = 1e-7
_SECANTS = 30
_TRIES = 200
_FARTHEST = 2.0**24


def solve_step(change: Callable[[float], float], target: float, slope: float = 1.0) -> float:
    """Return a step e > 0 with change(e) = target to a relative 1e-7; `change` is continuous from
    0.

    `slope` is about the change per step near 0, and only saves trials. Small changes are about
    proportional to the step, so that secants need few; they are kept within a bracket, and after
    thirty of them, bisection is left. `change` is called last with the step that is returned.
    Raises `LoraEvoError` when no step changes enough.
    """
    low, high = 0.0, math.inf
    before, gap_before = 0.0, -target
    step = first = target / slope if slope > 0 else target
    for tried in range(_TRIES):
        gap = change(step) - target
        if abs(gap) <= _TOLERANCE * target or high - low <= _TOLERANCE * 1e-8 * step:
            return step
        if gap > 0:
            high = step
        else:
            low = step
        rise = gap - gap_before
        guess = step - gap * (step - before) / rise if rise else low
        before, gap_before = step, gap
        if high == math.inf:
            step = min(max(guess, 1.01 * low), 2 * low) if guess > low else 2 * low
        elif tried < _SECANTS and low < guess < high:
            step = guess
        else:
            step = (low + high) / 2
        if step > first * _FARTHEST:
            break
    raise LoraEvoError(f"no step reaches a relative change of {target}; ask for less")
