"""Drift: what the two rating curves say of progress, and what they cannot say."""

from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import whole_number
from league.history.history import History
from league.state.records import STUDENT, TEACHER

CONSERVED = 1e-6
"""A mean of two ratings that moves by less, in rating units, has not moved."""

_NO_ANCHORS = (
    "There are no anchors. Each match moves both sides' ratings against each other, so the gap "
    "shows which side gained on the other; whether both became better or worse together cannot "
    "be known from these ratings."
)
_ANCHORS = (
    "Anchors never learn: a solve rate against them that rises for students, or falls for "
    "teachers, is progress of that side alone."
)


@dataclass(frozen=True)
class AnchorSpan:
    """How the ordinary members of a role did against the other role's anchors in a span of
    rounds."""

    role: str
    first: int
    last: int
    matches: int
    tasks: int
    solve_rate: float | None
    """Right rollouts on valid tasks; high is good for students, low for teachers; None where there
    was no attempt."""


@dataclass(frozen=True)
class Drift(PlainData):
    """Series over `rounds`, in rating units."""

    rounds: tuple[int, ...]
    """Numbers of paired rounds."""
    teacher_mean: tuple[float, ...]
    """Mean mu of the living members."""
    student_mean: tuple[float, ...]
    gap: tuple[float, ...]
    """Students' mean minus teachers'."""
    teacher_centred: tuple[float, ...]
    """The mean without the jumps at replacements, which are a change of the zero point and no
    learning."""
    student_centred: tuple[float, ...]
    gap_centred: tuple[float, ...]
    teacher_spread: tuple[float, ...]
    """Standard deviation of mu among the living."""
    student_spread: tuple[float, ...]
    teacher_offset: float
    """The sum of all those jumps."""
    student_offset: float
    checked: int
    """Matches whose mean rating had to stay where it was (`Match.imbalance`)."""
    unchecked: int
    """The other matches."""
    largest_imbalance: float | None
    """How far a checked mean moved at most; None if nothing was checked."""
    conserved: bool | None
    """Whether the largest imbalance is no more than rounding."""
    anchors: int
    """How many there are."""
    against_anchors: tuple[AnchorSpan, ...]
    statement: str
    """What can be read from all this."""


def drift(history: History, *, spans: int = 10) -> Drift:
    """Return the series; spans: into how many equal parts the rounds are cut for the anchors."""
    whole_number("spans", spans, 1)
    (teacher, teacher_spread, teacher_jumps) = _series(history, TEACHER)
    (student, student_spread, student_jumps) = _series(history, STUDENT)
    teacher_centred, student_centred = teacher - teacher_jumps, student - student_jumps
    anchors = {life.name for life in history.lives if life.anchor}
    ordinary = [m for m in history.matches if not {m.teacher, m.student} & anchors]
    imbalances = [abs(m.imbalance) for m in ordinary if m.imbalance is not None]
    largest = max(imbalances, default=None)
    return Drift(
        rounds=history.sampled,
        teacher_mean=_column(teacher),
        student_mean=_column(student),
        gap=_column(student - teacher),
        teacher_centred=_column(teacher_centred),
        student_centred=_column(student_centred),
        gap_centred=_column(student_centred - teacher_centred),
        teacher_spread=_column(teacher_spread),
        student_spread=_column(student_spread),
        teacher_offset=float(teacher_jumps[-1]) if teacher_jumps.size else 0.0,
        student_offset=float(student_jumps[-1]) if student_jumps.size else 0.0,
        checked=len(imbalances),
        unchecked=len(history.matches) - len(imbalances),
        largest_imbalance=largest,
        conserved=None if largest is None else largest <= CONSERVED,
        anchors=len(anchors),
        against_anchors=_against(history, anchors, spans),
        statement=_ANCHORS if anchors else _NO_ANCHORS,
    )


def jumps(history: History, role: str) -> Floats:
    """Return how far replacements had moved a role's mean by each sampled time, shape [points]."""
    births = [(x.born, x.offset) for x in history.lives if x.role == role and x.parents]
    moved = [sum(offset for born, offset in births if born <= n) for n in history.sampled]
    return np.array(moved, dtype=np.float64)


def _series(history: History, role: str) -> tuple[Floats, Floats, Floats]:
    """Mean and spread of the living, and the sum of replacement offsets, per sampled point."""
    columns = [i for i, x in enumerate(history.lives) if x.role == role and not x.anchor]
    mu = history.mu[:, columns]
    return np.nanmean(mu, axis=1), np.nanstd(mu, axis=1), jumps(history, role)


def _column(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _against(history: History, anchors: set[str], spans: int) -> tuple[AnchorSpan, ...]:
    width = max(1, -(-history.rounds // spans))
    counts: dict[tuple[str, int], list[int]] = {}
    for match in history.matches:
        frozen = (match.teacher in anchors, match.student in anchors)
        if frozen[0] == frozen[1]:
            continue
        role = STUDENT if frozen[0] else TEACHER
        cell = counts.setdefault((role, match.round // width), [0, 0, 0, 0])
        for i, number in enumerate((1, match.valid, match.solved, match.attempts)):
            cell[i] += number
    return tuple(
        AnchorSpan(role, i * width, (i + 1) * width - 1, n, valid, right / tried if tried else None)
        for (role, i), (n, valid, right, tried) in sorted(counts.items())
    )
