"""Modules of a child, with the numbers about them that a lineage records."""

from dataclasses import dataclass

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.updates import singular_values, slot_gap


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
