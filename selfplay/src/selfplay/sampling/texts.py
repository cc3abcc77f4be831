"""Proposals and attempts: who is asked for what, what was written, and what became of it.

A `Proposed` is a proposal on its way through a step, and holds the attempts at its task, each an
`Attempt`. Each phase fills in what it adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from code_verifier import Metrics, Proposal, Status, Task
from lora_evo.model import Rollout
from selfplay.files.rows import GIVEN

FORM = "form"
"""Status of a text that cannot be read as a proposal."""
NOT_SAMPLED = Rollout(None, (), (), (), "length")
"""The rollout of what has not been written yet."""


@dataclass
class Attempt:
    """One try of a member (None: the frozen base) at a task.

    - answer: None where the text holds no answer.
    - score: in [0, 1]; 1 solves the task.
    - infra_error: the sandbox failed, not the answer: this attempt counts nowhere.
    """

    member: str | None
    task: Task
    seed: int
    temperature: float
    rollout: Rollout = NOT_SAMPLED
    answer: str | None = None
    score: float = 0.0
    reason: str = ""
    infra_error: bool = False

    @property
    def writer(self) -> str | None:
        """Who is asked."""
        return self.member

    @property
    def text(self) -> str:
        """What was written; a stop text that ended it is its end."""
        return self.rollout.text

    def take(self, rollout: Rollout, read: Any) -> None:
        """Take what was written, and the answer in it."""
        self.rollout, self.answer = rollout, read


@dataclass
class Proposed:
    """A proposal: what a teacher (None: the frozen base) was asked for, and what came of it.

    - number: its place among the proposals that are sampled together.
    - references: the tasks that the prompt shows.
    - proposal: without comments and docstrings, which could give answers away; None for another
      text.
    - task: there exactly when the sandbox accepted the proposal, or where it is given and no one
      proposes (teacher None).
    - base_attempts: attempts of the frozen base at the same task, where it was drawn for
      comparison.
    - rival_attempts: attempts of another student at the same task, where the teacher's reward
      compares the two.
    """

    number: int
    id: str
    teacher: str | None
    student: str | None
    kind: str
    references: tuple[Task, ...]
    seed: int
    rollout: Rollout = NOT_SAMPLED
    proposal: Proposal | None = None
    status: str = FORM
    reason: str = "the text is not a proposal"
    task: Task | None = None
    metrics: Metrics | None = None
    attempts: list[Attempt] = field(default_factory=list)
    base_attempts: list[Attempt] = field(default_factory=list)
    rival_attempts: list[Attempt] = field(default_factory=list)

    @property
    def writer(self) -> str | None:
        """Who is asked."""
        return self.teacher

    @property
    def match(self) -> tuple[str, str | None]:
        """Who plays whom: the teacher, or the file of tasks, and the student."""
        return self.teacher or GIVEN, self.student

    @property
    def text(self) -> str:
        """What was written; a stop text that ended it is its end."""
        return self.rollout.text

    def take(self, rollout: Rollout, read: Any) -> None:
        """Take what was written, and the proposal in it."""
        self.rollout, self.proposal = rollout, read

    @property
    def all_attempts(self) -> list[Attempt]:
        """The attempts of everyone at the task."""
        return [*self.attempts, *self.base_attempts, *self.rival_attempts]

    @property
    def judged(self) -> list[Attempt]:
        """The attempts that got a verdict."""
        return [a for a in self.attempts if not a.infra_error]

    @property
    def base_judged(self) -> list[Attempt]:
        """The base's attempts that got a verdict."""
        return [a for a in self.base_attempts if not a.infra_error]

    @property
    def rival_judged(self) -> list[Attempt]:
        """The rival's attempts that got a verdict."""
        return [a for a in self.rival_attempts if not a.infra_error]

    @property
    def infra_error(self) -> bool:
        """Whether the sandbox failed where a verdict was due: then nothing is learned from this."""
        return self.status == Status.SANDBOX_ERROR or (bool(self.attempts) and not self.judged)

    @property
    def solve_rate(self) -> float:
        """Share of the judged attempts that solved the task; 0 where there is none."""
        return share_solved(self.judged)

    @property
    def base_solve_rate(self) -> float:
        """The same of the frozen base's attempts."""
        return share_solved(self.base_judged)

    @property
    def rival_solve_rate(self) -> float:
        """The same of the rival's attempts."""
        return share_solved(self.rival_judged)


def share_solved(attempts: Sequence[Attempt]) -> float:
    """Return the share of attempts that solved their task; 0 where there is none."""
    return sum(a.score >= 1.0 for a in attempts) / len(attempts) if attempts else 0.0


W = TypeVar("W", Proposed, Attempt)
