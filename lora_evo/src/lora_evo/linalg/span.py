"""One orthonormal basis for the columns of several tall factors, found block by block.

The first factor gives the first columns of the basis. Of each next factor F, what the basis so
far does not hold is left over, W = F - Q Q^T F (block Gram-Schmidt), and W = Q' R' gives the next
columns. Every product with Q goes through the factors (Q = F R^-1, see `thin`). Since W is formed
before its own Gram matrix is, factors that nearly coincide (siblings) lose no digits: the small
difference is measured by itself, not as the difference of large Gram matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from lora_evo.linalg.thin import Thin, product, thin

# What is left of a factor below this share of its size is rounding: nothing new.
_NOTHING = {torch.float32: 1e-6, torch.float64: 1e-13}

# Below this share, it is taken apart from the basis a second time.
_SMALL = 0.05


@dataclass(frozen=True, eq=False)
class Span:
    """F_k = Q `uppers[k]` for factors F_k [n, r_k]; Q is [n, m], m at most min(n, sum of r_k)."""

    blocks: tuple[Thin, ...]
    """Side by side they are Q."""
    uppers: tuple[torch.Tensor, ...]
    """[m, r_k] each, float64."""

    def spread(self, small: torch.Tensor) -> torch.Tensor:
        """Q W for W = `small` (float64) [m, c]: [n, c], float32 or float64."""
        sizes = [len(block.upper) for block in self.blocks]
        parts = zip(self.blocks, small.split_with_sizes(sizes), strict=True)
        first, *others = [block.spread(part) for block, part in parts]
        for other in others:
            first = first.add_(other) if first.dtype == other.dtype else first + other
        return first


def span(factors: Sequence[torch.Tensor]) -> Span:
    """A common orthonormal basis of factors [n, r_k] and the coordinates of each in it."""
    rows = len(factors[0])
    wide = torch.float64 if any(f.dtype == torch.float64 for f in factors) else torch.float32
    first = thin(factors[0].to(wide))
    if rows < sum(factor.shape[1] for factor in factors) or first.q is not None:
        return _whole(factors)
    blocks, columns = [first], [[first.upper]]
    for factor in factors[1:]:
        whole = factor.to(wide)
        size = float(torch.linalg.matrix_norm(whole))
        left_over, shares = _apart(blocks, whole)
        if float(torch.linalg.matrix_norm(left_over)) < _SMALL * size:
            # Rounding of the large part lies in the small rest: once more (twice is enough).
            left_over, more = _apart(blocks, left_over)
            shares = [one + two for one, two in zip(shares, more, strict=True)]
        if float(torch.linalg.matrix_norm(left_over)) > _NOTHING[wide] * size:
            rest = thin(left_over)
            if rest.q is not None:
                return _whole(factors)
            blocks.append(rest)
            shares.append(rest.upper)
        columns.append(shares)
    total = sum(len(block.upper) for block in blocks)
    uppers = (torch.cat(shares) for shares in columns)
    return Span(tuple(blocks), tuple(pad(rows, (0, 0, 0, total - len(rows))) for rows in uppers))


def _apart(blocks: Sequence[Thin], factor: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """F less what the blocks hold of it, and the coordinates of that in each block (float64)."""
    shares = []
    for block in blocks:
        # Q^T F for Q = B R^-1 is R^-T (B^T F).
        precision = torch.promote_types(block.precision, factor.dtype)
        inner = (block.factor.to(precision).T @ factor.to(precision)).double()
        share: torch.Tensor = torch.linalg.solve_triangular(block.upper.T, inner, upper=False)
        shares.append(share)
        solved = torch.linalg.solve_triangular(block.upper, share, upper=True)
        factor = product(block.factor.to(factor.dtype), -solved.to(factor.dtype), onto=factor)
    return factor, shares


def _whole(factors: Sequence[torch.Tensor]) -> Span:
    """The basis of all factors at once, by the safest route: where blocks are short of rank."""
    whole = thin(torch.cat([factor.double() for factor in factors], dim=1))
    ranks = [factor.shape[1] for factor in factors]
    return Span((whole,), tuple(whole.upper.split_with_sizes(ranks, dim=1)))
