"""Predictions made before the results, from a league's own log under any settings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from league.events.directory import EVENTS, check_exists, read_settings
from league.events.fold import apply, results
from league.events.journal import parse, read_lines
from league.rating.rating import Rating
from league.state.config import LeagueConfig
from league.state.outcome import Outcome
from league.state.state import State


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
    entries = []
    for entry in event["frozen"]:
        rating = state.members[entry["of"]].rating
        entries.append(dict(entry) | {"mu": rating.mu, "sigma": rating.sigma})
    return dict(event) | {"frozen": entries}


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
        path = root / EVENTS
        lines = read_lines(path)
        return cls(config, tuple(parse(x, f"{path} line {i + 1}") for i, x in enumerate(lines)))
