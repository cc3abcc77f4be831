"""The rows of a run's files, and how they are written and read.

metrics.jsonl has a StepRow a step, tasks.jsonl a TaskRow a proposal, eval.jsonl an EvalRow a
measurement of a member, resources.jsonl a ResourceRow a step. Rates and shares are in [0, 1], and
None where there is nothing to take them of.
"""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, to_builtins

from code_verifier import Task
from lora_evo import append_text
from selfplay.errors import RunDirectoryError

T = TypeVar("T", bound=Struct)
Maybe = float | None | UnsetType
"""A number, None where it has no value, UNSET where it does not apply."""
GIVEN = "tasks"
"""Name, in the league and in matches, of the file that `rollout.tasks` names."""
BASE = "base"
"""Name and role of the frozen base in the rows."""
COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
"""Measures of programs whose means the rows hold."""
START = "start"
"""Name and role of the warm start's adapter, as members are before the first step."""


class AttemptRow(Struct, frozen=True):
    """Equal answers of a student."""

    thought: str = ""
    answer: str | None = None
    """None where none could be read."""
    score: float = 0.0
    """In [0, 1]."""
    count: int = 1
    reward: float | None = None
    """None where nothing was learned from it."""
    advantage: float | None = None
    """By which it moved its student."""

    @property
    def verdict(self) -> str:
        """`right`, `partly`, `wrong` or `ill-formed`."""
        if self.answer is None:
            return "ill-formed"
        if self.score >= 1.0:
            return "right"
        return "partly" if self.score > 0.0 else "wrong"


class TaskRow(Struct, frozen=True, kw_only=True):
    """One proposal."""

    id: str
    step: int
    teacher: str
    student: str | None = None
    kind: str
    references: tuple[str, ...] = ()
    """Ids of the tasks that the teacher was shown."""
    program: str | None = None
    input: str | None = None
    output: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    message: str = ""
    visible: int = 0
    status: str
    """`ok` where the proposal became a task."""
    reason: str = ""
    metrics: dict[str, Any] | None = None
    solve_rate: float | None = None
    """Share of the judged attempts that solved the task."""
    base_solve_rate: float | None = None
    """The frozen base's, where the task was drawn for comparison."""
    rival_solve_rate: Maybe = UNSET
    """Another student's; of runs whose teachers are paid for the difference."""
    reward: float | None = None
    """The teacher's."""
    advantage: float | None = None
    """By which it moved its teacher."""
    attempts: tuple[AttemptRow, ...] = ()
    base_attempts: tuple[AttemptRow, ...] = ()
    """The frozen base's, where the task was drawn for comparison."""
    text: str | UnsetType | None = UNSET
    """What the teacher wrote, where it could not be read as a proposal."""

    @property
    def accepted(self) -> bool:
        """Whether the proposal became a task."""
        return self.status == "ok"

    def task(self) -> Task:
        """Return the task of an accepted proposal."""
        return Task.from_row(to_builtins(self), complete=True)


class SameTasksRow(Struct, frozen=True):
    """Students and the frozen base on the same sample of the step's tasks."""

    tasks: int = 0
    students: float | None = None
    base: float | None = None
    difference: float | None = None
    """Solve rate of the students minus the base's."""


class KindRow(Struct, frozen=True):
    """One kind of task."""

    proposed: int = 0
    valid_share: float | None = None
    solve_rate: float | None = None


class CoverageRow(Struct, frozen=True):
    """Different structures of accepted programs, since the start and new in this step."""

    structures: int = 0
    new: int = 0
    commonest: float | None = None
    """Share of the step's accepted programs that have the structure most common in it."""


class TokensRow(Struct, frozen=True):
    """Tokens of a step."""

    sampled: int = 0
    trained: int = 0


class MatchRow(Struct, frozen=True):
    """A pair of the step with predicted and observed solve rate."""

    teacher: str
    student: str
    predicted: float | None = None
    observed: float | None = None


class BirthRow(Struct, frozen=True):
    """One replacement."""

    removed: str
    """The member whose place the child took."""
    child: str
    parents: tuple[str, ...] = ()
    operator: str = "unknown"
    relative_change: float | None = None
    """|D' - D| / |D| of the child's whole update against its first parent's."""
    learning_rate: Maybe = UNSET
    """The child's, before the schedule; of runs whose members have their own."""
    spared: tuple[str, ...] | UnsetType = UNSET
    """Members of the role that had not played `league.grace_matches` yet; where there are any."""


