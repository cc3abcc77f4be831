"""The small things that a league's state is made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One match to be played. predicted: the student's expected share of the tasks."""

    id: str
    round: int
    teacher: str
    student: str
    predicted: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """All matches of one teacher with one student.

    past_tasks and past_won are counted tasks and the student's share of them, fading with every
    new match; the other counts are plain sums.
    """

    matches: int = 0
    tasks: int = 0
    valid: int = 0
    attempts: int = 0
    solved: int = 0
    past_tasks: float = 0.0
    past_won: float = 0.0
    last_round: int = -1


@dataclass(frozen=True, slots=True)
class Replacement:
    """One member's end and its child's beginning.

    offset: how much the mean mu of the role moved. That is a change of the zero point, not
    progress; subtract it before comparing ratings across generations.
    """

    member: str
    child: str
    parents: tuple[str, ...]
    weights: tuple[float, ...]
    operator: str
    reason: str
    rounds: int
    offset: float


@dataclass(frozen=True, slots=True)
class Anchor:
    """A frozen member. of: whose copy it is, "" if nobody's of this league.

    rounds: how many rounds had been paired when it was frozen. cause: `added` by the caller, or
    frozen by the league itself: `round` (hall_every) or `replacement` (hall_at_replacement).
    """

    name: str
    role: str
    of: str
    rounds: int
    cause: str


ADDED = "added"
"""The cause of an anchor that the caller asked for."""
