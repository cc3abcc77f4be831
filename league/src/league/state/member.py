"""A teacher, who sets tasks, or a student, who solves them, alive or replaced."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from league.basics.errors import LeagueError
from league.rating.rating import Rating
from league.state.outcome import Outcome

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
