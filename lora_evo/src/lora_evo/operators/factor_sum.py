"""Children made from the factors themselves, A with A and B with B: baselines for comparison.

The forms that the paper's population code and most LoRA mergers use. All of them depend on the
gauge: parents with equal updates but other factors (a sign flipped, a basis turned) give
different children, and the product of two sums has cross terms B_j A_k that no parent has. All
parents need the same rank. Where the parents' scales differ, B_k counts as (s_k / s_1) B_k, so
that each parent at least enters with its own update.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lora_evo.adapter import Slot
from lora_evo.errors import LoraEvoError
from lora_evo.operators.measured import measured
from lora_evo.operators.operator import Recipe, Request, SlotChild
from lora_evo.thin import prepared


def check_equal_ranks(request: Request, operator: str) -> None:
    """Refuse parents whose factors cannot be added."""
    first, *others = request.configs
    for path in request.paths:
        for number, config in enumerate(others, start=2):
            if config.rank(path) != first.rank(path):
                raise LoraEvoError(
                    f"{path} has rank {first.rank(path)} in parent 1 and {config.rank(path)} in "
                    f"parent {number}; {operator} adds factors entry by entry and needs equal "
                    f"ranks; {operator.removeprefix('factor_')} does not"
                )


def pairs_in_first_scale(slots: Sequence[Slot]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(A, B) of every parent in float64, B as it counts under the first parent's scale."""
    return [
        (prepared(slot.A).double(), prepared(slot.B).double() * (slot.scale / slots[0].scale))
        for slot in slots
    ]


def factor_blend(coefficients: Sequence[float]) -> Recipe:
    """The recipe of A = sum_k c_k A_k, B = sum_k c_k B_k."""

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        pairs = list(zip(coefficients, pairs_in_first_scale(slots), strict=True))
        a = torch.stack([share * a for share, (a, _) in pairs]).sum(dim=0)
        b = torch.stack([share * b for share, (_, b) in pairs]).sum(dim=0)
        return measured(path, slots[0], Slot(a, b, slots[0].scale))

    return recipe
