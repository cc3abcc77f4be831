"""A mutation of one's own: an `Operator` that adds a random rank-one matrix to every update.

    A' = A + e g x^T,    B' = B,    so that    D' - D = e s (B g) x^T,

with x standard normal over the inputs and g over the ranks. The size of the change is
e |s| |B g| |x|, so e follows from the strength: |D' - D| = strength * |D|. (The idea of EGGROLL,
arXiv 2511.16652, which perturbs whole layers this way.) Preserves B; a module with D = 0 stays as
it is.

    python examples/lora_evo/rank_one_noise.py PARENT CHILD
"""

import sys
from dataclasses import replace

import torch

from lora_evo import Operator, measured, verify, write_child


def prepare(setup):
    """Check the setup once and return the recipe for one module at a time."""

    def recipe(path, slots):
        slot = slots[0]
        b = slot.B.double()
        # Keyed by seed, module and a name: the same noise in any order.
        x = torch.from_numpy(setup.noise(path, "x").standard_normal(slot.A.shape[1]))
        g = torch.from_numpy(setup.noise(path, "g").standard_normal(slot.rank))
        norm = float(torch.linalg.matrix_norm(b @ slot.A.double()))
        if norm == 0.0:
            return measured(path, slot, slot)
        step = setup.strength * norm / float((b @ g).norm() * x.norm())
        return measured(path, slot, replace(slot, A=slot.A.double() + step * torch.outer(g, x)))

    return recipe


RANK_ONE_NOISE = Operator(
    name="rank_one_noise",
    kind="mutation",
    summary="add one random rank-one matrix to the update of every module",
    preserves="B, column space of every update",
    prepare=prepare,
    default_strength=0.1,
)

if __name__ == "__main__":
    parent, child = sys.argv[1:]
    lineage = write_child(RANK_ONE_NOISE, [parent], child, seed=1)
    print(f"{child}: relative change {lineage.relative_change:g}")
    print("verified:", verify(child, parent, operator=RANK_ONE_NOISE).identical)
