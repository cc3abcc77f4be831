"""Analysis of a league: its history as tables, intervals of ranks, and the quality of predictions.

Calibration scores predictions from earlier records only (Dawid's prequential principle, 1984), so
that settings compare fairly on one log, and none can win by fitting the results it predicts.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from league.config import LeagueConfig
from league.errors import LeagueError
from league.events import apply, rated, result
from league.league import League
from league.pairing import stream
from league.ratings import Z95, Floats, Rating, RatingModel, expected_shares, log_cdf_pair, skills
from league.selection import Standing
from league.state import Outcome, State

Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""

SAMPLES = 200
"""About the most points in time that the table of ratings has."""

_MEMBERS = "name role slot born ended parents weights operator offset mu sigma"
_MATCHES = "round teacher student predicted uncertainty counted won valid attempts solved unsolved"
_RATINGS = "round member role mu sigma"


@dataclass(frozen=True, repr=False)
class LeagueTables:
    """The history of a league, as columns: see "Tables of a league" in its reference.

    - members: a row for each member that ever was.
    - matches: a row for each recorded match, in order.
    - ratings: a row for each point in time and member alive; about 200 points of a long league.
    """

    members: Columns
    matches: Columns
    ratings: Columns

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(next(iter(t.values())))}" for name, t in vars(self).items())
        return f"LeagueTables(rows: {sizes})"


def read_league(directory: str | os.PathLike[str]) -> LeagueTables:
    """Return the history of a league, also while it is written. Raises LeagueError if damaged.

    >>> League("run/history", ["t"], ["s"]).close()
    >>> read_league("run/history").members["name"]  # or pandas.DataFrame(....members)
    ['t', 's']
    """
    with League(directory, read_only=True) as league:
        return tables(league)


def tables(league: League) -> LeagueTables:
    """Return the history of an open league, from its log."""
    every = max(1, math.ceil(len(league.state.rounds) / SAMPLES))
    state = State(league.config)
    matches: list[tuple[Any, ...]] = []
    uncertainty: dict[str, float] = {}
    ratings: list[tuple[Any, ...]] = []
    for _, event in league.events():
        paired = event["event"] == "round_paired"
        if paired and len(state.rounds) % every == 0:
            ratings += _ratings(state)
        apply(state, event)
        for pair_id in state.rounds[event["round"]] if paired else ():
            names = state.pairs[pair_id].teacher, state.pairs[pair_id].student
            uncertainty[pair_id] = math.hypot(*(state.members[n].rating.sigma for n in names))
        if event["event"] == "match_recorded":
            pair, o = result(state, event)
            of_pair = (pair.round, pair.teacher, pair.student, pair.predicted, uncertainty[pair.id])
            won = o.counted * o.student_score
            matches.append((*of_pair, o.counted, won, o.valid, o.attempts, o.solved, o.unsolved))
    return LeagueTables(
        members=_columns(_members(state), _MEMBERS),
        matches=_columns(matches, _MATCHES),
        ratings=_columns(ratings + _ratings(state), _RATINGS),
    )


def _ratings(state: State) -> list[tuple[Any, ...]]:
    alive = (member for member in state.members.values() if member.alive)
    return [(len(state.rounds), m.name, m.role, m.rating.mu, m.rating.sigma) for m in alive]


def _members(state: State) -> Iterable[tuple[Any, ...]]:
    ended = {r.member: r.rounds for r in state.replacements}
    births = {r.child: (list(r.weights), r.offset) for r in state.replacements}
    for m in state.members.values():
        weights, offset = births.get(m.name, ([1.0] * len(m.parents), 0.0))
        life = (m.name, m.role, m.slot, m.born, ended.get(m.name), list(m.parents), weights)
        yield (*life, m.operator, offset, m.rating.mu, m.rating.sigma)


def _columns(rows: Iterable[tuple[Any, ...]], names: str) -> Columns:
    every = list(rows)
    return {name: [row[i] for row in every] for i, name in enumerate(names.split())}


@dataclass(frozen=True)
class RankInterval:
    """Places of one member among the members of its role, 1 is best.

    - rank: its place by mu.
    - low, high: the best and the worst place within the 95 % interval.
    - best: the probability that it is the best of all.
    """

    rank: int
    low: int
    high: int
    best: float


def rank_intervals(board: Sequence[Standing], *, seed: int = 0) -> dict[str, RankInterval]:
    """Return the rank interval of each member of a leaderboard, by name.

    Skills are drawn 2,000 times from their normal beliefs, taken as independent, and ranked each
    time; the interval runs from the 2.5 % to the 97.5 % quantile of the ranks. It is about skills,
    not about the lower bound mu - 3 sigma by which a board may be sorted; docs/league.md says how
    often it holds the true rank.
    """
    rows = sorted(board, key=lambda row: row.member)  # so that the order has no effect
    mu, sigma = (np.array([getattr(row, name) for row in rows]) for name in ("mu", "sigma"))
    draws = mu + sigma * stream(seed, "ranks").standard_normal((2000, mu.size))
    ranks = 1 + np.argsort(np.argsort(-draws, axis=1), axis=1)
    low, high = np.quantile(ranks, (0.025, 0.975), axis=0, method="inverted_cdf").tolist()
    place = 1 + np.argsort(np.argsort(-mu, kind="stable"))
    intervals = map(RankInterval, place.tolist(), low, high, (ranks == 1).mean(axis=0).tolist())
    return {row.member: interval for row, interval in zip(rows, intervals, strict=True)}


def replay(league: League) -> list[str]:
    """Return a sentence for each rating in the log that does not follow from the events before it.

    Ratings are computed again and compared to nine digits; the last ones depend on the processor.
    """
    state, differences = State(league.config), []
    for where, event in league.events():
        logged, expected = (e.get("ratings", {}) for e in (event, rated(state, event)))
        for name in sorted({*logged, *expected}):
            old, new = logged.get(name), expected.get(name)
            if not (old and new and np.allclose(old, new, rtol=1e-9, atol=1e-9)):
                differences.append(f"{where}: {name} has the rating {old}; {new} follows")
        apply(state, event)
    return differences


TAUS = tuple(factor * RatingModel.tau for factor in (0, 1, 2, 4, 8, 16))
"""The taus that are tried by default: 0, the `trueskill` package's, and doublings of it."""