class MemberRow(Struct, frozen=True, kw_only=True):
    """A member in a step: what it earned, and what the update did to it.

    A number that is not finite is None, and so are ratios and differences of a member that learned
    from no token.
    """

    role: str = "member"
    reward: Maybe = UNSET
    student_reward: Maybe = UNSET
    """Of the single agent, whose `reward` is that of its proposals."""
    solve_rate: Maybe = UNSET
    valid_share: Maybe = UNSET
    base_solve_rate: Maybe = UNSET
    """Of a teacher's tasks, by the frozen base."""
    well_formed: Maybe = UNSET
    """Share of attempts from which an answer could be read."""
    loss: Maybe = UNSET
    """Before the first step of the update."""
    grad_norm: Maybe = UNSET
    """Before clipping; None where the member took no step."""
    learning_rate: Maybe = UNSET
    """AdamW's step size, with the schedule's factor; 0: it does not learn."""
    stepped: bool | UnsetType = UNSET
    """Whether the update moved the member; not without signal, or where a number is not finite."""
    regularised: bool | UnsetType = UNSET
    """True where beta or entropy_coef alone moved it: all that is compared earned the same."""
    tokens: int | UnsetType = UNSET
    """Sampled."""
    length: Maybe = UNSET
    """Mean tokens of its proposals or attempts, thoughts included."""
    cut: Maybe = UNSET
    """Share of them that ended at the most tokens that are allowed."""
    entropy: Maybe = UNSET
    """Mean of -log p over sampled tokens, in nats: an unbiased estimate of the policy's entropy."""
    clip_ratio: Maybe = UNSET
    """Share of tokens at which the policy ratio was clipped."""
    importance_sampling_ratio: Maybe = UNSET
    """Mean weight pi(learner) / pi(sampler) of a token, truncated or masked."""
    importance_sampling_clip_ratio: Maybe = UNSET
    """Share of tokens whose weight was out of bounds."""
    logp_difference_max: Maybe = UNSET
    """Largest difference between the learner's and the sampler's log-probability of a token."""
    mismatch_kl: Maybe = UNSET
    """Mean k3 estimate of KL(sampler || learner), in nats a token: r - 1 - log r, r = learner /
    sampler, held within e^-10 and e^10."""
    mismatch_share: Maybe = UNSET
    """Share of tokens at which r is not within these; where there are any."""
    kl: Maybe = UNSET
    """Mean k3 estimate of KL(policy || frozen base), in nats a token; of runs with beta."""
    skipped: str | UnsetType = UNSET
    """Which number was not finite, so that the member learned nothing."""


class StepRow(Struct, frozen=True, kw_only=True):
    """One step."""

    step: int
    teacher_reward: float | None = None
    student_reward: float | None = None
    valid_share: float | None = None
    solve_rate: float | None = None
    same_tasks: SameTasksRow = SameTasksRow()
    infra_errors: dict[str, int] = {}
    """Proposals and attempts without a verdict, as the sandbox failed: they count nowhere."""
    kinds: dict[str, KindRow] = {}
    rejected: dict[str, int] = {}
    """Refused proposals by status."""
    complexity: dict[str, float] | None = None
    """Means over the accepted programs."""
    coverage: CoverageRow = CoverageRow()
    solve_rates: tuple[int, int, int, int, int, int] | None = None
    """Tasks by solve rate: exactly 0, (0, .25], (.25, .5], (.5, .75], (.75, 1), exactly 1."""
    members: dict[str, MemberRow] = {}
    ratings: dict[str, tuple[float, float]] = {}
    """mu and sigma after the step."""
    matches: tuple[MatchRow, ...] = ()
    evolution: tuple[BirthRow, ...] = ()
    frac_reward_zero_std: float | None = None
    """Share of tasks whose attempts all earned the same (as in TRL)."""
    tokens: TokensRow = TokensRow()
    seconds: dict[str, float] = {}
    """By phase."""
    memory_mb: Maybe = UNSET
    """Kept in resources.jsonl; whoever reads a run may join it here."""
    measured: "tuple[EvalRow, ...] | UnsetType" = UNSET
    """Kept in eval.jsonl; callbacks find the step's rows here."""
    tasks: tuple[TaskRow, ...] | UnsetType = UNSET
    """Kept in tasks.jsonl; callbacks find the step's proposals here."""

    @property
    def flat(self) -> float | None:
        """Share of the tasks that all attempts solved or none: they tell attempts not apart."""
        rates = self.solve_rates
        return (rates[0] + rates[-1]) / sum(rates) if rates and any(rates) else None


class ChangeRow(Struct, frozen=True):
    """A setting that a resume found changed."""

    step: int
    """From this step on."""
    setting: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.setting} is {self.after}, was {self.before}"


class WorkerRow(Struct, frozen=True):
    """What one worker did in a step."""

    host: str
    busy: float
    """Seconds in which it worked."""
    memory_mb: float = 0.0
    """Largest resident memory of its process so far."""


