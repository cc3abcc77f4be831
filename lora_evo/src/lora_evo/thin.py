"""Tall thin matrices handled through small ones: triangles, and turns within their column space.

A factor F [n, r] is written F = Q R with orthonormal Q [n, r] and upper triangular R [r, r].
R alone comes from the Gram matrix (Cholesky QR: R^T R = F^T F), which costs one thin product;
where that would lose accuracy, Householder QR is used instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

# Largest condition number (of F with its columns scaled to length one) to trust each Gram to:
# the relative error of what follows is about the unit roundoff times this number.
_LIMITS = ((torch.float32, 30.0), (torch.float64, 1e5))


@dataclass(frozen=True, eq=False)
class Thin:
    """F = Q R for a factor F [n, r]: `upper` is R (float64), [min(n, r), r].

    `q` is held only where F is nearly or exactly short of rank; elsewhere Q = F R^-1 is never
    formed, and `precision` is the float type that the condition of F asked for.
    """

    factor: torch.Tensor
    upper: torch.Tensor
    precision: torch.dtype
    q: torch.Tensor | None

    def turned(self, small: torch.Tensor) -> torch.Tensor:
        """Q W R for W = `small` (float64): F acted on within the span of its columns.

        W = I gives F back. [n, r], float32 or float64.
        """
        if self.q is not None:
            return self.q.mm(small.mm(self.upper))
        # F + F R^-1 (W - I) R: the step, not the whole, carries the rounding errors of R^-1.
        change = (small - torch.eye(len(small), dtype=torch.float64)) @ self.upper
        step = torch.linalg.solve_triangular(self.upper, change, upper=True)
        wide = self.factor.to(self.precision)
        return torch.addmm(wide, wide, step.to(self.precision))

    def seen_from(self, probe: torch.Tensor) -> torch.Tensor:
        """probe^T Q (float64) for a probe vector [n]."""
        if self.q is not None:
            return self.q.T.mv(probe)
        along = (probe.to(self.precision) @ self.factor.to(self.precision)).double()
        row: torch.Tensor = torch.linalg.solve_triangular(
            self.upper, along[None, :], upper=True, left=False
        )
        return row.reshape(-1)


def thin(factor: torch.Tensor) -> Thin:
    """Split F [n, r] by the cheapest route that keeps its digits."""
    rows, columns = factor.shape
    if rows >= columns:
        for precision, limit in _LIMITS:
            if precision == torch.float32 and factor.dtype == torch.float64:
                continue
            wide = factor.to(precision)
            upper = _cholesky((wide.T @ wide).double(), limit)
            if upper is not None:
                return Thin(factor, upper, precision, None)
    q, upper = torch.linalg.qr(factor.double())
    return Thin(factor, upper, torch.float64, q)


def prepared(factor: torch.Tensor) -> torch.Tensor:
    """A detached, contiguous copy in main memory, so that equal values give equal bits."""
    return factor.detach().to(device="cpu", copy=True).contiguous()


_guard = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside: sums then do not depend on how many there are.

    The setting is the process's own and is put back afterwards; two threads of one process must
    not both rely on different settings meanwhile, so the block is also a lock.
    """
    with _guard:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _cholesky(gram: torch.Tensor, limit: float) -> torch.Tensor | None:
    """Upper R with R^T R = gram, or None when the scaled Gram matrix is too ill-conditioned."""
    lengths = gram.diagonal().sqrt()
    if not bool(torch.isfinite(gram).all()) or not bool((lengths > 0).all()):
        return None
    values = torch.linalg.eigvalsh(gram / torch.outer(lengths, lengths))
    if float(values[0]) * limit**2 < float(values[-1]):
        return None
    lower, info = torch.linalg.cholesky_ex(gram)
    return None if int(info) else lower.T.contiguous()
