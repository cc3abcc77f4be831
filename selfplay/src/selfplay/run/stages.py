"""What one step passes from phase to phase: a proposal, its verdict, the attempts at it."""

from collections.abc import Sequence
from dataclasses import dataclass

from code_verifier import Metrics, Status, Task
from evals.engine.rollout import Rollout
from league import Pair
from selfplay.population.writing import Written

FORM = "form"
"""Status of a text that could not be read as a proposal at all."""


@dataclass(frozen=True)
class Match:
    """Who writes tasks for whom in a step; `pair` is the league's record of it, if there is one."""

    teacher: str
    student: str
    pair: Pair | None = None
    predicted: float | None = None
    """Expected solve rate before the match."""


@dataclass(frozen=True)
class Proposed:
    """What a teacher wrote, and what for."""

    id: str
    number: int
    """Its place among the step's proposals."""
    match: Match
    kind: str
    references: tuple[str, ...]
    """Ids of the tasks that the prompt showed."""
    written: Written


@dataclass(frozen=True)
class Verified:
    """A proposal after the sandbox; `task` is there exactly when it was accepted."""

    proposed: Proposed
    status: str
    reason: str
    task: Task | None
    metrics: Metrics | None


@dataclass(frozen=True)
class Attempt:
    """One try of the matched student at a task."""

    rollout: Rollout
    text: str
    answer: str | None
    """None when the text was not well formed."""
    score: float
    reason: str
    void: bool = False
    """The sandbox failed, not the answer: this try counts nowhere."""


@dataclass(frozen=True)
class Solved:
    """A verified proposal with its attempts: none where there was no task."""

    verified: Verified
    attempts: tuple[Attempt, ...]
    base_attempts: tuple[Attempt, ...] = ()
    """Attempts of the frozen base at the same task, where it was drawn for comparison."""

    @property
    def void(self) -> bool:
        """Whether the sandbox failed where a verdict was due: then nobody learns from this."""
        return self.verified.status == Status.SANDBOX_ERROR or (
            bool(self.attempts) and not self.judged
        )

    @property
    def judged(self) -> list[Attempt]:
        """The attempts that the sandbox judged."""
        return [a for a in self.attempts if not a.void]

    @property
    def base_judged(self) -> list[Attempt]:
        """The base's attempts that the sandbox judged."""
        return [a for a in self.base_attempts if not a.void]

    @property
    def rho(self) -> float:
        """Share of the judged attempts that solved the task; 0 where there is none."""
        return _share_solved(self.judged)

    @property
    def base_rho(self) -> float:
        """The same of the frozen base's attempts."""
        return _share_solved(self.base_judged)


def by_match(
    matches: Sequence[Match], solved: Sequence[Solved]
) -> list[tuple[Match, list[Solved]]]:
    """Return every match with what came of its proposals."""
    found: dict[int, list[Solved]] = {id(m): [] for m in matches}
    for s in solved:
        found[id(s.verified.proposed.match)].append(s)
    return [(m, found[id(m)]) for m in matches]


def _share_solved(attempts: Sequence[Attempt]) -> float:
    return sum(a.score >= 1.0 for a in attempts) / len(attempts) if attempts else 0.0
