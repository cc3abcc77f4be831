"""Singular values of an update, found without forming it."""

import math

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import prepared, thin

# A singular value below this share of the largest one counts as none: masked, or never trained.
NEGLIGIBLE = 1e-6


def singular_values(slot: Slot) -> torch.Tensor:
    """Singular values of the update s B A, largest first (float64).

    They are those of s R_B R_A^T, for B = Q_B R_B and A^T = Q_A R_A with orthonormal Qs.
    """
    left, right = thin(prepared(slot.B)).upper, thin(prepared(slot.A).T).upper
    values: torch.Tensor = torch.linalg.svdvals(left.mm(right.T).mul(slot.scale))
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
