"""The rows of a run's files, and how they are written and read.

metrics.jsonl has a StepRow for each step, tasks.jsonl a TaskRow for each proposal, eval.jsonl an
EvalRow for each evaluation of a member, resources.jsonl a ResourceRow for each step. Rates and
shares are in [0, 1], or None if they have no samples.
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
from lora_evo.files import append_text
from selfplay.errors import RunDirectoryError

T = TypeVar("T", bound=Struct)
Maybe = float | None | UnsetType
"""A number; None without a value, UNSET if it does not apply."""
GIVEN = "tasks"
"""Name of the file `rollout.tasks` in the league, in place of a teacher's."""
BASE = "base"
"""Name and role of the frozen base in the rows."""
COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
"""Measures of programs whose means the rows hold."""
START = "start"
"""Name and role of the warm start's adapter in the rows."""


class AttemptRow(Struct, frozen=True):
    """A group of a student's equal answers that earned the same."""

    thought: str = ""
    answer: str | None = None
    """None if none could be read."""
    score: float | None = 0.0
    """In [0, 1], of a taskset any number; None if it was not judged, as if the sandbox failed."""
    count: int = 1
    reward: float | None = None
    """None if the answers trained no member."""
    advantage: float | None = None
    """The same."""
    solved: bool | UnsetType = UNSET
    """Whether it solves the task, if `rollout.solved_from` is not 1."""

    @property
    def verdict(self) -> str:
        """`right`, `partly`, `wrong`, `ill-formed` or `not judged`."""
        if self.answer is None:
            return "ill-formed"
        if self.score is None:
            return "not judged"
        if self.score >= 1.0 if self.solved is UNSET else self.solved:
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
    """Ids of the tasks in the teacher's prompt."""
    program: str | None = None
    input: str | None = None
    output: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    message: str = ""
    visible: int = 0
    status: str
    """`ok` for a proposal that became a task."""
    reason: str = ""
    metrics: dict[str, Any] | None = None
    solve_rate: float | None = None
    """Share of the judged attempts that solved the task."""
    base_solve_rate: float | None = None
    """The frozen base's, if it attempted the task."""
    rival_solve_rate: Maybe = UNSET
    """Another student's, if the teacher's reward compares the two."""
    reward: float | None = None
    """The teacher's."""
    advantage: float | None = None
    """The teacher's."""
    attempts: tuple[AttemptRow, ...] = ()
    base_attempts: tuple[AttemptRow, ...] = ()
    """The frozen base's, if it attempted the task."""
    text: str | UnsetType | None = UNSET
    """The teacher's text, if it could not be read as a proposal."""

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
    """Number of different structures of accepted programs, since the start and new in the step."""

    structures: int = 0
    new: int = 0
    commonest: float | None = None
    """Share of the step's accepted programs with its most common structure."""


class TokensRow(Struct, frozen=True):
    """Tokens of a step."""

    sampled: int = 0
    trained: int = 0


class BirthRow(Struct, frozen=True):
    """One replacement."""

    removed: str
    """The member that the child replaced."""
    child: str
    parents: tuple[str, ...] = ()
    operator: str = "unknown"
    relative_change: float | None = None
    """|D' - D| / |D| of the child's whole update against its first parent's."""
    learning_rate: Maybe = UNSET
    """The child's, before the schedule; UNSET if it is the configuration's."""
    spared: tuple[str, ...] | UnsetType = UNSET
    """Members of the role that had not yet played `league.grace_matches`, if any."""
    generation: int = 1
    """1 + the largest of the parents'; founders have 0."""


