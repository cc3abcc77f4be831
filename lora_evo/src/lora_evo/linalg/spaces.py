"""Numbers for pairs of adapters, module by module: inner products and overlaps of spaces.

The column space of D = s*B*A is what it can write, the row space what it reads. The principal
angles between two such spaces depend neither on the factorization nor on norms (Bjorck & Golub
1973); their mean squared cosine is the overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import prepared
from lora_evo.linalg.updates import CANCELLED, check_same_ends, numerical_rank, slot_gap

# Columns of the factors that are held in float64 at a time.
_STRIPE = 2048


@dataclass(frozen=True, eq=False)
class Spaces:
    """D = `columns` diag(`values`) `rows`^T, float64; k is the numerical rank, 0 for D = 0."""

    columns: torch.Tensor
    """[out, k]."""
    values: torch.Tensor
    """[k], largest first."""
    rows: torch.Tensor
    """[in, k]."""


def spaces(slot: Slot) -> Spaces:
    """Return orthonormal bases of both spaces of an update and its singular values.

    B = Q_B R_B and A^T = Q_A R_A; the SVD U S V^T of the core s R_B R_A^T gives Q_B U and Q_A V.
    """
    left = torch.linalg.qr(prepared(slot.B).double())
    right = torch.linalg.qr(prepared(slot.A).double().T)
    u, values, vh = torch.linalg.svd(slot.scale * left.R @ right.R.T, full_matrices=False)
    count = numerical_rank(values)
    return Spaces(left.Q @ u[:, :count], values[:count], right.Q @ vh[:count].T)


def inner_products(path: str, slots: Sequence[Slot]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inner products <D_i, D_j> and squared distances of all pairs: [n, n] each (float64).

    <D_i, D_j> = s_i s_j tr(B_i^T B_j A_j A_i^T) is the sum of the entries of
    (s_i B_i^T s_j B_j) * (A_i A_j^T): blocks of two Gram matrices, made member by member against
    all later ones. A pair too close for that goes through QR, so that small distances keep their
    digits and equal factors are exactly 0 apart.
    """
    for slot in slots[1:]:
        check_same_ends(path, slots[0], slot)
    size = len(slots)
    widths = [slot.rank for slot in slots]
    starts = [sum(widths[:place]) for place in range(size)]
    scales = torch.tensor([slot.scale for slot in slots], dtype=torch.float64)
    left = _upper_gram([slot.B.detach().T for slot in slots], starts)
    right = _upper_gram([slot.A.detach() for slot in slots], starts)
    products = torch.zeros(size, size, dtype=torch.float64)
    for i, (start, width) in enumerate(zip(starts, widths, strict=True)):
        mine = slice(start, start + width)
        entries = (left[mine, start:] * right[mine, start:]).sum(0)
        for j, block in enumerate(torch.split(entries, widths[i:]), start=i):
            products[i, j] = products[j, i] = block.sum()
    products *= torch.outer(scales, scales)
    products.diagonal().clamp_(min=0.0)
    gaps = torch.zeros_like(products)
    for i, j in combinations(range(size), 2):
        both = float(products[i, i] + products[j, j])
        gap = both - 2 * float(products[i, j])
        if gap <= CANCELLED * both:
            gap = slot_gap(path, slots[i], slots[j]).difference ** 2
            products[i, j] = products[j, i] = (both - gap) / 2
        gaps[i, j] = gaps[j, i] = gap
    return products, gaps


def _upper_gram(factors: Sequence[torch.Tensor], starts: Sequence[int]) -> torch.Tensor:
    """Return F F^T (float64) of all factors [r, n] one below the other, in its upper blocks."""
    total = sum(factor.shape[0] for factor in factors)
    gram = torch.zeros(total, total, dtype=torch.float64)
    ends = [*starts[1:], total]
    for first in range(0, factors[0].shape[1], _STRIPE):
        stripe = [factor[:, first : first + _STRIPE].cpu() for factor in factors]
        wide = torch.cat(stripe).double()
        for start, end in zip(starts, ends, strict=True):
            gram[start:end, start:].addmm_(wide[start:end], wide[start:].T)
    return gram


def space_overlaps(slots: Sequence[Slot]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean cos^2 of the principal angles of column and row spaces: [n, n] each (float64).

    It is |Q_i^T Q_j|^2 / min(k_i, k_j) for orthonormal bases; NaN where a space is empty.
    """
    bases = [spaces(slot) for slot in slots]
    return overlaps([one.columns for one in bases]), overlaps([one.rows for one in bases])


def overlaps(bases: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return mean cos^2 of the angles between the spans of orthonormal bases [width, k_i]."""
    widths = [basis.shape[1] for basis in bases]
    together = torch.cat(list(bases), dim=1)
    sizes = torch.tensor(widths, dtype=torch.float64)
    least = torch.minimum(sizes[:, None], sizes[None, :])
    rows = (torch.split(basis.T @ together, widths, dim=1) for basis in bases)
    squares = torch.stack([torch.stack([part.square().sum() for part in row]) for row in rows])
    found = ((squares + squares.T) / (2 * least)).clamp(max=1.0)
    return torch.where(torch.eye(len(bases), dtype=torch.bool) & (least > 0), 1.0, found)
