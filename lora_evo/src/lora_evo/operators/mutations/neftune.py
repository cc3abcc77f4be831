"""Mutation by uniform noise on A alone.

    A' = A + e rms(A) E,    E ~ U(-1, 1) per entry,    B' = B,

after the embedding noise of NEFTune (Jain et al. 2023, arXiv 2310.05914), moved from embeddings to
the factor that reads the input. D' - D = e s rms(A) B E is linear in e, which is solved for so that
|D' - D| = strength * |D|. (NEFTune's own amplitude, a number over the square root of the size,
changes a usual LoRA by more than its whole norm.) B and with it the column space of D stay. Gauge:
the child's update depends on how the parent's is split into factors, except for a common rescaling
(c B, A / c). A module with D = 0 stays as it is.
"""

from collections.abc import Sequence

import numpy as np
import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.operators.mutations.factor_noise import with_noise
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.parameters import checked_strength


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "neftune")

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        drawn = stream(request.seed, path, "A").random(slots[0].A.shape, dtype=np.float32)
        return with_noise(slots[0], strength, torch.from_numpy(drawn).mul_(2).sub_(1), None)

    return recipe


NEFTUNE = Operator(
    name="neftune",
    kind="mutation",
    summary="add uniform noise, in proportion to its size, to A alone",
    preserves="B exactly, column space of every update, rank; it depends on the gauge",
    prepare=_prepare,
    default_strength=0.1,
    moments="reset",
)
