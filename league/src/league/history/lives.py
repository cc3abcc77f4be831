"""What happened in a league, as plain rows: its members' lives, its matches, its ratings."""

from dataclasses import dataclass, field

import numpy as np

from league.config import LeagueConfig
from league.rating.normal import Floats
from league.rating.rating import Rating
from league.state.member import check_role


@dataclass(frozen=True, slots=True)
class Match:
    """One recorded match.

    predicted: the student's share of the tasks, as expected when the round was paired.
    uncertainty: standard deviation of the two skills' gap at that time, in rating units.
    counted: tasks with a winner. won: how many of them the student won (a fraction of a task for
    a fraction of right rollouts). valid, attempts, solved: as in `Outcome`.
    imbalance: how far the mean of the two ratings moved, in rating units, weighted by precision
    (equally under Elo); None where nothing is kept: under another scheme, against an anchor, or
    for a member that met several others in this round.
    """

    round: int
    teacher: str
    student: str
    predicted: float
    uncertainty: float
    counted: int
    won: float
    valid: int
    attempts: int
    solved: int
    imbalance: float | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """One member from beginning to end.

    born, ended: how many rounds had been paired when it came and when it was replaced (None while
    it lives). parents, weights: empty for a founder. anchor: it is frozen, and only a
    yardstick; its parent, if any, is the member that it is a copy of.
    rating: its last one. offset: how far its arrival moved the mean rating of its role.
    """

    name: str
    role: str
    slot: int
    born: int
    ended: int | None
    rating: Rating
    parents: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    operator: str = ""
    anchor: bool = False
    offset: float = 0.0


@dataclass(frozen=True)
class History:
    """All lives and matches of a league, and its ratings at some points in time.

    rounds: how many have been paired. sampled: the points in time, as numbers of paired rounds,
    rising. mu, sigma: shape [points, lives], NaN where a member was not alive. agreement: the
    correlation of two rollouts of one task (`task_agreement`), None if nothing tells.
    """

    config: LeagueConfig
    lives: tuple[Life, ...]
    matches: tuple[Match, ...] = ()
    rounds: int = 0
    sampled: tuple[int, ...] = ()
    mu: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    sigma: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    agreement: float | None = None

    def living(self, role: str) -> list[Life]:
        """The living members of a role by slot, without anchors."""
        found = [life for life in self.everyone(role) if life.ended is None]
        return sorted(found, key=lambda life: life.slot)

    def everyone(self, role: str) -> list[Life]:
        """All members that a role ever had, in order of arrival, without anchors."""
        check_role(role)
        return [life for life in self.lives if life.role == role and not life.anchor]
