"""A row of yardstick.jsonl: one measurement of one member against the frozen base."""

from msgspec import UNSET, Struct, UnsetType

BASE = "base"
"""Name and role of the frozen base in the rows."""


class RateRow(Struct, frozen=True, kw_only=True):
    """A solve rate on held-out tasks beside the frozen base's on the same; shares in [0, 1]."""

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


class YardstickRow(Struct, frozen=True, kw_only=True):
    """One measurement; before the first step only of the base itself."""

    step: int = 0
    member: str
    role: str = "member"
    solving: SolvingRow | UnsetType = UNSET
    """UNSET for teachers, and where there are no held-out tasks."""
    teaching: TeachingRow | UnsetType = UNSET
    """UNSET for students."""

    @property
    def rate(self) -> SolvingRow | None:
        """How the member solves; None where nothing was judged."""
        found = self.solving
        return found if isinstance(found, SolvingRow) and found.difference is not None else None

    @property
    def taught(self) -> TeachingRow | None:
        """How the member teaches; None where nothing was judged."""
        found = self.teaching
        return found if isinstance(found, TeachingRow) and found.valid_share is not None else None
