"""Crossover by drop and rescale: parts of the difference between the parents, made up for.

    D = D_1 + sum_k w_k drop_p(D_k - D_1),      drop_p(E) = sum_j m_j S_j u_j v_j^T / (1 - p),

with E = U S V^T the difference of the other parent from the first, and m_j = 0 with probability
p, else 1; the sum is truncated to the first parent's rank. Before that, the mean of D over seeds
is the weighted mean of the parents. DARE (Yu et al., arXiv 2311.03099) drops entries of the
difference of a fine-tuned model from its base. Done to the parents themselves that ruins them (an
adapter crossed with itself ends far from itself: see `factor_dare`), and on the entries of updates
it would need dense matrices. Here the first parent is the base, singular components take the
place of entries, and equal parents give themselves. p = 0 is `average`. Preserves: what the
parents agree on.
"""

from collections.abc import Sequence

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.operators.crossovers.average import shares
from lora_evo.operators.crossovers.joint_core import alike, join
from lora_evo.operators.measured import unchanged
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.parameters import checked_number

MOST_DROPPED = 0.99


def _prepare(request: Request) -> Recipe:
    p = checked_number(request, "p", 0.0, MOST_DROPPED)
    weights = shares(request)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or weights[0] == 1.0:
            return unchanged(slots[0])
        joint = join(slots)
        base = joint.updates[0]
        wanted = base.clone()
        for index in range(1, len(slots)):
            u, values, vt = torch.linalg.svd(joint.updates[index] - base, full_matrices=False)
            points = stream(request.seed, path, "drop", str(index)).random(len(values))
            kept = torch.from_numpy(points >= p).double() / (1 - p)
            wanted += weights[index] * (u * (values * kept)) @ vt
        return joint.child(wanted)

    return recipe


DARE = Operator(
    name="dare",
    kind="crossover",
    summary="the first parent plus components of its difference to the others, some dropped",
    preserves="what the parents agree on, rank, the mean (over seeds); free of gauge",
    prepare=_prepare,
    defaults={"p": 0.3},
    moments="reset",
)
