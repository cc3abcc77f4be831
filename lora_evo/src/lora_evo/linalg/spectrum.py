"""Singular values of an update, found without forming it."""

import math

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import prepared, thin

# A singular value below this share of the largest one counts as none: masked, or never trained.
NEGLIGIBLE = 1e-6


def core(slot: Slot) -> torch.Tensor:
    """The small matrix s * R_B R_A^T (float64) that has the singular values of s*B*A.

    With B = Q_B R_B and A^T = Q_A R_A, s*B*A = Q_B (s R_B R_A^T) Q_A^T, and the Qs are
    orthonormal. [min(out, r), min(in, r)].
    """
    left, right = thin(prepared(slot.B)).upper, thin(prepared(slot.A).T).upper
    return left.mm(right.T).mul(slot.scale)


def singular_values(slot: Slot) -> torch.Tensor:
    """Singular values of the update s B A, largest first (float64)."""
    values: torch.Tensor = torch.linalg.svdvals(core(slot))
    return values


def effective_rank(values: torch.Tensor) -> float:
    """exp of the entropy of the normalised singular values (Roy & Vetterli 2007); 0 for none."""
    plain = [value for value in values.tolist() if value > 0.0]
    total = math.fsum(plain)
    if total == 0.0:
        return 0.0
    shares = [value / total for value in plain]
    return math.exp(-sum(share * math.log(share) for share in shares))


def numerical_rank(values: torch.Tensor) -> int:
    """How many singular values are more than a millionth of the largest."""
    return int(((values > 0) & (values > NEGLIGIBLE * values.max())).sum())


def dead_pairs(slot: Slot) -> int:
    """Rank-one pairs whose A row and B column are both zero: no gradient ever revives them."""
    a = (slot.A.detach() != 0).any(dim=1)
    b = (slot.B.detach() != 0).any(dim=0)
    return int((~(a | b)).sum())
