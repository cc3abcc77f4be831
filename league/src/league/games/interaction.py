"""Interaction: is one number per member enough, or are there cycles?

A league where some student is strong exactly where another is weak cannot be told by ratings:
"Elo hides cycles" (Balduzzi et al., "Re-evaluating evaluation", 2018). For two populations that
is what a_s - b_t on the probit scale leaves of the solve rates. Chance leaves something too, so
the rest is compared with leagues of the same fitted strengths in which nothing but chance is left.
"""

from dataclasses import dataclass

import numpy as np

from league.basics.data import Cells, Floats, Mask, PlainData
from league.basics.errors import LeagueError, whole_number
from league.basics.streams import stream
from league.games.game import Played, played
from league.games.probit_fit import ProbitFit, probit_fit
from league.history.history import History

LEVEL = 0.05
_ENOUGH = 30  # repeated matches before their scatter may be called smaller than one trial a task
_SHOWN = 10


@dataclass(frozen=True)
class Oddity:
    """A pair that goes another way than its members' strengths say."""

    teacher: str
    student: str
    observed: float
    """The student's share of the tasks."""
    fitted: float
    """The share by strengths."""
    z: float
    """The difference in standard errors."""


@dataclass(frozen=True)
class Interaction(PlainData):
    """What one strength per member leaves unexplained; matrices of shape [teachers, students]."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    share: float
    """Of the variance between pairs on the probit scale, what neither strengths nor chance explain;
    0 for a transitive league."""
    p_value: float
    """How often chance alone leaves as much."""
    found: bool
    """Whether p_value < 0.05."""
    members: tuple[str, ...]
    """Those whose rows stand out by more than the largest row of 95 % of chance leagues (none
    unless found)."""
    oddities: tuple[Oddity, ...]
    """The most surprising pairs, at most ten, with |z| beyond the largest of 95 % of chance
    leagues."""
    observed: Cells
    """The student's share, None where two never met."""
    fitted: tuple[tuple[float, ...], ...]
    """The share by strengths."""
    z: Cells
    """Their difference in standard errors."""
    singular_values: tuple[float, ...]
    """Of z, largest first."""
    chance_singular_value: float
    """What the largest stays below in 95 % of chance leagues."""
    teacher_loadings: tuple[float, ...]
    """The first component of z."""
    student_loadings: tuple[float, ...]
    dispersion: float
    """Variance of repeated matches over that of one independent trial per task."""
    pairs: int
    """Cells played."""
    draws: int
    notes: tuple[str, ...]
    """What was left out."""


def interaction(
    history: History,
    *,
    top: int = 32,
    since: int = 0,
    replaced: bool = False,
    seed: int = 0,
    draws: int = 399,
) -> Interaction:
    """Return the interaction among the best members of each role.

    top, replaced: which members, as in `game`. since: leave out earlier rounds. Members that
    learn at different speeds while they meet different partners look like an interaction, so long
    histories of fast learners want it. draws: repetitions of the parametric bootstrap; the
    smallest p-value is 1 / (draws + 1).
    Raises LeagueError when too few pairs have met to see anything beyond strengths.
    """
    whole_number("draws", draws, 1)
    cells = played(history, top, since, replaced)
    fit = probit_fit(cells.won, cells.counted)
    known = cells.counted > 0.0
    if fit.freedom < 1:
        raise LeagueError(
            f"{int(known.sum())} of {known.size} pairs have met, which one strength per member "
            "explains whatever the results are; an interaction needs more pairs, at least a full "
            "2 x 2 block"
        )
    dispersion = _dispersion(history, cells, fit, since)
    z = np.where(known, fit.residual * np.sqrt(fit.weight / dispersion), 0.0)
    chance = _chance(cells, fit, dispersion, stream(seed, "interaction"), draws)
    p_value = (1 + int((chance[0] >= fit.chi2 / dispersion).sum())) / (draws + 1)
    row, cell, singular = np.quantile(chance[1:], 1.0 - LEVEL, axis=1).tolist()
    found = p_value < LEVEL
    left, values, right = np.linalg.svd(z)
    observed = np.where(known, cells.won / np.where(known, cells.counted, 1.0), np.nan)
    names, sizes = [x.name for x in (*cells.teachers, *cells.students)], _row_sizes(z, known)
    order = np.argsort(-sizes, kind="stable").tolist()
    return Interaction(
        teachers=tuple(life.name for life in cells.teachers),
        students=tuple(life.name for life in cells.students),
        share=_share(fit, dispersion, known),
        p_value=p_value,
        found=found,
        members=tuple(names[i] for i in order if found and sizes[i] > row),
        oddities=_oddities(cells, observed, fit, z, cell),
        observed=_blanks(observed, known),
        fitted=tuple(tuple(row) for row in fit.share.tolist()),
        z=_blanks(z, known),
        singular_values=tuple(values.tolist()),
        chance_singular_value=singular,
        teacher_loadings=tuple(left[:, 0].tolist()),
        student_loadings=tuple(right[0].tolist()),
        dispersion=dispersion,
        pairs=int(known.sum()),
        draws=draws,
        notes=cells.notes,
    )


