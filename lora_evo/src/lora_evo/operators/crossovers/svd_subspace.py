"""Crossover that mixes the singular triplets of the parents' updates.

    D_k = sum_j S_kj u_kj v_kj^T  (largest first),      D = sum_j S_(c_j)j u_(c_j)j v_(c_j)j^T

with the parent c_j of place j drawn on its own, with equal chances or in proportion to the
weights, and the sum truncated to the first parent's rank. After the SVD-subspace crossover of
PopuLoRA (arXiv 2605.16727), whose public form always takes the leading triplets from one parent
and the tail from the other, so that the second parent hardly counts; here every place is open to
both. A triplet moves whole (u and v together), so that signs of singular vectors do not matter,
and the joined triplets, which are not orthogonal, are decomposed again. Preserves: which share of
the norm sits at which place of the spectrum, roughly; singular values that coincide within one
parent leave its triplets undefined, and there the child depends on rounding.
"""

from collections.abc import Sequence

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.operators.crossovers.average import shares
from lora_evo.operators.crossovers.joint_core import alike, join
from lora_evo.operators.measured import unchanged
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild


def _prepare(request: Request) -> Recipe:
    bounds = torch.tensor(shares(request), dtype=torch.float64).cumsum(dim=0)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots):
            return unchanged(slots[0])
        joint = join(slots)
        count = max(min(slot.rank, *joint.updates[0].shape) for slot in slots)
        points = torch.from_numpy(stream(request.seed, path, "triplet").random(count))
        # The last bound is 1 but for rounding; a point above it belongs to the last parent.
        parents = torch.searchsorted(bounds[:-1].contiguous(), points, right=True)
        wanted = torch.zeros_like(joint.updates[0])
        for index, update in enumerate(joint.updates):
            u, values, vt = torch.linalg.svd(update, full_matrices=False)
            own = torch.where(parents == index, values[:count], 0.0)
            wanted += (u[:, :count] * own) @ vt[:count]
        return joint.child(wanted)

    return recipe


SVD_SUBSPACE = Operator(
    name="svd_subspace",
    kind="crossover",
    summary="take every singular triplet of the update from one of the parents",
    preserves="singular triplets of the parents (before truncation), rank; free of gauge",
    prepare=_prepare,
    moments="reset",
)
