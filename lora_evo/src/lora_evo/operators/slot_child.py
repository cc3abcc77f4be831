"""What an operator returns for one module of a child: its factors, and measures of them."""

from dataclasses import dataclass

import torch

from lora_evo.compare import singular_values, slot_gap
from lora_evo.peft.adapter import Slot


@dataclass(frozen=True, eq=False)
class SlotChild:
    """One module of a child, in the first parent's rank and scale."""

    slot: Slot
    spectrum: torch.Tensor
    """The singular values of its update [k], largest first."""
    relative_change: float | None
    """|D' - D| / |D| against the first parent, before rounding to the storage dtype; None if D = 0
    and D' is not."""
    parent_norm: float
    """|D|."""
    source: int = 0
    """Number of the parent, from 0, whose optimiser moments may be kept."""
    moments_valid: bool = False
    """Whether the optimiser moments of `source` still fit these factors."""
    truncation_loss: float = 0.0
    """Frobenius norm of the part that the rank cut off, divided by that of the whole."""


def measured(path: str, parent: Slot, child: Slot) -> SlotChild:
    """Return a child's module with its measures against the first parent's; moments are invalid."""
    gap = slot_gap(path, parent, child)
    return SlotChild(child, singular_values(child), gap.relative_change, gap.first)


def unchanged(slot: Slot) -> SlotChild:
    """Return the first parent's slot as the child's, with valid optimiser moments."""
    values = singular_values(slot)
    return SlotChild(slot, values, 0.0, float(torch.linalg.vector_norm(values)), moments_valid=True)
