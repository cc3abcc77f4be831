"""Calibration: does the share of tasks that matchmaking expects come true?"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import whole_number
from league.history.agreement import noise_per_task
from league.history.lives import History
from league.rating.normal import Z95, log_cdf_pair

_PROBIT = ("batch", "trueskill")
_BINS = 10
_TINY = 1e-9


@dataclass(frozen=True)
class Decile:
    """Matches predicted in [low, high)."""

    low: float
    high: float
    matches: int
    tasks: int
    predicted: float | None
    """Mean share of the tasks won by the student, weighted by tasks; None where no match fell."""
    observed: float | None
    """What the student really won, weighted alike."""


@dataclass(frozen=True)
class Calibration(PlainData):
    """Predictions made when the rounds were paired, against what was then played.

    All figures are None when no match counted.
    """

    deciles: tuple[Decile, ...]
    """Ten bins of the prediction."""
    matches: int
    tasks: int
    log_loss: float | None
    """Nats per task."""
    log_loss_constant: float | None
    """The same for always predicting the league's mean, which a useful prediction stays below."""
    log_loss_best: float | None
    """The same for predicting each match's own outcome."""
    rmse: float | None
    """Of the share, per match, weighted by tasks; it includes chance."""
    bias: float | None
    """Observed minus predicted."""
    coverage: float | None
    """Share of matches inside their 95 % prediction intervals, made of the two ratings' uncertainty
    and of chance in tasks and rollouts; None for schemes whose sigma is not TrueSkill's."""
    notes: tuple[str, ...]


def calibration(history: History, *, since: int = 0) -> Calibration:
    """Return how predictions compare with results, for matches of round `since` and later."""
    whole_number("since", since)
    matches = [m for m in history.matches if m.round >= since and m.counted]
    left_out = sum(m.round >= since and not m.counted for m in history.matches)
    notes = [f"matches from round {since} on"] if since else []
    if left_out:
        notes.append(f"{left_out} matches without a counted task are left out")
    if not matches:
        nothing = tuple(Decile(i / _BINS, (i + 1) / _BINS, 0, 0, None, None) for i in range(_BINS))
        notes.append("no match has been played yet")
        return Calibration(nothing, 0, 0, None, None, None, None, None, None, tuple(notes))
    p = np.array([m.predicted for m in matches])
    weight = np.array([float(m.counted) for m in matches])
    y = np.array([m.won for m in matches]) / weight
    variance = np.array([m.uncertainty**2 for m in matches])
    overall = np.full_like(y, float((weight * y).sum() / weight.sum()))
    known = 1.0 if history.agreement is None else history.agreement
    noise = np.array([noise_per_task(known, m.attempts / max(m.valid, 1)) for m in matches])
    scale = history.config.model.performance_scale
    spread = _predictive_sd(p, weight / noise, variance, scale)
    doubted = history.config.scheme in _PROBIT
    return Calibration(
        deciles=_deciles(p, y, weight),
        matches=len(matches),
        tasks=int(weight.sum()),
        log_loss=_log_loss(p, y, weight),
        log_loss_constant=_log_loss(overall, y, weight),
        log_loss_best=_log_loss(y, y, weight),
        rmse=math.sqrt(float((weight * (y - p) ** 2).sum() / weight.sum())),
        bias=float((weight * (y - p)).sum() / weight.sum()),
        coverage=float((np.abs(y - p) <= Z95 * spread + _TINY).mean()) if doubted else None,
        notes=tuple(notes),
    )


def _deciles(p: Floats, y: Floats, weight: Floats) -> tuple[Decile, ...]:
    where = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    rows = []
    for i in range(_BINS):
        inside = where == i
        total = float(weight[inside].sum())
        rows.append(
            Decile(
                low=i / _BINS,
                high=(i + 1) / _BINS,
                matches=int(inside.sum()),
                tasks=int(total),
                predicted=float((weight * p)[inside].sum() / total) if total else None,
                observed=float((weight * y)[inside].sum() / total) if total else None,
            )
        )
    return tuple(rows)


def _log_loss(p: Floats, y: Floats, weight: Floats) -> float:
    q = np.clip(p, _TINY, 1.0 - _TINY)
    loss = -(y * np.log(q) + (1.0 - y) * np.log1p(-q))
    return float((weight * loss).sum() / weight.sum())


def _predictive_sd(p: Floats, trials: Floats, variance: Floats, scale: float) -> Floats:
    """Standard deviation of the observed share, shape [n].

    The chance Φ(d/c) of one task has mean p when the gap d is normal with this variance V; its
    second moment comes from 41-node Gauss-Hermite quadrature, and the chance of that many
    independent trials is added.
    """
    inverse = NormalDist().inv_cdf
    z = np.array([inverse(q) for q in np.clip(p, _TINY, 1.0 - _TINY).tolist()])
    nodes, node_weight = np.polynomial.hermite_e.hermegauss(41)
    gap = (z * np.sqrt(scale**2 + variance))[:, None] + np.sqrt(variance)[:, None] * nodes
    second = (np.exp(2.0 * log_cdf_pair(gap / scale)[0]) * node_weight).sum(axis=1)
    second /= node_weight.sum()
    between = np.maximum(second - p * p, 0.0)
    return np.asarray(np.sqrt(between + np.maximum(p - second, 0.0) / trials))
