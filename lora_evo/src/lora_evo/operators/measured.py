"""Modules of a child: their numbers for the lineage, and the step that makes a wanted change."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from lora_evo.compare import singular_values, slot_gap
from lora_evo.errors import LoraEvoError
from lora_evo.peft.adapter import Slot

_TOLERANCE = 1e-7
_SECANTS = 30
_TRIES = 200
_FARTHEST = 2.0**24


@dataclass(frozen=True, eq=False)
class SlotChild:
    """One module of a child, in the first parent's rank and scale."""

    slot: Slot
    spectrum: torch.Tensor
    """The singular values of its update [k], largest first."""
    relative_change: float | None
    """|D' - D| / |D| against the first parent, before rounding to the storage dtype; None when
    D = 0 and D' is not."""
    parent_norm: float
    """|D|."""
    source: int = 0
    """The parent, counted from 0, that the optimiser moments would come from."""
    moments_valid: bool = False
    """Whether the optimiser moments of `source` still fit these factors."""
    truncation_loss: float = 0.0
    """Frobenius norm of what the rank cut off over that of the whole."""


def measured(path: str, parent: Slot, child: Slot) -> SlotChild:
    """Return the module `child` at `path`, compared with the first parent's `parent`.

    Takes the spectrum and the exact distance of the updates from small matrices (two thin
    factorisations); optimiser moments count as lost.
    """
    gap = slot_gap(path, parent, child)
    return SlotChild(child, singular_values(child), gap.relative_change, gap.first)


def unchanged(slot: Slot) -> SlotChild:
    """Return the first parent's slot as it is, its optimiser moments still valid."""
    values = singular_values(slot)
    return SlotChild(slot, values, 0.0, float(torch.linalg.vector_norm(values)), moments_valid=True)


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
