"""The small things that a league's state is made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One match to be played."""

    id: str
    round: int
    teacher: str
    student: str
    predicted: float
    """The student's expected share of the tasks."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """All matches of one teacher with one student; plain sums but for the past."""

    matches: int = 0
    tasks: int = 0
    valid: int = 0
    attempts: int = 0
    solved: int = 0
    past_tasks: float = 0.0
    """Counted tasks, fading with every new match."""
    past_won: float = 0.0
    """The student's share of them."""
    last_round: int = -1

    @property
    def solve_rate(self) -> float | None:
        """Right rollouts on valid tasks; None without an attempt."""
        return self.solved / self.attempts if self.attempts else None


@dataclass(frozen=True, slots=True)
class Replacement:
    """One member's end and its child's beginning."""

    member: str
    child: str
    parents: tuple[str, ...]
    weights: tuple[float, ...]
    operator: str
    reason: str
    rounds: int
    """How many rounds had been paired."""
    offset: float
    """How much the mean mu of the role moved. That is a change of the zero point, not progress;
    subtract it before comparing ratings across generations."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A frozen member."""

    name: str
    role: str
    of: str
    """Whose copy it is, "" if nobody's of this league."""
    rounds: int
    """How many rounds had been paired when it was frozen."""
    cause: str
    """`added` by the caller, or frozen by the league itself: `round` (hall_every) or `replacement`
    (hall_at_replacement)."""


ADDED = "added"
"""The cause of an anchor that the caller asked for."""
