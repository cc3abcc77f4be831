"""Records of what happened: pairs, their outcomes, meetings, replacements and anchors."""

from dataclasses import dataclass
from operator import attrgetter

from league.basics.errors import LeagueError, whole_number


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened when one student met one teacher's batch of tasks.

    A batch without a valid task is legal; a match with no tasks at all is kept and not rated.
    Raises LeagueError when the numbers contradict each other.
    """

    tasks: int
    """Proposed by the teacher."""
    valid: int
    """Of these, accepted by the verifier."""
    attempts: int
    """The student's rollouts on valid tasks."""
    solved: int
    """Right rollouts."""
    unsolved: int
    """Valid tasks that no rollout solved."""
    void: int = 0
    """Further tasks, in none of the other numbers, that were lost by your own fault (a crashed
    verifier); they are kept and shown, and never rated."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            whole_number(name, getattr(self, name))
        for part, whole in (("valid", "tasks"), ("solved", "attempts"), ("unsolved", "valid")):
            if getattr(self, part) > getattr(self, whole):
                raise LeagueError(
                    f"{part} {getattr(self, part)} exceeds {whole} {getattr(self, whole)}"
                )
        if self.attempts and not self.valid:
            raise LeagueError(f"{self.attempts} attempts on 0 valid tasks; expected none")
        if self.unsolved and not self.attempts:
            raise LeagueError(f"{self.unsolved} unsolved tasks without an attempt; expected none")
        if self.attempts and (self.solved > 0) == (self.unsolved == self.valid):
            raise LeagueError(
                f"{self.solved} rollouts solved, but {self.unsolved} of {self.valid} valid tasks "
                "unsolved; expected fewer unsolved tasks if any rollout solved one, else all"
                if self.solved
                else f"no rollout solved anything, but only {self.unsolved} of {self.valid} valid "
                "tasks are unsolved"
            )

    @property
    def invalid(self) -> int:
        """Tasks that the verifier refused."""
        return self.tasks - self.valid

    @property
    def counted(self) -> int:
        """Tasks with a winner: the invalid ones, and the valid ones if they were attempted."""
        return self.tasks if self.attempts else self.invalid

    @property
    def solve_rate(self) -> float | None:
        """Share of right rollouts on valid tasks; None without an attempt."""
        return self.solved / self.attempts if self.attempts else None

    @property
    def student_score(self) -> float:
        """The student's share of the counted tasks, in [0, 1]; 0.5 when nothing counts.

        An invalid task is lost by its teacher. Leaving it out instead makes a broken teacher,
        whose few valid tasks nobody can solve, the champion of the league.
        """
        if not self.counted:
            return 0.5
        won = self.valid * self.solved / self.attempts if self.attempts else 0.0
        return (self.invalid + won) / self.counted


outcome_row = attrgetter(*Outcome.__slots__)
"""The numbers of an outcome, in the order of its fields."""


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