class ResourceRow(Struct, frozen=True, omit_defaults=True):
    """A row of resources.jsonl: memory, apart from what equal runs repeat."""

    step: int
    memory_mb: float = 0.0
    """Largest resident memory of the process so far."""
    workers: dict[str, WorkerRow] = {}
    """By name; of runs on several workers."""


class RateRow(Struct, frozen=True, kw_only=True):
    """A solve rate on held-out tasks with the frozen base's on the same; shares in [0, 1]."""

    solve_rate: float | None = None
    base_solve_rate: float | None = None
    difference: float | None = None
    standard_error: float | None = None
    """Of the difference, paired over tasks."""


class SolvingRow(RateRow, frozen=True, kw_only=True):
    """How a solver did on the held-out tasks."""

    kinds: dict[str, RateRow] = {}
    pass_at_k: float | None = None
    """k: the samples of a task."""
    well_formed: float | None = None
    tokens: float | None = None
    """Mean length of an answer with its thought."""
    solved: tuple[int, ...] = ()
    """Right attempts at each task."""
    judged: tuple[int, ...] = ()
    """Judged attempts at each task."""
    over_start: Maybe = UNSET
    """Solve rate minus that of the warm start on the same tasks; of runs that have one."""
    over_start_error: Maybe = UNSET
    """Standard error of it, paired over tasks."""

    def __post_init__(self) -> None:
        if len(self.solved) != len(self.judged):
            raise ValueError("solved and judged are of different numbers of tasks")

    @property
    def rates(self) -> list[float | None]:
        """The solve rate of each task; None where nothing was judged."""
        return [s / j if j else None for s, j in zip(self.solved, self.judged, strict=True)]


class TeachingRow(Struct, frozen=True, kw_only=True):
    """What a teacher wrote after references that never change."""

    proposals: int = 0
    valid_share: float | None = None
    base_solve_rate: float | None = None
    """What the frozen base solves of the valid tasks."""
    reward: float | None = None
    """Mean, as if the base were the student."""
    new_structures: int | None = None
    """Structures of programs that the run has not seen."""
    complexity: dict[str, float | None] = {}
    rates: tuple[float, ...] = ()
    """The base's solve rate of each task that it attempted."""
    rewards: tuple[float, ...] = ()


class EvalRow(Struct, frozen=True, kw_only=True):
    """One measurement; before the first step of the base and of a warm start."""

    step: int = 0
    member: str
    role: str = "member"
    solving: SolvingRow | UnsetType = UNSET
    """UNSET for teachers, and where there are no held-out tasks."""
    born: bool | UnsetType = UNSET
    """True of a child of this step: it has not learned yet, and counts in no mean."""
    teaching: TeachingRow | UnsetType = UNSET
    """UNSET for students."""

    @property
    def rate(self) -> SolvingRow | None:
        """How the member solves; None where nothing was judged."""
        row = self.solving
        return row if isinstance(row, SolvingRow) and row.difference is not None else None

    @property
    def taught(self) -> TeachingRow | None:
        """How the member teaches; None where nothing was judged."""
        row = self.teaching
        return row if isinstance(row, TeachingRow) and row.valid_share is not None else None


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def finite(value: float | None) -> float | None:
    """Return a number that JSON has; None for nan and infinities."""
    return value if value is not None and math.isfinite(value) else None


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known; None where there is none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def append_rows(path: Path, rows: Iterable[Struct]) -> None:
    """Append rows and wait until they are on disk; when that fails, none of them is there."""
    plain = (to_builtins(row) for row in rows)
    text = "".join(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n" for row in plain)
    append_text(path, text)


def read_rows(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the rows of a file; a file that is not there has none.

    A last line without its line end was torn by a kill: it is kept if it can be read and dropped if
    not. Any other line that is no such row raises RunDirectoryError with file, line and field.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    # msgspec's own reader refuses lone surrogates, which programs may hold
                    row = msgspec.convert(json.loads(line), kind)
                except (ValueError, RecursionError, msgspec.ValidationError) as error:
                    if line.endswith(b"\n"):
                        what = _explained(error)
                        raise RunDirectoryError(f"{path}, line {number}: {what}") from error
                else:
                    yield row
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror or error}") from error


def _explained(error: Exception) -> str:
    """Turn `Expected int, got str - at $.id` into `field id: expected int, got str`."""
    if not isinstance(error, msgspec.ValidationError):
        return (
            f"expected one JSON object a line ({error}); restore the file from a copy, or cut it "
            "off before this line"
        )
    what, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    return f"{f'field {field}: ' if field else ''}{what[:1].lower()}{what[1:]}"