FEW_MATCHES = 100
"""Fewer rated matches are not enough for a calibration."""

Forecast = tuple[int, Rating, Rating, Outcome]
"""The round of a match, the teacher's and the student's rating before its result, and the
result."""


@dataclass(frozen=True)
class Calibration:
    """The quality of one tau's predictions of a log."""

    tau: float
    matches: int
    log_loss: float
    """Mean over tasks of -(s ln p + (1 - s) ln(1 - p)), in nats; s is the student's share and p the
    prediction."""
    base_log_loss: float
    """The log-loss of the best constant p."""
    rmse: float
    """Root mean square of p minus the observed share, over matches."""
    coverage: float
    """How often the observed share is in the 95 % predictive interval, each task one trial."""
    bins: tuple[tuple[float, float, int], ...]
    """Fifths of the matches by prediction: mean of p, mean of the observed share, matches."""
    behind: float = 0.0
    """Its log-loss minus the best tau's."""
    error: float = 0.0
    """The standard error of that difference over rounds."""


@dataclass(frozen=True)
class Tuning:
    """The calibrations of several taus on one log."""

    trials: tuple[Calibration, ...]
    """By tau, the league's own among them."""
    best: int
    """Index of the trial of the least log-loss."""
    own: int
    """Index of the league's own tau."""
    change: bool
    """Whether the best tau is better than the league's by two standard errors, with at least
    FEW_MATCHES matches."""


