"""Records of a league: members, pairs, outcomes, meetings, replacements, anchors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from league.errors import LeagueError, check_whole
from league.ratings import Rating

TEACHER = "teacher"
STUDENT = "student"
ROLES = (TEACHER, STUDENT)
MEMBER = "member"
"""The role of everybody in a league of one population, where members play each other."""


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
    infra_errors: int = 0
    """Further tasks, in none of the other numbers, lost to infrastructure (a crashed verifier);
    they are kept and shown, and never rated."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_whole(name, getattr(self, name))
        if self.attempts:
            fits = self.valid > 0 and (self.solved > 0) == (self.unsolved < self.valid)
        else:
            fits = not self.unsolved
        parts = (
            (self.valid, self.tasks),
            (self.solved, self.attempts),
            (self.unsolved, self.valid),
        )
        if not fits or any(part > whole for part, whole in parts):
            raise LeagueError(
                f"{self} contradicts itself; expected valid <= tasks, solved <= attempts, unsolved "
                "<= valid, attempts on valid tasks alone, and all tasks unsolved exactly if they "
                "were attempted and no rollout solved one"
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
    def student_score(self) -> float:
        """The student's share of the counted tasks, in [0, 1]; 0.5 when nothing counts.

        An invalid task is lost by its teacher: left out, a broken teacher with a few impossible
        tasks would rank first.
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
    """How much the mean mu of the role moved, which is not progress; subtract it before comparing
    ratings across generations."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A frozen member."""

    name: str
    role: str
    of: str
    """The member that it is a copy of, "" for none."""
    rounds: int
    """How many rounds had been paired when it was frozen."""
    cause: str
    """`added` by the caller, or `round`: frozen by the league itself (hall_every)."""


ADDED = "added"
"""The cause of an anchor that the caller asked for."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


@dataclass(frozen=True, slots=True)
class Member:
    """One member, with the sums of its results.

    The counts add up its outcomes. In a league of one population, those of tasks are of the
    matches in which it was the teacher, and `attempts` and `solved` of those in which it solved.
    """

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
    infra_errors: int = 0
    """Tasks of its matches lost to infrastructure."""
    turn: int = -1
    """How many rounds had been paired when its slot last was in one."""
    anchor: bool = False
    """Whether it is frozen: rated against, never rated, never in a slot."""

    @property
    def mean_reward(self) -> float | None:
        """A teacher's mean reward per task, a student's share of right rollouts; None if none.

        The mean of the two for a member of one population.
        """
        solving = self.solved / self.attempts if self.attempts else None
        rewarded = self.tasks - self.valid + self.tried
        teaching = self.reward_millionths / rewarded / 1e6 if rewarded else None
        if self.role == MEMBER:
            known = [part for part in (solving, teaching) if part is not None]
            return sum(known) / len(known) if known else None
        return solving if self.role == STUDENT else teaching

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict for `from_dict`."""
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

    Per task: -1 if invalid, 0 if no rollout solved it, else 1 - solve rate. The sum needs no solve
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
