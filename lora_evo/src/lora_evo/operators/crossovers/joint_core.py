"""Sums of updates of several parents, held exactly in one small matrix.

Parents k = 1..n have the updates D_k = s_k B_k A_k, of any ranks r_k. With their factors side by
side and one thin factorisation of each side,

    [s_1 B_1, ..., s_n B_n] = Q_B [L_1, ..., L_n],    [A_1^T, ..., A_n^T] = Q_A [H_1, ..., H_n],

every D_k = Q_B (L_k H_k^T) Q_A^T, so that whatever is linear in the updates, or made of their
singular triplets, happens between matrices of at most sum(r_k) rows and columns. (Shared bases
as in KnOTS, arXiv 2410.19735, and Core Space merging, arXiv 2509.17786.) A child is the best
approximation in Frobenius norm (Eckart & Young 1936) of such a matrix C by the first parent's
rank r, C ~ U S V^T, written in the first parent's scale s:

    A = g V^T Q_A^T,    B = Q_B U S / (g s),    g = |A_1| / sqrt(r).

Gauge: the rows of A are orthogonal, of equal length, and as large together as the first parent's,
as LoRA's start has them; B carries the spectrum. A child of lower rank than r therefore has zero
columns in B alone, which training can use: no pair is dead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from lora_evo.files.adapter import Slot
from lora_evo.linalg.span import Span, span
from lora_evo.linalg.thin import prepared
from lora_evo.operators.measured import finished, unchanged
from lora_evo.operators.operator import Recipe, SlotChild


@dataclass(frozen=True, eq=False)
class JointCore:
    """Updates of n parents in common orthonormal bases: D_k = Q_B `updates[k]` Q_A^T."""

    first: Slot
    left: Span
    right: Span
    updates: tuple[torch.Tensor, ...]
    """[min(out, sum r_k), min(in, sum r_k)] each, float64."""

    def child(self, wanted: torch.Tensor) -> SlotChild:
        """The child nearest to Q_B `wanted` Q_A^T, in the first parent's rank and scale."""
        slot, own = self.first, self.updates[0]
        norm = float(torch.linalg.matrix_norm(own))
        u, values, vt = torch.linalg.svd(wanted)
        kept = min(slot.rank, len(values))
        nearest = (u[:, :kept] * values[:kept]) @ vt[:kept]
        whole = float(torch.linalg.vector_norm(values))
        lost = float(torch.linalg.vector_norm(values[kept:])) / whole if whole else 0.0
        change = float(torch.linalg.matrix_norm(nearest - own))
        size = float(torch.linalg.matrix_norm(prepared(slot.A).double()))
        length = size / slot.rank**0.5 or 1.0
        a = self.right.spread(vt[: slot.rank].T * length).T
        b = self.left.spread(u[:, :kept] * (values[:kept] / (length * slot.scale)))
        # Zeros where the module is narrower than its rank: there are no more directions.
        a = pad(a, (0, 0, 0, slot.rank - len(a)))
        b = pad(b, (0, slot.rank - kept))
        return finished(
            Slot(a, b, slot.scale),
            values[:kept],
            change / norm if norm else (None if change else 0.0),
            norm,
            truncation_loss=lost,
        )


def join(slots: Sequence[Slot]) -> JointCore:
    """Bring the parents' updates of one module into common bases; ranks and scales may differ."""
    # Scales stay out of the factorisation, where they would only spoil the condition of the stack.
    left = span([prepared(slot.B) for slot in slots])
    right = span([prepared(slot.A).T for slot in slots])
    parts = zip(slots, left.uppers, right.uppers, strict=True)
    updates = tuple((slot.scale * low) @ high.T for slot, low, high in parts)
    return JointCore(slots[0], left, right, updates)


def alike(slots: Sequence[Slot]) -> bool:
    """Whether all slots hold the same numbers."""
    first = slots[0]
    return all(
        slot.scale == first.scale and _equal(slot.A, first.A) and _equal(slot.B, first.B)
        for slot in slots[1:]
    )


def blend(coefficients: Sequence[float]) -> Recipe:
    """The recipe of the child sum_k c_k D_k, for coefficients c_k that add up to 1.

    Gives the first parent back bit for bit when all parents are equal or the others have no part.
    """

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or (coefficients[0] == 1.0 and not any(coefficients[1:])):
            return unchanged(slots[0])
        joint = join(slots)
        parts = zip(coefficients, joint.updates, strict=True)
        return joint.child(torch.stack([share * update for share, update in parts]).sum(dim=0))

    return recipe


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    # The first row tells most unequal tensors apart, without reading the rest.
    return torch.equal(one[:1], two[:1]) and torch.equal(one, two)
