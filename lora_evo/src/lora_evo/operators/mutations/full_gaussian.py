"""Mutation by Gaussian noise on both factors of every module.

    A' = A + e rms(A) E,    B' = B + e rms(B) F,    E, F ~ N(0, 1) per entry,

with e solved for per module so that |D' - D| = strength * |D| (see `factor_noise`). It is the
full-tensor adaptive noise of PopuLoRA (arXiv 2605.16727), whose step is e itself and whose change
therefore grows with the rank. Gauge: the child's update depends on how the parent's is split into
factors, except for a common rescaling (c B, A / c). A module with D = 0 stays as it is.
"""

import numpy as np
import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.operators.mutations.factor_noise import with_noise
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.parameters import checked_strength


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "full_gaussian")
    return lambda path, slots: with_gaussian_noise(path, slots[0], request.seed, strength)


def with_gaussian_noise(path: str, slot: Slot, seed: int, strength: float) -> SlotChild:
    """The module with noise on both factors; a copy at strength 0."""
    toward_a, toward_b = (
        torch.from_numpy(stream(seed, path, name).standard_normal(factor.shape, dtype=np.float32))
        for name, factor in (("A", slot.A), ("B", slot.B))
    )
    return with_noise(slot, strength, toward_a, toward_b)


FULL_GAUSSIAN = Operator(
    name="full_gaussian",
    kind="mutation",
    summary="add Gaussian noise, in proportion to each factor's size, to both factors",
    preserves="rank, relative sizes of A and B; not the spaces, and it depends on the gauge",
    prepare=_prepare,
    default_strength=0.15,
    moments="reset",
)