class MemberRow(Struct, frozen=True, kw_only=True):
    """A member in a step: its rewards, its texts, and the statistics of its update.

    A number that is not finite is None, and so are ratios and differences of a member that learned
    from no token.
    """

    role: str = "member"
    reward: Maybe = UNSET
    student_reward: Maybe = UNSET
    """The single agent's reward as a student; its `reward` is that of its proposals."""
    solve_rate: Maybe = UNSET
    valid_share: Maybe = UNSET
    base_solve_rate: Maybe = UNSET
    """The frozen base's, on a teacher's tasks."""
    well_formed: Maybe = UNSET
    """Share of attempts with a readable answer."""
    loss: Maybe = UNSET
    """Before the first step of the update."""
    grad_norm: Maybe = UNSET
    """Before clipping; None if the member took no step."""
    learning_rate: Maybe = UNSET
    """AdamW's step size, with the schedule's factor; 0: the member does not learn."""
    stepped: bool | UnsetType = UNSET
    """Whether the update moved the member; False without signal, or if a number is not finite."""
    regularised: bool | UnsetType = UNSET
    """True if beta or entropy_coef alone moved it: all advantages were 0."""
    tokens: int | UnsetType = UNSET
    """Number of sampled tokens."""
    length: Maybe = UNSET
    """Mean tokens of its proposals or attempts, thoughts included."""
    cut: Maybe = UNSET
    """Share of its texts that ended at the token limit."""
    entropy: Maybe = UNSET
    """Mean of -log p over sampled tokens, in nats: an unbiased estimate of the policy's entropy."""
    clip_ratio: Maybe = UNSET
    """Share of tokens at which the policy ratio was clipped."""
    importance_sampling_ratio: Maybe = UNSET
    """Mean weight pi(learner) / pi(sampler) of a token, truncated or masked."""
    importance_sampling_clip_ratio: Maybe = UNSET
    """Share of tokens with a weight outside its bounds."""
    logp_difference_max: Maybe = UNSET
    """Largest difference between the learner's and the sampler's log-probability of a token."""
    mismatch_kl: Maybe = UNSET
    """Mean k3 estimate of KL(sampler || learner), in nats a token: r - 1 - log r, r = learner /
    sampler, clamped to [e^-10, e^10]."""
    kl: Maybe = UNSET
    """Mean k3 estimate of KL(policy || `learner.reference`), in nats a token; only with beta."""
    skipped: str | UnsetType = UNSET
    """The number that was not finite, because of which the member learned nothing."""


class StepRow(Struct, frozen=True, kw_only=True):
    """One step."""

    step: int
    teacher_reward: float | None = None
    student_reward: float | None = None
    valid_share: float | None = None
    solve_rate: float | None = None
    same_tasks: SameTasksRow = SameTasksRow()
    infra_errors: dict[str, int] = {}
    """Proposals and attempts at which the sandbox failed; no other number counts them."""
    kinds: dict[str, KindRow] = {}
    rejected: dict[str, int] = {}
    """Refused proposals by status; those that are `held_out` are in no other number."""
    complexity: dict[str, float] | None = None
    """Means over the accepted programs."""
    coverage: CoverageRow = CoverageRow()
    solve_rates: tuple[int, int, int, int, int, int] | None = None
    """Tasks by solve rate: exactly 0, (0, .25], (.25, .5], (.5, .75], (.75, 1), exactly 1."""
    members: dict[str, MemberRow] = {}
    ratings: dict[str, tuple[float, float]] = {}
    """mu and sigma after the step."""
    evolution: tuple[BirthRow, ...] = ()
    frac_reward_zero_std: float | None = None
    """Share of tasks whose attempts all earned the same reward (as in TRL)."""
    tokens: TokensRow = TokensRow()
    seconds: dict[str, float] = {}
    """By phase."""
    memory_mb: Maybe = UNSET
    """Stored in resources.jsonl; `read_run` fills it in."""
    measured: "tuple[EvalRow, ...] | UnsetType" = UNSET
    """Stored in eval.jsonl; filled in for callbacks."""
    tasks: tuple[TaskRow, ...] | UnsetType = UNSET
    """Stored in tasks.jsonl; filled in for callbacks."""

    @property
    def flat(self) -> float | None:
        """Share of the tasks that all attempts solved or none did, which give no advantage."""
        rates = self.solve_rates
        return (rates[0] + rates[-1]) / sum(rates) if rates and any(rates) else None


class ChangeRow(Struct, frozen=True):
    """A setting that a resume found changed."""

    step: int
    """First step with the new value."""
    setting: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.setting} is {self.after}, was {self.before}"


class ResourceRow(Struct, frozen=True, omit_defaults=True):
    """A row of resources.jsonl: what may differ even between equal runs."""

    step: int
    memory_mb: float = 0.0
    """Largest resident memory of the process so far."""
    code: str = ""
    """Commit, or version, of the code that made the step."""
    held_out: str = ""
    """First 12 digits of the SHA-256 of the held-out tasks."""


