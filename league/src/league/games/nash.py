"""Nash averaging: how good a member is when the other side plays as hard as it can.

Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018). The equilibrium comes
from regret-matching+ with alternating turns and linear averaging (Tammelin, "Solving large
imperfect information games using CFR+", 2014), which needs nothing but NumPy.
"""

from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, Mask, PlainData
from league.basics.errors import LeagueError, whole_number
from league.games.game import Game

_CHECK_EVERY = 50
_PLAYED = (1e-3, 1e-2, 1e-4)  # a weight below is taken for a rest of the averaging
_SHARP = 1e-9
_ROUGH = 1e-4


@dataclass(frozen=True)
class NashMember:
    """One member at the equilibrium."""

    member: str
    weight: float
    """Its part of its side's mixture."""
    share: float
    """The students' share of the tasks when it meets the other side's mixture; good students have
    it high, good teachers low."""


@dataclass(frozen=True)
class Exploitability(PlainData):
    """Gains in shares of the tasks, both >= 0."""

    value: float
    """The students' share when both mixtures meet."""
    teacher_gain: float
    """By how much the best single teacher lowers it against the students' mixture."""
    student_gain: float
    """By how much the best single student raises it against the teachers' mixture."""
    total: float
    """Their sum, 0 only at an equilibrium."""
    best_teacher: int
    """Row number, the first of equals."""
    best_student: int
    """Column number, the first of equals."""


@dataclass(frozen=True)
class Nash(PlainData):
    """An equilibrium of the game, within `gap`."""

    teachers: tuple[NashMember, ...]
    students: tuple[NashMember, ...]
    value: float
    """The students' share of the tasks when both sides play their mixture."""
    gap: float
    """What the best single members would still gain, both sides added."""
    iterations: int
    unique: bool | None
    """Whether no other mixture does as well, None where the gap is too large to tell."""
    uniform: Exploitability
    """The gains against everyone playing equally often."""
    filled: float
    notes: tuple[str, ...]
    """What was left out or filled."""


def nash(game: Game, *, iterations: int = 20_000, tolerance: float = _SHARP) -> Nash:
    """Return an equilibrium of the game and what each member is worth against it.

    It stops when the gap is at most `tolerance` (a share of the tasks), or after `iterations`.
    Members with equal rows get equal weights, so a copy of a member changes nothing for others.
    """
    whole_number("iterations", iterations, 1)
    share = game.matrix()
    x, y, used = equilibrium(share, iterations, tolerance)
    reached = exploitability(share, x, y)
    uniform = exploitability(share, *(np.full(n, 1.0 / n) for n in share.shape))
    unique = _unique(share, x, y) if reached.total <= _SHARP else None
    notes = list(game.notes)
    if reached.total > max(tolerance, _ROUGH):
        notes.append(f"stopped after {used} iterations with a gap of {reached.total:.2g}")
    if unique is False:
        notes.append("other mixtures do as well: read the shares, not the weights")
    return Nash(
        teachers=_members(game.teachers, x, share @ y),
        students=_members(game.students, y, x @ share),
        value=reached.value,
        gap=reached.total,
        iterations=used,
        unique=unique,
        uniform=uniform,
        filled=game.filled,
        notes=tuple(notes),
    )


def equilibrium(share: Floats, iterations: int, tolerance: float) -> tuple[Floats, Floats, int]:
    """Return the two average mixtures and the number of iterations used.

    share: what the second side wants high and the first side wants low, shape [n, m].
    """
    regret = [np.zeros(n) for n in share.shape]
    total = [np.zeros(n) for n in share.shape]
    x, y = (np.full(n, 1.0 / n) for n in share.shape)
    mean, step = [x, y], 0
    for step in range(1, iterations + 1):
        against_y = share @ y
        regret[0] = np.maximum(regret[0] + (x @ against_y - against_y), 0.0)
        x = _matched(regret[0])
        against_x = x @ share
        regret[1] = np.maximum(regret[1] + (against_x - against_x @ y), 0.0)
        y = _matched(regret[1])
        total[0] += step * x
        total[1] += step * y
        if step % _CHECK_EVERY == 0 or step == iterations:
            mean = [part / part.sum() for part in total]
            rounds = step // _CHECK_EVERY
            if rounds & (rounds - 1) == 0 or step == iterations:
                mean = _sharpened(share, *mean)
            if exploitability(share, *mean).total <= tolerance:
                break
    return mean[0], mean[1], step


def _sharpened(share: Floats, x: Floats, y: Floats) -> list[Floats]:
    """Solve for the mixtures that make those who play indifferent, if that comes closer."""
    best = [x, y]
    for threshold in _PLAYED:
        found = _indifferent(share, x > threshold, y > threshold)
        if found and exploitability(share, *found).total < exploitability(share, *best).total:
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


def _matched(regret: Floats) -> Floats:
    total = regret.sum()
    if total <= 0.0:
        return np.full(regret.size, 1.0 / regret.size)
    return np.asarray(regret / total)


def _unique(share: Floats, x: Floats, y: Floats) -> bool:
    """Whether the members that play are exactly the best responses, and their game is regular.

    Then, and only then, a zero-sum game has one equilibrium (Bohnenblust, Karlin and Shapley,
    "Solutions of discrete, two-person games", 1950). x and y must be exact but for rounding.
    """
    by_teacher, by_student = share @ y, x @ share
    slack = 100.0 * _SHARP
    good = (by_teacher <= by_teacher.min() + slack, by_student >= by_student.max() - slack)
    kernel = share[np.ix_(x > slack, y > slack)]
    size = len(kernel)
    if kernel.shape != (good[0].sum(), good[1].sum()) or kernel.shape[1] != size:
        return False
    bordered = np.pad(kernel, (0, 1), constant_values=1.0)
    bordered[size, size] = 0.0
    return bool(np.linalg.svd(bordered, compute_uv=False)[-1] > 1e-6)


def _members(names: tuple[str, ...], weights: Floats, shares: Floats) -> tuple[NashMember, ...]:
    return tuple(
        NashMember(name, weight, share)
        for name, weight, share in zip(names, weights.tolist(), shares.tolist(), strict=True)
    )


def exploitability(share: Floats, teachers: Floats, students: Floats) -> Exploitability:
    """Return what pure best responses gain against two mixtures.

    share: the students' share, shape [teachers, students]. teachers, students: weights >= 0 that
    sum to 1, of shape [teachers] and [students].
    """
    if share.ndim != 2 or share.shape != (teachers.size, students.size) or not share.size:
        raise LeagueError(
            f"a matrix of shape {share.shape} with {teachers.size} and {students.size} weights; "
            "expected one row per teacher's weight and one column per student's"
        )
    for weights in (teachers, students):
        if not np.all(weights >= 0.0) or not abs(float(weights.sum()) - 1.0) <= 1e-6:
            raise LeagueError(f"weights are {weights.tolist()}; expected numbers >= 0 with sum 1")
    by_teacher, by_student = share @ students, teachers @ share
    value = float(teachers @ by_teacher)
    gains = (max(0.0, value - float(by_teacher.min())), max(0.0, float(by_student.max()) - value))
    best = (int(by_teacher.argmin()), int(by_student.argmax()))
    return Exploitability(value, *gains, sum(gains), *best)
