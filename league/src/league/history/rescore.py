"""How well a league's log would have been predicted under another scheme or other constants.

Every prediction uses only what was recorded before it (Dawid's prequential principle, 1984), so
schemes compare fairly on one log, and a scheme cannot win by fitting what it has seen.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import LeagueError, UnreadableLeague
from league.events.files import EVENTS, check_exists, read_settings
from league.events.fold import apply, results
from league.events.journal import read_events
from league.history.agreement import log_loss, noise_per_task, task_agreement
from league.rating.normal import Z95
from league.rating.rating import Rating, Skills
from league.state.config import LeagueConfig, scheme_of
from league.state.records import Outcome
from league.state.state import State

_BINS = 5


@dataclass(frozen=True)
class Forecast:
    """What was believed just before one result, and the result."""

    pair: str
    round: int
    teacher: Rating
    """Its rating then, by the scheme under test."""
    student: Rating
    """Its rating then."""
    outcome: Outcome


def forecasts(events: Sequence[Mapping[str, Any]], config: LeagueConfig) -> Iterator[Forecast]:
    """Yield a forecast for every rated match of a log, in its order, as `config` would have it.

    The matches are those that were played: other settings change only what is believed of them.
    Results that arrived in one event are all forecast before any of them is taken in. The hall of
    fame is frozen with the ratings under `config`; anchors added by hand keep theirs.
    """
    state = State(config)
    for event in events:
        for pair_id, outcome in results(event):
            pair = state.pairs[pair_id]
            if outcome.counted:
                teacher, student = (state.members[n].rating for n in (pair.teacher, pair.student))
                yield Forecast(pair_id, pair.round, teacher, student, outcome)
        apply(state, _refrozen(state, event))


def _refrozen(state: State, event: Mapping[str, Any]) -> Mapping[str, Any]:
    if not event.get("frozen"):
        return event
    ratings = [state.members[entry["of"]].rating for entry in event["frozen"]]
    rows = zip(event["frozen"], ratings, strict=True)
    return dict(event) | {"frozen": [dict(entry) | asdict(rating) for entry, rating in rows]}


@dataclass(frozen=True)
class Log:
    """A league's settings and events. Raises UnreadableLeague for damaged files."""

    config: LeagueConfig
    events: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> "Log":
        """Return the log of a league's directory; a torn last line is left out."""
        root = Path(directory)
        check_exists(root)
        _schema, config = read_settings(root)
        return cls(config, tuple(read_events(root / EVENTS)))


@dataclass(frozen=True)
class Bin:
    """One fifth of the tasks, by predicted solve rate: the means of prediction and result."""

    predicted: float
    observed: float
    matches: int


@dataclass(frozen=True)
class Rescored(PlainData):
    """How well one setting predicted a log."""

    scheme: str
    tau: float
    evidence: float
    max_weight: float
    matches: int
    log_loss: float
    """Mean over tasks of -(s ln p + (1 - s) ln(1 - p)), in nats; s is the student's share and p the
    prediction."""
    base_log_loss: float
    """The same for the best constant p, found with hindsight."""
    rmse: float
    """Of p against the share observed, over matches."""
    noise: float
    """How large rmse would be if every p were the truth, by chance in tasks and rollouts alone."""
    excess: float
    """sqrt(rmse² - noise²), what is left for the ratings to answer for."""
    coverage: float | None
    """Share of observed shares within the 95 % predictive interval; None for schemes without
    doubt."""
    bins: tuple[Bin, ...]
    """Calibration by fifths."""


def rescore(
    league: str | os.PathLike[str] | Log, scheme: str | None = None, **overrides: Any
) -> Rescored:
    """Return how well a scheme would have predicted a league's matches.

    scheme: a name in `league.SCHEMES`, by default the league's own. overrides: other
    settings of `LeagueConfig`, such as tau=0.2. Raises LeagueError for unknown settings and for
    a log without a rated match.
    """
    log = league if isinstance(league, Log) else Log.read(league)
    changed = overrides | ({} if scheme is None else {"scheme": scheme})
    config = LeagueConfig.from_dict(log.config.to_dict() | changed)
    return summary(config, played(log, config))


def played(log: Log, config: LeagueConfig) -> list[Forecast]:
    """Return all forecasts of a log; UnreadableLeague if its events do not fit together."""
    try:
        found = list(forecasts(log.events, config))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UnreadableLeague(f"the log does not replay: {error!r}") from error
    if not found:
        raise LeagueError("the log has no rated match; expected at least one")
    return found


def summary(config: LeagueConfig, found: Sequence[Forecast]) -> Rescored:
    """Return the figures for some forecasts made under a config."""
    observed = np.array([f.outcome.student_score for f in found])
    tasks = np.array([float(f.outcome.counted) for f in found])
    loss = losses(config, found)
    mean = float(np.average(observed, weights=tasks))
    predicted, doubt = _moments(config, found)
    outcomes = [f.outcome for f in found]
    agreement = task_agreement(outcomes)
    rollouts = [o.attempts / o.valid if o.valid else 1.0 for o in outcomes]
    per_task = np.array([noise_per_task(agreement, n) for n in rollouts])
    noise = predicted * (1.0 - predicted) * per_task / tasks
    squared = (predicted - observed) ** 2
    inside = np.abs(predicted - observed) <= Z95 * np.sqrt(doubt + noise) + 1e-12
    rmse2, noise2 = float(squared.mean()), float(noise.mean())
    return Rescored(
        *(config.scheme, config.tau, config.evidence, config.max_weight, len(found)),
        log_loss=float(np.average(loss, weights=tasks)),
        base_log_loss=float(log_loss(np.array(mean), np.array(mean))),
        rmse=rmse2**0.5,
        noise=noise2**0.5,
        excess=max(rmse2 - noise2, 0.0) ** 0.5,
        coverage=None if config.scheme == "elo" else float(inside.mean()),
        bins=_bins(predicted, observed),
    )


def losses(config: LeagueConfig, found: Sequence[Forecast]) -> Floats:
    """Return the log-loss per task of each forecast, in nats, shape [matches]."""
    observed = np.array([f.outcome.student_score for f in found])
    return log_loss(_moments(config, found)[0], observed)


def _moments(config: LeagueConfig, found: Sequence[Forecast]) -> tuple[Floats, Floats]:
    """Mean and variance of the believed solve rate, each of shape [matches]."""
    scheme = scheme_of(config)
    teachers = Skills.of([f.teacher for f in found])
    students = Skills.of([f.student for f in found])
    mean = scheme.predict(teachers, students)
    if config.scheme == "elo":
        return mean, np.zeros_like(mean)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    spread = np.sqrt(teachers.sigma**2 + students.sigma**2 + 2.0 * config.tau**2)
    gaps = (students.mu - teachers.mu)[:, None] + spread[:, None] * nodes
    still = np.zeros_like(gaps)
    rates = scheme.predict(Skills(still, still), Skills(gaps, still))
    share = weights / weights.sum()
    centre = (rates * share).sum(axis=1, keepdims=True)
    return mean, np.asarray(((rates - centre) ** 2 * share).sum(axis=1))


def _bins(predicted: Floats, observed: Floats) -> tuple[Bin, ...]:
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(_BINS, len(predicted)))
    return tuple(Bin(float(predicted[x].mean()), float(observed[x].mean()), len(x)) for x in parts)
