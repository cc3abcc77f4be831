"""What a result is worth as evidence: how much rollouts of one task agree, and log-losses."""

from collections.abc import Sequence

import numpy as np

from league.basics.data import Floats
from league.state.records import Outcome

_STEPS = 40


def task_agreement(outcomes: Sequence[Outcome]) -> float | None:
    """Return the correlation of two rollouts of one task within a match, in [0, 1].

    0: every rollout is a toss of its own; 1: a task is either always or never solved. The six
    numbers of an outcome hold no single task, but they count the unsolved ones: under a
    beta-binomial with the match's solve rate q and the correlation r, a task with n rollouts stays
    unsolved with the probability of `_unsolved`, and r is where expected and found counts agree.

    None when nothing tells: fewer than two rollouts per task, or nothing solved or failed.
    """
    telling = [o for o in outcomes if o.attempts >= 2 * o.valid > 0 and 0 < o.solved < o.attempts]
    if not telling:
        return None
    found = sum(o.unsolved for o in telling)

    def expected(correlation: float) -> float:
        return sum(
            o.valid * _unsolved(o.solved / o.attempts, round(o.attempts / o.valid), correlation)
            for o in telling
        )

    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expected(middle) < found else (low, middle)
    return 0.5 * (low + high)


def noise_per_task(agreement: float | None, rollouts: float) -> float:
    """Return the variance of a task's solve rate in units of q (1 - q): r + (1 - r) / n.

    agreement: r, taken to be 1 when None. rollouts: n, at least 1.
    """
    known = 1.0 if agreement is None else agreement
    return known + (1.0 - known) / max(rollouts, 1.0)


def log_loss(predicted: Floats, observed: Floats) -> Floats:
    """Return -(s ln p + (1 - s) ln(1 - p)) in nats, elementwise, p kept 1e-9 from 0 and 1."""
    p = np.clip(predicted, 1e-9, 1.0 - 1e-9)
    return np.asarray(-(observed * np.log(p) + (1.0 - observed) * np.log1p(-p)))


def _unsolved(rate: float, rollouts: int, correlation: float) -> float:
    chance = 1.0
    for i in range(rollouts):
        failed = (1.0 - rate) * (1.0 - correlation) + i * correlation
        chance *= failed / (1.0 - correlation + i * correlation) if i else 1.0 - rate
    return chance