def _chance(
    cells: Played, fit: ProbitFit, dispersion: float, rng: np.random.Generator, draws: int
) -> Floats:
    """Parametric bootstrap: binomial tables of the fitted shares, fitted again.

    Returns chi2, the largest row, the largest cell and the largest singular value of z in each of
    these leagues of the fitted strengths and nothing else, shape [4, draws].
    """
    known = cells.counted > 0.0
    trials = np.where(known, np.maximum(np.rint(cells.counted / dispersion), 1.0), 0.0)
    rows = []
    for _ in range(draws):
        won = rng.binomial(trials.astype(np.int64), fit.share).astype(np.float64)
        again = probit_fit(won, trials, fit.gap)
        z = again.residual * np.sqrt(again.weight)
        largest = np.linalg.svd(z, compute_uv=False)[0]
        rows.append((again.chi2, _row_sizes(z, known).max(), np.abs(z).max(), largest))
    return np.array(rows).T


def _row_sizes(z: Floats, known: Mask) -> Floats:
    """Mean square of z for each teacher, then each student; 0 for one that played nobody."""
    sums = np.concatenate([(z**2).sum(axis=1), (z**2).sum(axis=0)])
    counts = np.concatenate([known.sum(axis=1), known.sum(axis=0)])
    return np.asarray(sums / np.maximum(counts, 1))


def _oddities(
    cells: Played, observed: Floats, fit: ProbitFit, z: Floats, limit: float
) -> tuple[Oddity, ...]:
    order = np.argsort(-np.abs(z), axis=None, kind="stable")[:_SHOWN]
    places = zip(*np.unravel_index(order, z.shape), strict=True)
    return tuple(
        Oddity(
            *(cells.teachers[i].name, cells.students[j].name),
            *(float(values[i, j]) for values in (observed, fit.share, z)),
        )
        for i, j in places
        if abs(z[i, j]) > limit
    )


def _share(fit: ProbitFit, dispersion: float, known: Mask) -> float:
    """Moment estimate of the interaction's variance, over itself plus that of the strengths."""
    excess = fit.chi2 - dispersion * fit.freedom
    sensitivity = float((fit.weight * (1.0 - fit.leverage)).sum())
    rest = max(0.0, excess / sensitivity) if sensitivity > 0.0 else 0.0
    weight = np.where(known, fit.weight, 1.0)
    noise = float((dispersion * fit.leverage / weight)[known].mean())
    strengths = max(0.0, float(np.var(fit.gap[known])) - noise)
    return rest / (rest + strengths) if rest > 0.0 else 0.0


def _dispersion(history: History, cells: Played, fit: ProbitFit, since: int) -> float:
    """Scatter of repeated matches of a pair, as a multiple of one trial per task.

    Several attempts per task make it smaller than 1, members that learn make it larger. With
    few repetitions it is not allowed below 1, with almost none it is taken to be 1.
    """
    scatter, repeats = 0.0, -int((cells.counted > 0.0).sum())
    for cell, match in cells.meetings(history, since):
        if match.counted:
            error = match.won / match.counted - cells.won[cell] / cells.counted[cell]
            share = float(fit.share[cell])
            scatter += float(match.counted * error**2) / (share * (1.0 - share))
            repeats += 1
    if repeats < _ENOUGH // 3:
        return 1.0
    return max(scatter / repeats, 0.05 if repeats >= _ENOUGH else 1.0)


def _blanks(values: Floats, known: Mask) -> Cells:
    return tuple(
        tuple(value if met else None for value, met in zip(row, mets, strict=True))
        for row, mets in zip(values.tolist(), known.tolist(), strict=True)
    )
