"""What happened in a league, as plain rows: its members' lives, its matches, its ratings."""

from dataclasses import dataclass, field

import numpy as np

from league.basics.data import Floats
from league.rating.rating import Rating
from league.state.config import LeagueConfig
from league.state.member import check_role


@dataclass(frozen=True, slots=True)
class Match:
    """One recorded match."""

    round: int
    teacher: str
    student: str
    predicted: float
    """The student's share of the tasks, as expected when the round was paired."""
    uncertainty: float
    """Standard deviation of the two skills' gap at that time, in rating units."""
    counted: int
    """Tasks with a winner."""
    won: float
    """How many of them the student won (a fraction of a task for a fraction of right rollouts)."""
    valid: int
    """As in `Outcome`, like the two below."""
    attempts: int
    solved: int
    imbalance: float | None = None
    """How far the mean of the two ratings moved, in rating units, weighted by precision (equally
    under Elo); None where nothing is kept: under another scheme, against an anchor, or for a
    member that met several others in this round."""


@dataclass(frozen=True, slots=True)
class Life:
    """One member from beginning to end."""

    name: str
    role: str
    slot: int
    born: int
    """How many rounds had been paired when it came."""
    ended: int | None
    """How many had been when it was replaced; None while it lives."""
    rating: Rating
    """Its last one."""
    parents: tuple[str, ...] = ()
    """Empty for a founder; of an anchor, the member that it is a copy of."""
    weights: tuple[float, ...] = ()
    operator: str = ""
    anchor: bool = False
    """Whether it is frozen, and only a yardstick."""
    offset: float = 0.0
    """How far its arrival moved the mean rating of its role."""

    @property
    def main_parent(self) -> str:
        """The parent of the largest weight, the first of equals; "" for a founder."""
        if not self.parents:
            return ""
        return self.parents[max(range(len(self.parents)), key=lambda i: (self.weights[i], -i))]


@dataclass(frozen=True)
class History:
    """All lives and matches of a league, and its ratings at some points in time."""

    config: LeagueConfig
    lives: tuple[Life, ...]
    matches: tuple[Match, ...] = ()
    rounds: int = 0
    """How many have been paired."""
    sampled: tuple[int, ...] = ()
    """The points in time, as numbers of paired rounds, rising."""
    mu: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Shape [points, lives], NaN where a member was not alive."""
    sigma: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Of the same shape."""
    agreement: float | None = None
    """The correlation of two rollouts of one task (`task_agreement`), None if nothing tells."""

    def living(self, role: str) -> list[Life]:
        """The living members of a role by slot, without anchors."""
        found = [life for life in self.everyone(role) if life.ended is None]
        return sorted(found, key=lambda life: life.slot)

    def everyone(self, role: str) -> list[Life]:
        """All members that a role ever had, in order of arrival, without anchors."""
        check_role(role)
        return [life for life in self.lives if life.role == role and not life.anchor]
