"""What a league keeps records of: members, pairs, outcomes, meetings, replacements, anchors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from league.basics.errors import LeagueError, whole_number
from league.rating.rating import Rating


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


TEACHER = "teacher"
STUDENT = "student"
ROLES = (TEACHER, STUDENT)


def check_role(role: str) -> str:
    """Return the role if it is one; raise LeagueError otherwise."""
    if role not in ROLES:
        raise LeagueError(f"role is {role!r}; expected 'teacher' or 'student'")
    return role


def other_role(role: str) -> str:
    """Return the role that this one plays against."""
    return STUDENT if role == TEACHER else TEACHER


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


@dataclass(frozen=True, slots=True)
class Member:
    """One member and all that is known of it; the counts add up its own outcomes."""

    name: str
    role: str
    slot: int
    """Its place within the role, 0-based, handed on at replacement; -1 for an anchor."""
    born: int
    """How many rounds had been paired when it came."""
    rating: Rating
    alive: bool = True
    """Whether it holds its slot."""
    parents: tuple[str, ...] = ()
    operator: str = ""
    paired: int = 0
    """Matches that its slot was given, its predecessors' included."""
    matches: int = 0
    tasks: int = 0
    valid: int = 0
    attempts: int = 0
    solved: int = 0
    unsolved: int = 0
    tried: int = 0
    """Valid tasks with an attempt."""
    reward_millionths: int = 0
    """The sum over a teacher's tasks; a whole number, so that adding commutes."""
    void: int = 0
    """Tasks of its matches that were lost by our own fault."""
    turn: int = -1
    """How many rounds had been paired when its slot last was in one."""
    anchor: bool = False
    """Whether it is frozen: rated against, never rated, never in a slot."""

    @property
    def mean_reward(self) -> float | None:
        """A teacher's mean reward per task, a student's share of right rollouts; None if none."""
        if self.role == STUDENT:
            return self.solved / self.attempts if self.attempts else None
        rewarded = self.tasks - self.valid + self.tried
        return self.reward_millionths / rewarded / 1e6 if rewarded else None

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict that `from_dict` takes back."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        rating = {"mu": self.rating.mu, "sigma": self.rating.sigma}
        return plain | {"rating": rating, "parents": list(self.parents)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Member":
        """Return the member of a plain dict."""
        values = dict(data)
        values["rating"] = Rating(**values["rating"])
        values["parents"] = tuple(values["parents"])
        return cls(**values)


def teacher_reward(outcome: Outcome) -> float:
    """Return the sum of the paper's teacher reward over a batch.

    Per task: -1 if invalid, 0 if nobody solved it, else 1 - solve rate. The sum needs no solve
    rate of single tasks as long as each valid task gets equally many attempts.
    """
    reward = -float(outcome.invalid)
    if outcome.attempts:
        reward += outcome.valid - outcome.unsolved
        reward -= outcome.valid * outcome.solved / outcome.attempts
    return reward


def check_name(name: object) -> str:
    """Return the name if it can be a member's; raise LeagueError otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LeagueError(
            f"{name!r} cannot be a member's name; expected 1 to 128 letters, digits or . _ + -, "
            "beginning with a letter or digit"
        )
    return name
