"""One strength per member: the probit model of a table of shares, fitted by weighted Newton steps.

share[t][s] = Φ(a_s - b_t), McCullagh and Nelder, "Generalized linear models" (1989), chapter 4.
"""

from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, Mask
from league.rating.normal import log_cdf_pair, log_pdf

_STEPS = 25
_REACH = 5.0
_RIDGE = 1e-9


@dataclass(frozen=True)
class ProbitFit:
    """The fit, all of shape [teachers, students] and 0 (share: 0.5) where nothing was played."""

    gap: Floats
    """a_s - b_t on the probit scale."""
    share: Floats
    """Φ(gap)."""
    weight: Floats
    """Information of the cell on that scale, for one independent trial per task."""
    residual: Floats
    """What the cell adds to the gap, one Newton step."""
    leverage: Floats
    """How far each cell decides its own fit, in [0, 1]."""
    chi2: float
    """Sum of weight times residual²."""
    freedom: int
    """Cells minus free strengths."""


def probit_fit(won: Floats, counted: Floats, start: Floats | None = None) -> ProbitFit:
    """Fit a_s - b_t to won of counted tasks, both of shape [teachers, students].

    A quarter of a task is added to both sides of each cell, so that a cell of 0 or 1 stays finite.
    start: a gap matrix of the same model to begin at.
    """
    known = counted > 0.0
    total = np.where(known, counted + 0.5, 1.0)
    y = np.where(known, (won + 0.25) / total, 0.5)
    gap = np.zeros_like(won) if start is None else start
    for _ in range(_STEPS):
        share, weight, residual = _linearised(gap, y, total, known)
        solved, _leverage, _rank = _weighted(gap + residual, weight)
        new = np.clip(solved, -_REACH, _REACH)
        step = float(np.abs(np.where(known, new - gap, 0.0)).max())
        gap = new
        if step < 1e-6:
            break
    share, weight, residual = _linearised(gap, y, total, known)
    _solved, leverage, rank = _weighted(gap + residual, weight)
    chi2, freedom = float((weight * residual**2).sum()), int(known.sum()) - rank
    return ProbitFit(gap, share, weight, residual, leverage, chi2, freedom)


def _linearised(
    gap: Floats, y: Floats, total: Floats, known: Mask
) -> tuple[Floats, Floats, Floats]:
    up, down = log_cdf_pair(gap)
    density = np.exp(log_pdf(gap))
    share = np.exp(up)
    weight = np.where(known, total * density**2 / np.exp(up + down), 0.0)
    residual = np.where(known, (y - share) / density, 0.0)
    return share, weight, residual


def _weighted(target: Floats, weight: Floats) -> tuple[Floats, Floats, int]:
    """Weighted least squares of target on a_s - b_t: the fitted matrix, leverages, rank."""
    rows = len(target)
    sides = (np.diag(weight.sum(axis=1)), np.diag(weight.sum(axis=0)))
    normal = np.block([[sides[0], -weight], [-weight.T, sides[1]]])
    right = np.concatenate([-(weight * target).sum(axis=1), (weight * target).sum(axis=0)])
    values, vectors = np.linalg.eigh(normal)
    large = values > _RIDGE * max(float(values[-1]), 1e-300)
    inverse = (vectors[:, large] / values[large]) @ vectors[:, large].T
    strength = inverse @ right
    b, a = strength[:rows], strength[rows:]
    own = np.diag(inverse)
    leverage = weight * (own[:rows, None] + own[None, rows:] - 2.0 * inverse[:rows, rows:])
    return a[None, :] - b[:, None], leverage, int(large.sum())
