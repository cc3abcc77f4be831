"""Drift: what the two rating curves say of progress, and what they cannot say."""

from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError
from league.history.lives import History
from league.plain import PlainData
from league.rating.normal import Floats
from league.state.member import STUDENT, TEACHER

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
    """How the ordinary members of a role did against the other role's anchors in a span of rounds.

    solve_rate: right rollouts on valid tasks; high is good for students, low for teachers; None
    where there was no attempt."""

    role: str
    first: int
    last: int
    matches: int
    tasks: int
    solve_rate: float | None


@dataclass(frozen=True)
class Drift(PlainData):
    """Series over `rounds` (numbers of paired rounds), in rating units.

    *_mean: mean mu of the living members. gap: students' minus teachers'. *_centred and
    gap_centred: the same without the jumps of the mean at replacements, which are a change of
    the zero point and no learning. *_spread: standard deviation of mu among the living.
    *_offset: the sum of all those jumps. checked: matches whose mean rating had to stay where
    it was (`Match.imbalance`); unchecked: the others. largest_imbalance: how far it moved at most
    (None if nothing was checked), conserved: whether that is nothing. anchors: how many there are.
    statement: what can be read from all this.
    """

    rounds: tuple[int, ...]
    teacher_mean: tuple[float, ...]
    student_mean: tuple[float, ...]
    gap: tuple[float, ...]
    teacher_centred: tuple[float, ...]
    student_centred: tuple[float, ...]
    gap_centred: tuple[float, ...]
    teacher_spread: tuple[float, ...]
    student_spread: tuple[float, ...]
    teacher_offset: float
    student_offset: float
    checked: int
    unchecked: int
    largest_imbalance: float | None
    conserved: bool | None
    anchors: int
    against_anchors: tuple[AnchorSpan, ...]
    statement: str


def drift(history: History, *, spans: int = 10) -> Drift:
    """Return the series; spans: into how many equal parts the rounds are cut for the anchors."""
    if isinstance(spans, bool) or not isinstance(spans, int) or spans < 1:
        raise LeagueError(f"spans is {spans!r}; expected a whole number >= 1")
    mean, centred, spread, offset = {}, {}, {}, {}
    for role in (TEACHER, STUDENT):
        mean[role], spread[role], jumps = _series(history, role)
        centred[role] = mean[role] - jumps
        offset[role] = float(jumps[-1]) if jumps.size else 0.0
    anchors = {life.name for life in history.lives if life.anchor}
    ordinary = [m for m in history.matches if not {m.teacher, m.student} & anchors]
    moved = [abs(m.imbalance) for m in ordinary if m.imbalance is not None]
    largest = max(moved, default=None)
    return Drift(
        rounds=history.sampled,
        teacher_mean=_plain(mean[TEACHER]),
        student_mean=_plain(mean[STUDENT]),
        gap=_plain(mean[STUDENT] - mean[TEACHER]),
        teacher_centred=_plain(centred[TEACHER]),
        student_centred=_plain(centred[STUDENT]),
        gap_centred=_plain(centred[STUDENT] - centred[TEACHER]),
        teacher_spread=_plain(spread[TEACHER]),
        student_spread=_plain(spread[STUDENT]),
        teacher_offset=offset[TEACHER],
        student_offset=offset[STUDENT],
        checked=len(moved),
        unchecked=len(history.matches) - len(moved),
        largest_imbalance=largest,
        conserved=None if largest is None else largest <= CONSERVED,
        anchors=len(anchors),
        against_anchors=_against(history, anchors, spans),
        statement=_ANCHORS if anchors else _NO_ANCHORS,
    )


def _series(history: History, role: str) -> tuple[Floats, Floats, Floats]:
    """Mean and spread of the living, and the sum of replacement offsets, per sampled point."""
    columns = [i for i, x in enumerate(history.lives) if x.role == role and not x.anchor]
    mu = history.mu[:, columns]
    births = [(x.born, x.offset) for x in history.lives if x.role == role and x.parents]
    jumps = [sum(offset for born, offset in births if born <= n) for n in history.sampled]
    return np.nanmean(mu, axis=1), np.nanstd(mu, axis=1), np.array(jumps, dtype=np.float64)


def _plain(values: Floats) -> tuple[float, ...]:
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
        AnchorSpan(
            role=role,
            first=span * width,
            last=(span + 1) * width - 1,
            matches=matches,
            tasks=valid,
            solve_rate=solved / attempts if attempts else None,
        )
        for (role, span), (matches, valid, solved, attempts) in sorted(counts.items())
    )
