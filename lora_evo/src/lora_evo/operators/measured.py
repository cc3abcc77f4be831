"""A finished module with everything about it measured, for operators that do not know it anyway."""

from __future__ import annotations

from lora_evo.adapter import Slot
from lora_evo.distance import slot_gap
from lora_evo.operators.operator import SlotChild
from lora_evo.spectrum import effective_rank, numerical_rank, singular_values


def measured(path: str, parent: Slot, child: Slot) -> SlotChild:
    """The module `child` at `path`, compared with the first parent's `parent`.

    Takes the spectrum and the exact distance of the updates from small matrices (two thin
    factorisations); optimiser moments count as lost. Raises `LoraEvoError` when the modules
    differ in width.
    """
    gap = slot_gap(path, parent, child)
    values = singular_values(child)
    return SlotChild(
        slot=child,
        source=0,
        relative_change=gap.relative_change,
        effective_rank=effective_rank(values),
        rank=numerical_rank(values),
        moments_valid=False,
        parent_norm=gap.first,
    )
