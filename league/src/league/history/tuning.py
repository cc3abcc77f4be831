"""Which tau, and which evidence per task, a league's own log speaks for."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from league.basics.data import PlainData
from league.basics.errors import LeagueError
from league.history.agreement import task_agreement
from league.history.rescore import Log, Rescored, losses, played, summary
from league.rating.rating import RatingModel

TAUS = tuple(factor * RatingModel.tau for factor in (0, 1, 2, 4, 8, 16))
"""The taus tried unless others are given: none, the `trueskill` package's, and doublings of it."""

FEW_MATCHES = 100
"""Below so many rated matches, a calibration is called a guess."""

_TOLD_APART = 2.0  # standard errors


@dataclass(frozen=True)
class Trial:
    """One setting of the grid."""

    rescored: Rescored
    behind: float
    """Its mean log-loss per task above the best setting's, 0 for the best."""
    error: float
    """The standard error of that difference over rounds."""


@dataclass(frozen=True)
class Tuning(PlainData):
    """A grid of settings replayed over one log."""

    trials: tuple[Trial, ...]
    """In the order of the grid, the league's own setting among them."""
    best: int
    """Index of the trial of the least log-loss."""
    own: int
    """Index of the league's own setting."""
    change: bool
    """Whether the log tells the two apart by two standard errors."""
    enough: bool
    """Whether there were at least FEW_MATCHES rated matches."""
    agreement: float | None
    """See `task_agreement`; None when the log cannot tell."""


def calibrate(
    league: str | os.PathLike[str] | Log,
    taus: Sequence[float] = TAUS,
    evidences: Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Replay a league's log under each tau and evidence, and say which predicted best.

    evidences: by default the league's own only; for larger ones max_weight grows alike, so that
    it cuts off no more than before. progress: called with (done, of) after each
    setting. Raises LeagueError for a bad setting or a log without a rated match.
    """
    log = league if isinstance(league, Log) else Log.read(league)
    if not taus or (evidences is not None and not evidences):
        raise LeagueError("expected at least one tau and one evidence to try")
    own = (log.config.tau, log.config.evidence)
    grid = sorted({(t, e) for t in taus for e in (evidences or (own[1],))} | {own})
    columns, figures = [], []
    for tau, evidence in grid:
        more = max(1.0, evidence / own[1]) if own[1] else 1.0
        weight = more * log.config.max_weight
        config = replace(log.config, tau=tau, evidence=evidence, max_weight=weight)
        found = played(log, config)
        columns.append(losses(config, found))
        figures.append(summary(config, found))
        if progress:
            progress(len(figures), len(grid))
    tasks = np.array([float(f.outcome.counted) for f in found])
    rounds = np.unique([f.round for f in found], return_inverse=True)[1]
    best = min(range(len(grid)), key=lambda i: (figures[i].log_loss, grid[i]))
    trials = []
    for column, figure in zip(columns, figures, strict=True):
        excess = (column - columns[best]) * tasks / tasks.sum()
        by_round = np.bincount(rounds, weights=excess)
        spread = float(by_round.std(ddof=1)) if len(by_round) > 1 else float("inf")
        behind = float(excess.sum())
        error = spread * len(by_round) ** 0.5 if np.any(excess) else 0.0
        trials.append(Trial(figure, behind, error if np.isfinite(error) else behind))
    mine = trials[grid.index(own)]
    enough = len(found) >= FEW_MATCHES
    return Tuning(
        tuple(trials),
        best,
        grid.index(own),
        enough and mine.behind > _TOLD_APART * mine.error,
        enough,
        task_agreement([f.outcome for f in found]),
    )
