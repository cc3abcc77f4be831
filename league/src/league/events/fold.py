"""State as a fold over events: the only place where a league changes.

An event is a plain dict with the name of its kind under `event`. The functions that make events
check them first; what is applied here is taken to be consistent. Results are in `scoring`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from league.basics.errors import LeagueError
from league.events.scoring import close_round, score
from league.rating.rating import Rating, child_rating
from league.state.records import ADDED, ROLES, Anchor, Member, Outcome, Replacement
from league.state.state import State

Event = Mapping[str, Any]


def apply(state: State, event: Event) -> None:
    """Change the state by one event; LeagueError for a kind that this version does not know."""
    kind = event.get("event")
    if kind not in _APPLY:
        raise LeagueError(
            f"unknown event {kind!r}; this version knows {', '.join(_APPLY)}: "
            "was the log written by a newer one?"
        )
    _APPLY[kind](state, event)
    state.events += 1


def _founded(state: State, event: Event) -> None:
    newcomer = Rating(state.config.mu, state.config.sigma)
    for role in ROLES:
        state.slots[role] = list(event[role + "s"])
        for slot, name in enumerate(state.slots[role]):
            state.members[name] = Member(name, role, slot, 0, newcomer)


def _round_paired(state: State, event: Event) -> None:
    _freeze(state, event.get("frozen", ()), "round")
    number, turn = event["round"], len(state.rounds)
    pairs = [
        state.add_pair(p["id"], number, p["teacher"], p["student"], p["predicted"])
        for p in event["pairs"]
    ]
    state.rounds[number] = [pair.id for pair in pairs]
    state.whole_rounds += "matches" not in event
    for pair in pairs:
        for name in (pair.teacher, pair.student):
            member = state.members[name]
            state.members[name] = replace(member, paired=member.paired + 1, turn=turn)


def _recorded(state: State, event: Event) -> None:
    score(state, dict(results(event)))


def _member_replaced(state: State, event: Event) -> None:
    _freeze(state, event.get("frozen", ()), "replacement")
    old, child = state.members[event["member"]], event["child"]
    parents, weights = tuple(event["parents"]), tuple(event["weights"])
    ratings = [state.members[name].rating for name in parents]
    rating = child_rating(ratings, weights, state.config.child_sigma, state.config.model)
    rounds, slots = len(state.rounds), state.slots[old.role]
    state.members[old.name] = replace(old, alive=False)
    state.members[child] = Member(
        *(child, old.role, old.slot, rounds, rating),
        parents=parents,
        operator=event["operator"],
        paired=old.paired,
        turn=old.turn,
    )
    slots[old.slot] = child
    offset = (rating.mu - old.rating.mu) / len(slots)
    told = (event["operator"], event["reason"], rounds, offset)
    state.replacements.append(Replacement(old.name, child, parents, weights, *told))
    close_round(state)


def _anchor_added(state: State, event: Event) -> None:
    _freeze(state, [event], ADDED)


def _freeze(state: State, entries: Sequence[Event], cause: str) -> None:
    for entry in entries:
        name, role, of = entry["name"], entry["role"], entry["of"]
        rating, rounds = Rating(entry["mu"], entry["sigma"]), len(state.rounds)
        parents = (of,) if of else ()
        state.members[name] = Member(
            name, role, -1, rounds, rating, False, parents, "anchor", anchor=True
        )
        state.anchors.append(Anchor(name, role, of, rounds, cause))


_APPLY: dict[Any, Callable[[State, Event], None]] = {
    "league_founded": _founded,
    "round_paired": _round_paired,
    "match_recorded": _recorded,
    "matches_recorded": _recorded,
    "member_replaced": _member_replaced,
    "anchor_added": _anchor_added,
}


def results(event: Mapping[str, Any]) -> list[tuple[str, Outcome]]:
    """Return the (pair id, outcome) of each result in an event, if it holds any."""
    kind = event.get("event")
    if kind == "match_recorded":
        return [(event["pair"], Outcome(**event["outcome"]))]
    if kind == "matches_recorded":
        return [(pair_id, Outcome(*numbers)) for pair_id, *numbers in event["matches"]]
    return []
