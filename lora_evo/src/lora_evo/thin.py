"""QR factorisations of tall thin matrices, and rotations within their column space.

A factor F [n, r] is written F = Q R with orthonormal Q [n, r] and upper triangular R [r, r].
R comes from the Gram matrix (Cholesky QR: R^T R = F^T F), or from Householder QR if that would be
inaccurate. `span` finds one basis of several factors by block Gram-Schmidt: the rest of the next
factor F, W = F - Q Q^T F = Q' R', gives the next columns Q'.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

# Largest |R^-1| (of F with columns of length one) for which the Gram matrix in this dtype is used:
# the relative error of results is about the unit roundoff times this number.
_LIMITS = ((torch.float32, 60.0), (torch.float64, 3e5))
# Bytes, as of torch's own tensors: products may round differently with other alignments.
_ALIGNMENT = 64
# A rest of a factor below this share of its size is rounding.
_NOTHING = {torch.float32: 1e-6, torch.float64: 1e-13}
# A rest below this share is orthogonalised a second time.
_SMALL = 0.05


@dataclass(frozen=True, eq=False)
class Thin:
    """F = Q R for a factor F [n, r]."""

    factor: torch.Tensor
    """F in the dtype that its condition number needs."""
    upper: torch.Tensor
    """R (float64), [min(n, r), r]."""
    q: torch.Tensor | None
    """Q if F is (nearly) rank-deficient; otherwise F R^-1 is never formed."""

    def rotate(self, small: torch.Tensor) -> torch.Tensor:
        """Return Q W R [n, r] (float32 or float64) for W = `small` (float64); W = I gives F."""
        if self.q is not None:
            return self.q.mm(small.mm(self.upper))
        # F + F R^-1 (W - I) R: only the second term has the rounding errors of R^-1.
        change = (small - torch.eye(len(small), dtype=torch.float64)) @ self.upper
        step = torch.linalg.solve_triangular(self.upper, change, upper=True)
        return product(self.factor, step.to(self.factor.dtype), onto=self.factor)

    def apply_basis(self, small: torch.Tensor, onto: torch.Tensor | None = None) -> torch.Tensor:
        """Return Q W [n, m] (float32 or float64), plus `onto`, for W = `small` [min(n, r), m]
        (float64)."""
        if self.q is not None:
            result = self.q.mm(small)
            return result if onto is None else result + onto
        solved = torch.linalg.solve_triangular(self.upper, small, upper=True)
        if onto is not None and onto.dtype != self.factor.dtype:
            return product(self.factor, solved.to(self.factor.dtype)) + onto
        return product(self.factor, solved.to(self.factor.dtype), onto=onto)

    def project(self, probe: torch.Tensor) -> torch.Tensor:
        """Return probe^T Q (float64) for a probe vector [n]."""
        if self.q is not None:
            return self.q.T.mv(probe)
        products = (probe.to(self.factor.dtype) @ self.factor).double()
        row: torch.Tensor = torch.linalg.solve_triangular(
            self.upper, products[None, :], upper=True, left=False
        )
        return row.reshape(-1)


@dataclass(frozen=True, eq=False)
class Span:
    """F_k = Q `uppers[k]` for factors F_k [n, r_k]; Q is [n, m], m at most min(n, sum of r_k)."""

    blocks: tuple[Thin, ...]
    """Side by side they are Q."""
    uppers: tuple[torch.Tensor, ...]
    """[m, r_k] each, float64."""

    def apply_basis(self, small: torch.Tensor) -> torch.Tensor:
        """Return Q W [n, c] (float32 or float64) for W = `small` [m, c] (float64)."""
        sizes = [len(block.upper) for block in self.blocks]
        total: torch.Tensor | None = None
        for block, part in zip(self.blocks, small.split_with_sizes(sizes), strict=True):
            total = block.apply_basis(part, onto=total)
        assert total is not None
        return total


def thin(factor: torch.Tensor) -> Thin:
    """Return the QR factorisation of F [n, r], by the cheapest way that is accurate."""
    rows, columns = factor.shape
    if rows >= columns:
        for precision, limit in _LIMITS:
            if precision == torch.float32 and factor.dtype == torch.float64:
                continue
            wide = factor.to(precision)
            upper = triangle((wide.T @ wide).double(), limit)
            if upper is not None:
                return Thin(wide, upper, None)
    wide = factor.double()
    q, upper = torch.linalg.qr(wide)
    return Thin(wide, upper, q)


def span(factors: Sequence[torch.Tensor]) -> Span:
    """Return a common orthonormal basis of factors [n, r_k], and the coordinates of each in it."""
    rows = len(factors[0])
    wide = torch.float64 if any(f.dtype == torch.float64 for f in factors) else torch.float32
    first = thin(factors[0].to(wide))
    if rows < sum(factor.shape[1] for factor in factors) or first.q is not None:
        return _whole(factors)
    blocks, columns = [first], [[first.upper]]
    for factor in factors[1:]:
        whole = factor.to(wide)
        size = float(torch.linalg.matrix_norm(whole))
        rest, coordinates = _orthogonalised(blocks, whole)
        if float(torch.linalg.matrix_norm(rest)) < _SMALL * size:
            # The small rest contains rounding errors of the large part: repeat (twice is enough).
            rest, corrections = _orthogonalised(blocks, rest)
            coordinates = [c + d for c, d in zip(coordinates, corrections, strict=True)]
        if float(torch.linalg.matrix_norm(rest)) > _NOTHING[wide] * size:
            block = thin(rest)
            if block.q is not None:
                return _whole(factors)
            blocks.append(block)
            coordinates.append(block.upper)
        columns.append(coordinates)
    total = sum(len(block.upper) for block in blocks)
    uppers = (torch.cat(coordinates) for coordinates in columns)
    return Span(tuple(blocks), tuple(pad(rows, (0, 0, 0, total - len(rows))) for rows in uppers))


def triangle(gram: torch.Tensor, limit: float) -> torch.Tensor | None:
    """Return upper R (float64) with R^T R = `gram`; None if |R^-1| of scaled F exceeds `limit`."""
    lengths = gram.diagonal().sqrt()
    shortest, longest = (float(end) for end in torch.aminmax(lengths))
    if not (0.0 < shortest <= longest < math.inf):
        return None
    lower, info = torch.linalg.cholesky_ex(gram)
    if int(info):
        return None
    scaled = torch.diag(lengths)
    inverse = torch.linalg.solve_triangular(lower, scaled, upper=False)
    if not float(torch.linalg.matrix_norm(inverse)) <= limit:
        return None
    upper: torch.Tensor = lower.T.contiguous()
    return upper


def product(
    factor: torch.Tensor, small: torch.Tensor, onto: torch.Tensor | None = None
) -> torch.Tensor:
    """Return F W, plus `onto`, for F [n, r] and W [r, m], in the memory layout of F.

    If F is A^T, a view of A, the product is formed as (W^T A)^T without a strided copy.
    """
    if factor.T.is_contiguous():
        flat = small.T.contiguous()
        result = flat.mm(factor.T) if onto is None else torch.addmm(onto.T, flat, factor.T)
        return result.T
    return factor.mm(small) if onto is None else torch.addmm(onto, factor, small)


def prepared(factor: torch.Tensor) -> torch.Tensor:
    """Return the factor detached, contiguous and aligned in main memory, copied if necessary."""
    plain = factor.detach().cpu().contiguous()
    return plain if plain.data_ptr() % _ALIGNMENT == 0 else plain.clone()


_thread_setting = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside, so that sums do not depend on their number.

    The setting is of the whole process, so the block is also a lock.
    """
    with _thread_setting:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _orthogonalised(
    blocks: Sequence[Thin], factor: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return F without its part in the blocks' span, and that part's coordinates (float64)."""
    coordinates = []
    for block in blocks:
        # Q^T F for Q = B R^-1 is R^-T (B^T F).
        precision = torch.promote_types(block.factor.dtype, factor.dtype)
        inner = (block.factor.to(precision).T @ factor.to(precision)).double()
        part: torch.Tensor = torch.linalg.solve_triangular(block.upper.T, inner, upper=False)
        coordinates.append(part)
        solved = torch.linalg.solve_triangular(block.upper, part, upper=True)
        factor = product(block.factor.to(factor.dtype), -solved.to(factor.dtype), onto=factor)
    return factor, coordinates


def _whole(factors: Sequence[torch.Tensor]) -> Span:
    """Return the basis of all factors by one QR in float64, for rank-deficient blocks."""
    whole = thin(torch.cat([factor.double() for factor in factors], dim=1))
    ranks = [factor.shape[1] for factor in factors]
    return Span((whole,), tuple(whole.upper.split_with_sizes(ranks, dim=1)))
