"""Tall thin matrices handled through small ones: triangles, and turns within their column space.

A factor F [n, r] is written F = Q R with orthonormal Q [n, r] and upper triangular R [r, r].
R alone comes from the Gram matrix (Cholesky QR: R^T R = F^T F), which costs one thin product;
where that would lose accuracy, Householder QR is used instead.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

# Largest |R^-1| (of F with its columns scaled to length one) to trust each Gram matrix to: the
# relative error of what follows is about the unit roundoff times this number.
_LIMITS = ((torch.float32, 60.0), (torch.float64, 3e5))
# In bytes; what torch gives to tensors of its own. Products may round otherwise elsewhere.
_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Thin:
    """F = Q R for a factor F [n, r]."""

    factor: torch.Tensor
    """F in `precision`."""
    upper: torch.Tensor
    """R (float64), [min(n, r), r]."""
    precision: torch.dtype
    """The float type that the condition of F asked for."""
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
        return product(self.factor, step.to(self.precision), onto=self.factor)

    def apply_basis(self, small: torch.Tensor) -> torch.Tensor:
        """Q W for W = `small` (float64) [min(n, r), m]: [n, m], float32 or float64."""
        if self.q is not None:
            return self.q.mm(small)
        solved = torch.linalg.solve_triangular(self.upper, small, upper=True)
        return product(self.factor, solved.to(self.precision))

    def project(self, probe: torch.Tensor) -> torch.Tensor:
        """probe^T Q (float64) for a probe vector [n]."""
        if self.q is not None:
            return self.q.T.mv(probe)
        along = (probe.to(self.precision) @ self.factor).double()
        row: torch.Tensor = torch.linalg.solve_triangular(
            self.upper, along[None, :], upper=True, left=False
        )
        return row.reshape(-1)


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
                return Thin(wide, upper, precision, None)
    wide = factor.double()
    q, upper = torch.linalg.qr(wide)
    return Thin(wide, upper, torch.float64, q)


def common_basis(factors: Sequence[torch.Tensor]) -> tuple[Thin, tuple[torch.Tensor, ...]]:
    """Split factors F_k [n, r_k] over one Q [n, m], m at most min(n, sum of r_k): F_k = Q R_k.

    Returns all of them side by side, and R_k [m, r_k] each (float64).
    """
    whole = thin(torch.cat(tuple(factors), dim=1))
    return whole, whole.upper.split_with_sizes([factor.shape[1] for factor in factors], dim=1)


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
    """The factor detached, contiguous and aligned in main memory: equal values give equal bits.

    Shares memory with the factor where that is so already; not to be written to.
    """
    plain = factor.detach().cpu().contiguous()
    return plain if plain.data_ptr() % _ALIGNMENT == 0 else plain.clone()


_thread_setting = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside: sums then do not depend on how many there are.

    The setting is the process's own and is put back afterwards; two threads of one process must
    not both rely on different settings meanwhile, so the block is also a lock.
    """
    with _thread_setting:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
