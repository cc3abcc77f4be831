"""Predictions made before the results, from a league's own log under any settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from league.config import LeagueConfig
from league.fold import apply
from league.outcome import Outcome
from league.rating import Rating
from league.state import State


@dataclass(frozen=True)
class Forecast:
    """What was believed just before one result, and the result.

    teacher, student: their ratings then, by the scheme under test.
    """

    pair: str
    round: int
    teacher: Rating
    student: Rating
    outcome: Outcome


def forecasts(events: Sequence[Mapping[str, Any]], config: LeagueConfig) -> Iterator[Forecast]:
    """Yield a forecast for every rated match of a log, in its order, as `config` would have it.

    The matches are those that were played: other settings change only what is believed of them.
    Results that arrived in one event are all forecast before any of them is taken in. Anchors
    keep the rating that their model has under `config` when they are frozen.
    """
    state = State(config)
    for event in events:
        for pair_id, outcome in results(event):
            pair = state.pairs[pair_id]
            if outcome.counted:
                teacher, student = (state.members[n].rating for n in (pair.teacher, pair.student))
                yield Forecast(pair_id, pair.round, teacher, student, outcome)
        apply(state, _refrozen(state, event))


def results(event: Mapping[str, Any]) -> list[tuple[str, Outcome]]:
    """Return the (pair id, outcome) of each result in an event, if it holds any."""
    kind = event.get("event")
    if kind == "match_recorded":
        return [(event["pair"], Outcome(**event["outcome"]))]
    if kind == "matches_recorded":
        return [(pair_id, Outcome(*numbers)) for pair_id, *numbers in event["matches"]]
    return []


def _refrozen(state: State, event: Mapping[str, Any]) -> Mapping[str, Any]:
    def current(entry: Mapping[str, Any]) -> dict[str, Any]:
        model = state.members.get(entry.get("of", ""))
        if model is None:
            return dict(entry)
        return dict(entry) | {"mu": model.rating.mu, "sigma": model.rating.sigma}

    if event.get("event") == "anchor_added":
        return current(event)
    if event.get("frozen"):
        return dict(event) | {"frozen": [current(entry) for entry in event["frozen"]]}
    return event
