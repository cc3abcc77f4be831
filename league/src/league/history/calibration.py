"""Calibration: does the share of tasks that matchmaking expects come true?"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import whole_number
from league.history.agreement import log_loss, noise_per_task
from league.history.history import History
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
        notes.append("no match has been played yet")
        nothing = _deciles(*[np.zeros(0)] * 3)
        return Calibration(nothing, 0, 0, None, None, None, None, None, None, tuple(notes))
    p = np.array([m.predicted for m in matches])
    weight = np.array([float(m.counted) for m in matches])
    y = np.array([m.won for m in matches]) / weight
    variance = np.array([m.uncertainty**2 for m in matches])

    def mean(values: Floats) -> float:
        return float((weight * values).sum() / weight.sum())

    rollouts = [m.attempts / max(m.valid, 1) for m in matches]
    noise = np.array([noise_per_task(history.agreement, n) for n in rollouts])
    scale = history.config.model.performance_scale
    spread = _predictive_sd(p, weight / noise, variance, scale)
    doubted = history.config.scheme in _PROBIT
    return Calibration(
        deciles=_deciles(p, y, weight),
        matches=len(matches),
        tasks=int(weight.sum()),
        log_loss=mean(log_loss(p, y)),
        log_loss_constant=mean(log_loss(np.full_like(y, mean(y)), y)),
        log_loss_best=mean(log_loss(y, y)),
        rmse=math.sqrt(mean((y - p) ** 2)),
        bias=mean(y - p),
        coverage=float((np.abs(y - p) <= Z95 * spread + _TINY).mean()) if doubted else None,
        notes=tuple(notes),
    )


def _deciles(p: Floats, y: Floats, weight: Floats) -> tuple[Decile, ...]:
    where = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    rows = []
    for i in range(_BINS):
        inside = where == i
        total = float(weight[inside].sum())
        means = [float((weight * x)[inside].sum() / total) if total else None for x in (p, y)]
        rows.append(Decile(i / _BINS, (i + 1) / _BINS, int(inside.sum()), int(total), *means))
    return tuple(rows)


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
