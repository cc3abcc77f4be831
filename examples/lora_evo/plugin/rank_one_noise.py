"""Mutation that adds one random rank-one matrix to the update of every module.

    A' = A + e g x^T,    B' = B,    so that    D' - D = e s (B g) x^T,

with x standard normal over the inputs and g over the ranks (or over one rank, drawn, with
`spread=one`). The size of the change is e |s| |B g| |x|, so that e follows at once from the
strength: |D' - D| = strength * |D|. A perturbation of low rank costs r + in random numbers for
a module, where full noise costs r * in (the idea of EGGROLL, arXiv 2511.16652, which perturbs
whole layers so). Preserves B, and with it the column space of every update; depends on the gauge.
A module with D = 0 stays as it is.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from lora_evo import (
    LoraEvoError,
    Operator,
    Recipe,
    Request,
    Slot,
    SlotChild,
    checked_strength,
    measured,
    singular_values,
    stream,
    unchanged,
)


def prepare(request: Request) -> Recipe:
    """Check the request once; the recipe then runs for one module at a time."""
    strength = checked_strength(request, "rank_one_noise")
    spread = request.parameters["spread"]
    if spread not in ("all", "one"):
        raise LoraEvoError(f"spread is {spread!r}; expected 'all' or 'one'")

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        slot = slots[0]
        norm = float(torch.linalg.vector_norm(singular_values(slot)))
        if strength == 0.0 or norm == 0.0:
            return unchanged(slot)
        # Keyed by seed, module and a name: the same noise in any order, on any thread.
        x = torch.from_numpy(stream(request.seed, path, "x").standard_normal(slot.A.shape[1]))
        g = torch.from_numpy(stream(request.seed, path, "g").standard_normal(slot.rank))
        if spread == "one":
            live = (slot.B != 0).any(dim=0)
            g = torch.where(live, g, 0.0)
            g = torch.where(g.abs() == g.abs().max(), g, 0.0)
        moved = slot.B.double() @ g
        size = abs(slot.scale) * float(moved.norm() * x.norm())
        grown = slot.A.double() + (strength * norm / size) * torch.outer(g, x)
        return measured(path, slot, replace(slot, A=grown))

    return recipe


RANK_ONE_NOISE = Operator(
    name="rank_one_noise",
    kind="mutation",
    summary="add one random rank-one matrix to the update of every module",
    preserves="B exactly, column space of every update; it depends on the gauge",
    prepare=prepare,
    defaults={"spread": "all"},
    default_strength=0.1,
    moments="reset",
)
