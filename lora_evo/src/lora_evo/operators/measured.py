"""Finished modules of a child, with the numbers about them that a lineage records."""

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.distance import slot_gap
from lora_evo.linalg.spectrum import effective_rank, numerical_rank, singular_values
from lora_evo.operators.operator import SlotChild


def finished(
    slot: Slot,
    spectrum: torch.Tensor,
    change: float | None,
    parent_norm: float,
    *,
    source: int = 0,
    moments_valid: bool = False,
    truncation_loss: float = 0.0,
) -> SlotChild:
    """The module `slot`, whose update has the singular values `spectrum` [k] (largest first)."""
    return SlotChild(
        slot=slot,
        source=source,
        relative_change=change,
        effective_rank=effective_rank(spectrum),
        rank=numerical_rank(spectrum),
        moments_valid=moments_valid,
        parent_norm=parent_norm,
        truncation_loss=truncation_loss,
    )


def measured(path: str, parent: Slot, child: Slot) -> SlotChild:
    """The module `child` at `path`, compared with the first parent's `parent`.

    Takes the spectrum and the exact distance of the updates from small matrices (two thin
    factorisations); optimiser moments count as lost. Raises `LoraEvoError` when the modules
    differ in width.
    """
    gap = slot_gap(path, parent, child)
    return finished(child, singular_values(child), gap.relative_change, gap.first)


def unchanged(slot: Slot) -> SlotChild:
    """The first parent's slot as it is, its optimiser moments still valid."""
    values = singular_values(slot)
    return finished(slot, values, 0.0, float(torch.linalg.vector_norm(values)), moments_valid=True)
