"""Nash averaging: how good a member is when the other side plays as hard as it can.

Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018). The equilibrium comes
from regret-matching+ with alternating turns and linear averaging (Tammelin, "Solving large
imperfect information games using CFR+", 2014), which needs nothing but NumPy.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from league.analysis.exploitability import Exploitability, exploitability
from league.analysis.game import Game
from league.errors import LeagueError
from league.normal import Floats

_CHECK_EVERY = 50
_PLAYED = 1e-3  # a weight below this is a rest of the averaging


@dataclass(frozen=True)
class NashMember:
    """weight: its part of its side's equilibrium mixture. share: the students' share of the tasks
    when it meets the other side's mixture; good students have it high, good teachers low."""

    member: str
    weight: float
    share: float


@dataclass(frozen=True)
class Nash:
    """An equilibrium of the game, within `gap`.

    value: the students' share of the tasks when both sides play their mixture. gap: what the best
    single members would still gain, both sides added. unique: whether no other mixture does as
    well (None if the averaging cannot tell). uniform: the gains against everyone playing equally
    often. notes: what was left out or filled.
    """

    teachers: tuple[NashMember, ...]
    students: tuple[NashMember, ...]
    value: float
    gap: float
    iterations: int
    unique: bool | None
    uniform: Exploitability
    filled: float
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


def nash(game: Game, *, iterations: int = 20_000, tolerance: float = 1e-5) -> Nash:
    """Return an equilibrium of the game and what each member is worth against it.

    It stops when the gap is at most `tolerance` (a share of the tasks), or after `iterations`.
    Members with equal rows get equal weights, so a copy of a member changes nothing for others.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise LeagueError(f"iterations is {iterations!r}; expected a whole number >= 1")
    share = game.matrix()
    x, y, used = equilibrium(share, iterations, tolerance)
    reached = exploitability(share, x, y)
    uniform = [np.full(n, 1.0 / n) for n in share.shape]
    unique = _unique(share, x, y, reached)
    notes = list(game.notes)
    if reached.total > tolerance:
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
        uniform=exploitability(share, *uniform),
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
    rows, columns = x > _PLAYED, y > _PLAYED
    kernel = share[np.ix_(rows, columns)]
    sharp = [np.zeros_like(x), np.zeros_like(y)]
    for side, plays, payoff in ((0, rows, kernel.T), (1, columns, kernel)):
        size = payoff.shape[1]
        system = np.block([[payoff, -np.ones((len(payoff), 1))], [np.ones((1, size)), 0.0]])
        right = np.append(np.zeros(len(payoff)), 1.0)
        weights = np.linalg.lstsq(system, right, rcond=None)[0][:size]
        if not np.all(weights >= -1e-12) or not weights.sum() > 0.0:
            return [x, y]
        weights = np.maximum(weights, 0.0)
        sharp[side][plays] = weights / weights.sum()
    better = exploitability(share, *sharp).total < exploitability(share, x, y).total
    return sharp if better else [x, y]


def _matched(regret: Floats) -> Floats:
    total = regret.sum()
    if total <= 0.0:
        return np.full(regret.size, 1.0 / regret.size)
    return np.asarray(regret / total)


def _unique(share: Floats, x: Floats, y: Floats, reached: Exploitability) -> bool | None:
    """Whether the members that play are exactly the best responses, and their game is regular.

    Then, and only then, a zero-sum game has one equilibrium (Bohnenblust, Karlin and Shapley,
    "Solutions of discrete, two-person games", 1950). With a rest of error `tolerance` this is
    read off numbers, hence None where they are too close to call.
    """
    by_teacher, by_student = share @ y, x @ share
    slack = max(10.0 * reached.total, 1e-9)
    good = [by_teacher <= by_teacher.min() + slack, by_student >= by_student.max() - slack]
    plays = [x > _PLAYED, y > _PLAYED]
    if any(bool(np.any(p & ~g)) for p, g in zip(plays, good, strict=True)):
        return None
    if any(int(p.sum()) != int(g.sum()) for p, g in zip(plays, good, strict=True)):
        return False
    kernel = share[np.ix_(plays[0], plays[1])]
    if kernel.shape[0] != kernel.shape[1]:
        return False
    size = kernel.shape[0]
    bordered = np.ones((size + 1, size + 1))
    bordered[:size, :size] = kernel
    bordered[size, size] = 0.0
    return bool(np.linalg.svd(bordered, compute_uv=False)[-1] > 1e-6)


def _members(names: tuple[str, ...], weights: Floats, shares: Floats) -> tuple[NashMember, ...]:
    return tuple(
        NashMember(name, weight, share)
        for name, weight, share in zip(names, weights.tolist(), shares.tolist(), strict=True)
    )
