"""Nash averaging: how good a member is when the other side plays as hard as it can.

Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018). The equilibrium comes
from regret-matching+ with alternating turns and linear averaging (Tammelin, "Solving large
imperfect information games using CFR+", 2014), which needs nothing but NumPy.
"""

from dataclasses import dataclass

import numpy as np

from league.game_theory.payoff import Payoff
from league.probability import Floats, Mask

_CHECK_EVERY = 50
_ITERATIONS = 20_000
_TOLERANCE = 1e-9  # a share of the tasks
_PLAYED = (1e-3, 1e-2, 1e-4)  # a weight below is taken for a rest of the averaging


@dataclass(frozen=True)
class Nash:
    """An equilibrium of the game, within `gap`; shares are the students' shares of the tasks."""

    teachers: dict[str, float]
    """The weight of each teacher in the teachers' mixture."""
    students: dict[str, float]
    teacher_shares: dict[str, float]
    """The share when each teacher meets the students' mixture; good teachers have it low."""
    student_shares: dict[str, float]
    """The share when each student meets the teachers' mixture; good students have it high."""
    value: float
    """The share when both sides play their mixture."""
    gap: float
    """What the best single members would still gain, both sides added."""
    uniform_gains: tuple[float, float]
    """What the best single teacher and student gain against all members in equal parts."""


def nash(payoff: Payoff, *, fill: bool = False) -> Nash:
    """Return an equilibrium of the game and what each member is worth against it.

    Members with equal rows get equal weights, so a copy of a member changes nothing for others.
    fill: see `Payoff.matrix`.
    """
    share = payoff.matrix(fill)
    x, y = equilibrium(share)
    return Nash(
        teachers=dict(zip(payoff.teachers, x.tolist(), strict=True)),
        students=dict(zip(payoff.students, y.tolist(), strict=True)),
        teacher_shares=dict(zip(payoff.teachers, (share @ y).tolist(), strict=True)),
        student_shares=dict(zip(payoff.students, (x @ share).tolist(), strict=True)),
        value=float(x @ share @ y),
        gap=sum(gains(share, x, y)),
        uniform_gains=gains(share, *(np.full(n, 1.0 / n) for n in share.shape)),
    )


def gains(share: Floats, teachers: Floats, students: Floats) -> tuple[float, float]:
    """Return what the best single teacher and the best single student gain against two mixtures.

    share: shape [teachers, students]. teachers, students: weights that sum to 1.
    """
    by_teacher, by_student = share @ students, teachers @ share
    value = float(teachers @ by_teacher)
    return max(0.0, value - float(by_teacher.min())), max(0.0, float(by_student.max()) - value)


def equilibrium(share: Floats) -> list[Floats]:
    """Return the two average mixtures, once what both could still gain is tiny.

    share: what the column side wants high and the row side wants low, shape [n, m].
    """

    def matched(regret: Floats) -> Floats:
        whole, size = float(regret.sum()), regret.size
        return np.asarray(regret / whole) if whole > 0.0 else np.full(size, 1.0 / size)

    regret = [np.zeros(n) for n in share.shape]
    total = [np.zeros(n) for n in share.shape]
    x, y = (np.full(n, 1.0 / n) for n in share.shape)
    mean = [x, y]
    for step in range(1, _ITERATIONS + 1):
        against_y = share @ y
        regret[0] = np.maximum(regret[0] + (x @ against_y - against_y), 0.0)
        x = matched(regret[0])
        against_x = x @ share
        regret[1] = np.maximum(regret[1] + (against_x - against_x @ y), 0.0)
        y = matched(regret[1])
        total[0] += step * x
        total[1] += step * y
        if step % _CHECK_EVERY == 0:
            mean = [part / part.sum() for part in total]
            checks = step // _CHECK_EVERY
            if checks & (checks - 1) == 0 or step == _ITERATIONS:
                mean = _sharpened(share, *mean)
            if sum(gains(share, *mean)) <= _TOLERANCE:
                break
    return mean


def _sharpened(share: Floats, x: Floats, y: Floats) -> list[Floats]:
    """Solve for the mixtures that make those who play indifferent, if that comes closer."""
    best = [x, y]
    for threshold in _PLAYED:
        found = _indifferent(share, x > threshold, y > threshold)
        if found and sum(gains(share, *found)) < sum(gains(share, *best)):
            best = found
    return best


def _indifferent(share: Floats, rows: Mask, columns: Mask) -> list[Floats] | None:
    """The mixtures of these rows and columns that make the other side's indifferent, if any."""
    kernel = share[np.ix_(rows, columns)]
    if not kernel.size:
        return None
    found = []
    for plays, payoff in ((rows, kernel.T), (columns, kernel)):
        size = payoff.shape[1]
        system = np.block([[payoff, -np.ones((len(payoff), 1))], [np.ones((1, size)), 0.0]])
        right = np.append(np.zeros(len(payoff)), 1.0)
        weights = np.linalg.lstsq(system, right, rcond=None)[0][:size]
        if not np.all(weights >= -1e-12) or not weights.sum() > 0.0:
            return None
        weights = np.maximum(weights, 0.0)
        mixture = np.zeros(plays.size)
        mixture[plays] = weights / weights.sum()
        found.append(mixture)
    return found
