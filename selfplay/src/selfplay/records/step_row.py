"""A row of metrics.jsonl: one step of a run. Rates and shares are in [0, 1], None where unknown."""

from msgspec import UNSET, Struct, UnsetType

from selfplay.records.ranges import AtLeastOne, Count, NotNegative

Maybe = float | None | UnsetType
"""A number, None where it has no value, UNSET where it does not apply."""


class SameTasksRow(Struct, frozen=True):
    """Students and the frozen base on the same sample of the step's tasks."""

    tasks: Count = 0
    students: float | None = None
    base: float | None = None
    difference: float | None = None
    """Solve rate of the students minus the base's."""


class VoidRow(Struct, frozen=True):
    """What the sandbox itself broke: judged by nobody."""

    proposals: Count = 0
    attempts: Count = 0


class KindRow(Struct, frozen=True):
    """One kind of task."""

    proposed: Count = 0
    valid_share: float | None = None
    solve_rate: float | None = None


class CoverageRow(Struct, frozen=True):
    """Different structures of accepted programs, since the start and new in this step."""

    structures: Count = 0
    new: Count = 0


class TokensRow(Struct, frozen=True):
    """Tokens of a step."""

    sampled: Count = 0
    trained: Count = 0


class MatchRow(Struct, frozen=True):
    """A pair of the step with its foretold and its observed solve rate."""

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


class MemberRow(Struct, frozen=True, kw_only=True):
    """A member in a step: what it earned, and what the update did to it (see UpdateStats)."""

    role: str = "member"
    reward: Maybe = UNSET
    student_reward: Maybe = UNSET
    """Of the single agent, whose `reward` is that of its proposals."""
    solve_rate: Maybe = UNSET
    valid_share: Maybe = UNSET
    base_solve_rate: Maybe = UNSET
    well_formed: Maybe = UNSET
    loss: Maybe = UNSET
    grad_norm: Maybe = UNSET
    stepped: bool | UnsetType = UNSET
    tokens: Count | UnsetType = UNSET
    entropy: Maybe = UNSET
    clip_ratio: Maybe = UNSET
    importance_sampling_ratio: Maybe = UNSET
    importance_sampling_clip_ratio: Maybe = UNSET
    logp_difference_max: Maybe = UNSET
    mismatch_kl: Maybe = UNSET
    kl: Maybe = UNSET
    """From the frozen base; of runs with beta."""
    noise_scale_propose: Maybe = UNSET
    noise_scale_solve: Maybe = UNSET

    def number(self, name: str) -> float | None:
        """Return a field that holds a number; None where there is none."""
        value = getattr(self, name)
        return value if isinstance(value, float | int) else None


class StepRow(Struct, frozen=True, kw_only=True):
    """One step."""

    step: AtLeastOne
    teacher_reward: float | None = None
    student_reward: float | None = None
    valid_share: float | None = None
    solve_rate: float | None = None
    same_tasks: SameTasksRow = SameTasksRow()
    void: VoidRow = VoidRow()
    kinds: dict[str, KindRow] = {}
    rejected: dict[str, Count] = {}
    """Refused proposals by status."""
    complexity: dict[str, float] | None = None
    """Means over the accepted programs."""
    coverage: CoverageRow = CoverageRow()
    rho: tuple[Count, Count, Count, Count, Count, Count] | None = None
    """Tasks by solve rate: exactly 0, (0, .25], (.25, .5], (.5, .75], (.75, 1), exactly 1."""
    members: dict[str, MemberRow] = {}
    ratings: dict[str, tuple[float, NotNegative]] = {}
    """mu and sigma after the step."""
    matches: tuple[MatchRow, ...] = ()
    evolution: tuple[BirthRow, ...] = ()
    frac_reward_zero_std: float | None = None
    tokens: TokensRow = TokensRow()
    seconds: dict[str, float] = {}
    """By phase."""
    memory_mb: Maybe = UNSET
    """Of older runs; newer ones keep it in resources.jsonl."""


class WorkerRow(Struct, frozen=True):
    """What one worker did in a step."""

    host: str
    members: tuple[str, ...]
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
