"""Diversity: how many different members a role effectively has, by what they win and lose."""

from dataclasses import dataclass

import numpy as np

from league.game_theory.payoff import Payoff
from league.probability import Floats, Ints, stream


@dataclass(frozen=True)
class Diversity:
    """Effective numbers of different members, from 1 (all alike) to the size of the role."""

    teachers: float
    """exp of the entropy of the normalised singular values of the payoff rows."""
    students: float
    teachers_alike: float
    """The 95 % quantile of that number if all teachers were equal and only chance made their rows
    differ; a number at or below it shows no diversity."""
    students_alike: float


def diversity(payoff: Payoff, *, fill: bool = False, seed: int = 0, draws: int = 200) -> Diversity:
    """Return the effective number of distinct payoff rows of both roles.

    draws: repetitions for the two `alike` numbers, which take every task as one trial. fill: see
    `Payoff.matrix`.
    """
    share = payoff.matrix(fill)
    tasks = np.array(payoff.tasks, dtype=np.int64)
    return Diversity(
        teachers=effective_rows(1.0 - share),
        students=effective_rows(share.T),
        teachers_alike=_alike(1.0 - share, tasks, draws, seed, "teacher"),
        students_alike=_alike(share.T, tasks.T, draws, seed, "student"),
    )


def effective_rows(rows: Floats) -> float:
    """Return exp(-sum p log p) of the singular values divided by their sum; 1 if all are 0.

    Roy and Vetterli, "The effective rank" (2007). rows: shape [n, m], n > 0.
    """
    values = np.linalg.svd(rows, compute_uv=False)
    total = float(values.sum())
    if total <= 0.0:
        return 1.0
    p = values[values > 1e-12 * total] / total
    return float(np.exp(-(p * np.log(p)).sum()))


def _alike(rows: Floats, tasks: Ints, draws: int, seed: int, role: str) -> float:
    weight = np.maximum(tasks, 1)
    common = np.clip((rows * weight).sum(axis=0) / weight.sum(axis=0), 0.0, 1.0)
    rng = stream(seed, "diversity", role)
    chance = np.broadcast_to(common, rows.shape)
    found = [
        effective_rows(np.where(tasks > 0, rng.binomial(weight, chance) / weight, chance))
        for _ in range(draws)
    ]
    return float(np.quantile(found, 0.95))