class RateRow(Struct, frozen=True, kw_only=True):
    """A solve rate on held-out tasks, with the frozen base's on the same tasks."""

    solve_rate: float | None = None
    base_solve_rate: float | None = None
    difference: float | None = None
    standard_error: float | None = None
    """Of the difference, paired over tasks and clustered by their families."""


class SolvingRow(RateRow, frozen=True, kw_only=True):
    """A solver's results on the held-out tasks."""

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
    not_judged: int | UnsetType = UNSET
    """Number of attempts that no rate counts, if any: the sandbox failed."""
    over_start: Maybe = UNSET
    """Solve rate minus the warm start's on the same tasks; only with a warm start."""
    over_start_error: Maybe = UNSET
    """Standard error of `over_start`, paired over tasks."""
    families: tuple[int, ...] | UnsetType = UNSET
    """Family of each task, in the frozen base's row: programs that differ in numbers alone."""

    def __post_init__(self) -> None:
        if len(self.solved) != len(self.judged):
            raise ValueError("solved and judged are of different numbers of tasks")

    @property
    def rates(self) -> list[float | None]:
        """The solve rate of each task; None for a task that was not judged."""
        return [s / j if j else None for s, j in zip(self.solved, self.judged, strict=True)]


class TeachingRow(Struct, frozen=True, kw_only=True):
    """A teacher's proposals after fixed references."""

    proposals: int = 0
    valid_share: float | None = None
    base_solve_rate: float | None = None
    """The frozen base's solve rate of the valid tasks."""
    reward: float | None = None
    """Mean reward (`populora`) as if the base were the student."""
    new_structures: int | None = None
    """Number of program structures that the run has not seen."""
    rates: tuple[float, ...] = ()
    """The base's solve rate of each valid task."""
    rewards: tuple[float, ...] = ()
    not_judged: int | UnsetType = UNSET
    """Number of proposals, and of the base's attempts, that no number counts, if any: the sandbox
    failed."""


class EvalRow(Struct, frozen=True, kw_only=True):
    """One evaluation of a member; at step 0 of the base and of a warm start."""

    step: int = 0
    member: str
    role: str = "member"
    solving: SolvingRow | UnsetType = UNSET
    """UNSET for teachers, and without held-out tasks."""
    born: bool | UnsetType = UNSET
    """True for a child of this step: it has not learned yet, and counts in no mean."""
    teaching: TeachingRow | UnsetType = UNSET
    """UNSET for students."""

    @property
    def rate(self) -> SolvingRow | None:
        """`solving`; None if it is UNSET or no task was judged."""
        row = self.solving
        return row if isinstance(row, SolvingRow) and row.difference is not None else None

    @property
    def taught(self) -> TeachingRow | None:
        """`teaching`; None if it is UNSET or no proposal was judged."""
        row = self.teaching
        return row if isinstance(row, TeachingRow) and row.valid_share is not None else None


def role_of(member: str) -> str:
    """Return the role of a member by its name: t0 is a teacher, s0 a student, a0 an agent."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def finite(value: float | None) -> float | None:
    """Return the number, or None for NaN and infinities, which JSON lacks."""
    return value if value is not None and math.isfinite(value) else None


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


def append_rows(path: Path, rows: Iterable[Struct]) -> None:
    """Append rows and wait until they are on disk; if that fails, none is appended."""
    lines = (json.dumps(to_builtins(row), allow_nan=False) + "\n" for row in rows)
    append_text(path, "".join(lines))


def read_rows(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the rows of a file; none for a missing file.

    A last line without a newline was cut off by a kill: it is dropped if it cannot be read. Raises
    RunDirectoryError with file, line and field for any other line that is not such a row.
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
                        place = f"{path}, line {number}"
                        raise RunDirectoryError(f"{place}: {_explain(error)}") from error
                else:
                    yield row
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror or error}") from error


def _explain(error: Exception) -> str:
    """Turn `Expected int, got str - at $.id` into `field id: expected int, got str`."""
    if not isinstance(error, msgspec.ValidationError):
        remedy = "restore the file from a copy, or cut it off before this line"
        return f"expected one JSON object a line ({error}); {remedy}"
    problem, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    return f"{f'field {field}: ' if field else ''}{problem[:1].lower()}{problem[1:]}"