def calibrate(directory: str | os.PathLike[str], taus: Sequence[float] = TAUS) -> Tuning:
    """Replay the log of a league under each tau, and return which predicted its matches best.

    Raises LeagueError for a bad tau or a log without a rated match.
    """
    with League(directory, read_only=True) as league:
        config = league.config
        events = [event for _, event in league.events()]
    configs = [replace(config, tau=tau) for tau in sorted({*taus, config.tau})]
    forecast_sets = [forecasts(events, one) for one in configs]
    scored = [_scored(*pair) for pair in zip(forecast_sets, configs, strict=True)]
    best = min(range(len(scored)), key=lambda i: scored[i][0].log_loss)  # of equals the least tau
    tasks = np.array([float(outcome.counted) for _, _, _, outcome in forecast_sets[0]])
    rounds = np.unique([number for number, *_ in forecast_sets[0]], return_inverse=True)[1]
    trials = []
    for trial, loss in scored:
        excess = np.bincount(rounds, weights=(loss - scored[best][1]) * tasks / tasks.sum())
        behind, count = float(excess.sum()), len(excess)
        error = float(excess.std(ddof=1)) * count**0.5 if count > 1 else abs(behind)
        trials.append(replace(trial, behind=behind, error=error))
    index = configs.index(config)
    base = trials[index]
    change = base.matches >= FEW_MATCHES and base.behind > 2.0 * base.error
    return Tuning(tuple(trials), best, index, change)


def calibration(directory: str | os.PathLike[str]) -> Calibration:
    """Return how well a league's ratings predict. Raises LeagueError without a rated match."""
    return calibrate(directory, ()).trials[0]


def forecasts(events: Sequence[Mapping[str, Any]], config: LeagueConfig) -> list[Forecast]:
    """Return a forecast for every rated match of a log, in its order, with the ratings of `config`.

    The matches stay those of the log: other settings change only the ratings.
    """
    state = State(config)
    forecasts: list[Forecast] = []
    for event in events:
        if event["event"] == "match_recorded":
            pair, outcome = result(state, event)
            if outcome.counted:
                teacher, student = (state.members[n].rating for n in (pair.teacher, pair.student))
                forecasts.append((pair.round, teacher, student, outcome))
        apply(state, rated(state, event))
    if not forecasts:
        raise LeagueError("the log has no rated match; expected at least one")
    return forecasts


def _scored(forecasts: Sequence[Forecast], config: LeagueConfig) -> tuple[Calibration, Floats]:
    """Return the calibration of forecasts, and the log-loss of each, shape [matches]."""
    outcomes = [outcome for _, _, _, outcome in forecasts]
    observed = np.array([o.student_score for o in outcomes])
    tasks = np.array([float(o.counted) for o in outcomes])
    predicted, variance = _belief(forecasts, config)
    loss = _log_loss(predicted, observed)
    mean = float(np.average(observed, weights=tasks))
    noise = predicted * (1.0 - predicted) / tasks
    inside = np.abs(predicted - observed) <= Z95 * np.sqrt(variance + noise) + 1e-12
    order = np.argsort(predicted, kind="stable")
    calibration = Calibration(
        tau=config.tau,
        matches=len(forecasts),
        log_loss=float(np.average(loss, weights=tasks)),
        base_log_loss=float(_log_loss(np.array(mean), np.array(mean))),
        rmse=float(((predicted - observed) ** 2).mean()) ** 0.5,
        coverage=float(inside.mean()),
        bins=tuple(
            (float(predicted[part].mean()), float(observed[part].mean()), len(part))
            for part in np.array_split(order, min(5, len(forecasts)))
        ),
    )
    return calibration, loss


def _belief(forecasts: Sequence[Forecast], config: LeagueConfig) -> tuple[Floats, Floats]:
    """Return mean and variance of the believed solve rate, each of shape [matches]."""
    teachers, students = [f[1] for f in forecasts], [f[2] for f in forecasts]
    mu, sigma = skills(teachers, students)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    spread = np.sqrt(sigma[0] ** 2 + sigma[1] ** 2 + 2.0 * config.tau**2)
    gaps = (mu[1] - mu[0])[:, None] + spread[:, None] * nodes
    rates = np.exp(log_cdf_pair(gaps / config.model.performance_scale)[0])
    share = weights / weights.sum()
    centre = (rates * share).sum(axis=1, keepdims=True)
    variance = np.asarray(((rates - centre) ** 2 * share).sum(axis=1))
    return expected_shares(teachers, students, config.model), variance


def _log_loss(predicted: Floats, observed: Floats) -> Floats:
    p = np.clip(predicted, 1e-9, 1.0 - 1e-9)
    return np.asarray(-(observed * np.log(p) + (1.0 - observed) * np.log1p(-p)))
