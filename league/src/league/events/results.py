"""The results in an event: of one match, or of many at once."""

from collections.abc import Mapping
from typing import Any

from league.state.outcome import Outcome


def results(event: Mapping[str, Any]) -> list[tuple[str, Outcome]]:
    """Return the (pair id, outcome) of each result in an event, if it holds any."""
    kind = event.get("event")
    if kind == "match_recorded":
        return [(event["pair"], Outcome(**event["outcome"]))]
    if kind == "matches_recorded":
        return [(pair_id, Outcome(*numbers)) for pair_id, *numbers in event["matches"]]
    return []
