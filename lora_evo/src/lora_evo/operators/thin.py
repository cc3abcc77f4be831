"""Tall thin matrices handled through small ones: triangles, and turns within their column space.

A factor F [n, r] is written F = Q R with orthonormal Q [n, r] and upper triangular R [r, r].
R alone comes from the Gram matrix (Cholesky QR: R^T R = F^T F); where that would lose accuracy,
Householder QR is used instead. `span` finds one basis of several factors by block Gram-Schmidt: of
each next factor F, W = F - Q Q^T F is left over, and W = Q' R' gives the next columns.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

# Largest |R^-1| (of F with its columns scaled to length one) to trust each Gram matrix to: the
# relative error of what follows is about the unit roundoff times this number.
_LIMITS = ((torch.float32, 60.0), (torch.float64, 3e5))
# In bytes; what torch gives to tensors of its own. Products may round otherwise elsewhere.
_ALIGNMENT = 64
# What is left of a factor below this share of its size is rounding: nothing new.
_NOTHING = {torch.float32: 1e-6, torch.float64: 1e-13}
# Below this share, it is taken apart from the basis a second time.
_SMALL = 0.05


@dataclass(frozen=True, eq=False)
class Thin:
    """F = Q R for a factor F [n, r]."""

    factor: torch.Tensor
    """F in the float type that its condition asked for."""
    upper: torch.Tensor
    """R (float64), [min(n, r), r]."""
    q: torch.Tensor | None
    """Held only where F is nearly or exactly short of rank; elsewhere F R^-1 is never formed."""

    def rotate(self, small: torch.Tensor) -> torch.Tensor:
        """Q W R for W = `small` (float64): F acted on within the span of its columns.

        W = I gives F back. [n, r], float32 or float64.
        """
        if self.q is not None:
            return self.q.mm(small.mm(self.upper))
        # F + F R^-1 (W - I) R: the step, not the whole, carries the rounding errors of R^-1.
        change = (small - torch.eye(len(small), dtype=torch.float64)) @ self.upper
        step = torch.linalg.solve_triangular(self.upper, change, upper=True)
        return product(self.factor, step.to(self.factor.dtype), onto=self.factor)

    def apply_basis(self, small: torch.Tensor, onto: torch.Tensor | None = None) -> torch.Tensor:
        """Q W for W = `small` (float64) [min(n, r), m], plus `onto` if given: [n, m], float32 or
        float64."""
        if self.q is not None:
            spread = self.q.mm(small)
            return spread if onto is None else spread + onto
        solved = torch.linalg.solve_triangular(self.upper, small, upper=True)
        if onto is not None and onto.dtype != self.factor.dtype:
            return product(self.factor, solved.to(self.factor.dtype)) + onto
        return product(self.factor, solved.to(self.factor.dtype), onto=onto)

    def project(self, probe: torch.Tensor) -> torch.Tensor:
        """probe^T Q (float64) for a probe vector [n]."""
        if self.q is not None:
            return self.q.T.mv(probe)
        along = (probe.to(self.factor.dtype) @ self.factor).double()
        row: torch.Tensor = torch.linalg.solve_triangular(
            self.upper, along[None, :], upper=True, left=False
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
        """Q W for W = `small` (float64) [m, c]: [n, c], float32 or float64."""
        sizes = [len(block.upper) for block in self.blocks]
        total: torch.Tensor | None = None
        for block, part in zip(self.blocks, small.split_with_sizes(sizes), strict=True):
            total = block.apply_basis(part, onto=total)
        assert total is not None
        return total


def thin(factor: torch.Tensor) -> Thin:
    """Split F [n, r] in the cheapest way that keeps its digits."""
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


def triangle(gram: torch.Tensor, limit: float) -> torch.Tensor | None:
    """Upper R (float64) with R^T R = `gram`; None where |R^-1|, of F scaled, is above `limit`."""
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
    """F W, plus `onto` if given, for F [n, r] and W [r, m]; laid out in memory as F is.

    A^T is at hand as a view of A; the product is then formed as (W^T A)^T, without a strided copy.
    """
    if factor.T.is_contiguous():
        flat = small.T.contiguous()
        done = flat.mm(factor.T) if onto is None else torch.addmm(onto.T, flat, factor.T)
        return done.T
    return factor.mm(small) if onto is None else torch.addmm(onto, factor, small)


def prepared(factor: torch.Tensor) -> torch.Tensor:
    """The factor detached, contiguous and aligned in main memory, copied where it is not so."""
    plain = factor.detach().cpu().contiguous()
    return plain if plain.data_ptr() % _ALIGNMENT == 0 else plain.clone()


_thread_setting = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside: sums then do not depend on how many there are.

    The setting is the process's own, so the block is also a lock.
    """
    with _thread_setting:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _apart(blocks: Sequence[Thin], factor: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """F less what the blocks hold of it, and the coordinates of that in each block (float64)."""
    shares = []
    for block in blocks:
        # Q^T F for Q = B R^-1 is R^-T (B^T F).
        precision = torch.promote_types(block.factor.dtype, factor.dtype)
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
