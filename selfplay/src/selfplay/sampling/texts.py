"""Proposals and attempts: member, prompt, sampled text, and verdict.

A `Proposed` is a proposal on its way through a step, with the attempts at its task, each an
`Attempt`. Each phase fills in its fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from code_verifier import Metrics, Proposal, Status, Task
from lora_evo.model import Rollout
from selfplay.files.rows import GIVEN
from selfplay.tasks.held_out import HELD_OUT

FORM = "form"
"""Status of a text that cannot be read as a proposal."""
NOT_SAMPLED = Rollout(None, (), (), (), "length")
"""The rollout of a draft or an attempt that is not sampled yet."""


@dataclass
class Attempt:
    """One try of a member (None: the frozen base) at a task.

    - answer: None if the text has no answer.
    - score: in [0, 1], of a taskset any number; at least solved_from solves the task.
    - infra_error: the sandbox, or a taskset's reward, failed, not the answer; no number counts this
      attempt.
    - reward, advantage: None if it trains no member.
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
    reward: float | None = None
    advantage: float | None = None
    prompt: str = ""
    solved_from: float = 1.0

    @property
    def solved(self) -> bool:
        """Whether the answer solves the task."""
        return self.score >= self.solved_from

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
    """A proposal of a teacher (None: the frozen base), and the attempts at its task.

    - number: its place among the proposals that are sampled together.
    - references: the tasks in the prompt.
    - proposal: without comments and docstrings, which could reveal answers; None for a text without
      a proposal.
    - task: None until the sandbox accepts the proposal. With `rollout.tasks` it is the file's, and
      teacher is None.
    - base_attempts: of the frozen base at the same task, if it was drawn for comparison.
    - rival_attempts: of another student at the same task, if the teacher's reward needs them.
    - reward, advantage: of the teacher; None if it trains none.
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
    reward: float | None = None
    advantage: float | None = None
    prompt: str = ""

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
        """The attempts of student, base and rival."""
        return [*self.attempts, *self.base_attempts, *self.rival_attempts]

    @property
    def judged(self) -> list[Attempt]:
        """The attempts that got a verdict."""
        return [a for a in self.attempts if not a.infra_error]

    @property
    def not_judged(self) -> int:
        """Number of attempts, of student, base and rival, at which the sandbox failed."""
        return sum(a.infra_error for a in self.all_attempts)

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
        """Whether the sandbox failed at the proposal or at all attempts; then it trains none."""
        return self.status == Status.SANDBOX_ERROR or (bool(self.attempts) and not self.judged)

    @property
    def held_out(self) -> bool:
        """Whether its task is one that members are measured on; then it trains none."""
        return self.status == HELD_OUT

    @property
    def solve_rate(self) -> float:
        """Share of the judged attempts that solved the task; 0 without any."""
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
    """Return the share of attempts that solved their task; 0 without any."""
    return sum(a.solved for a in attempts) / len(attempts) if attempts else 0.0


W = TypeVar("W", Proposed, Attempt)
