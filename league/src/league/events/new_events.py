"""Events in the making: what a caller asks for, checked against the state and put into words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from league.basics.errors import ConflictingResult, LeagueError, is_finite
from league.pairing.matching import propose
from league.rating.rating import Rating
from league.selection.selection import frozen_entry, hall_of_replacement, hall_of_round
from league.state.records import STUDENT, TEACHER, Outcome, Pair, check_name, check_role
from league.state.state import State

_TEXT = re.compile(r"[ -~]{1,200}")


def checked_population(
    teachers: Sequence[str], students: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the names of a new league's members, once they are fit to be that."""
    for role, names in ((TEACHER, teachers), (STUDENT, students)):
        if isinstance(names, str) or not names:
            raise LeagueError(f"{role}s are {names!r}; expected a list of at least one name")
    everyone = [check_name(name) for name in (*teachers, *students)]
    twice = sorted(name for name, count in Counter(everyone).items() if count > 1)
    if twice:
        raise LeagueError(f"names occur twice: {', '.join(twice)}; expected one name per member")
    return list(teachers), list(students)


def new_results(state: State, results: Iterable[tuple[Pair, Outcome]]) -> list[tuple[str, Outcome]]:
    """Return (pair id, outcome) of those results that are not recorded yet, each once.

    Raises LeagueError for what is no pair of this league, and ConflictingResult for a second
    outcome with other numbers.
    """
    new: dict[str, Outcome] = {}
    try:
        rows = [(pair, outcome) for pair, outcome in results]
    except (TypeError, ValueError):
        raise LeagueError("expected results as a list of (pair, outcome)") from None
    for pair, outcome in rows:
        if not isinstance(pair, Pair) or state.pairs.get(pair.id) != pair:
            raise LeagueError(f"{pair} is not a pair of this league; take pairs from pair(round)")
        if not isinstance(outcome, Outcome):
            raise LeagueError(f"the outcome of pair {pair.id} is {outcome!r}; expected an Outcome")
        known = state.outcomes.get(pair.id) or new.get(pair.id)
        if known is not None and known != outcome:
            raise ConflictingResult(
                f"pair {pair.id} is already recorded as {known}, and now came as {outcome}"
            )
        if known is None:
            new[pair.id] = outcome
    return list(new.items())


def round_event(state: State, round_number: int, matches: int | None) -> dict[str, Any]:
    """Return the event that pairs a round; matches: see `propose`."""
    event: dict[str, Any] = {
        "event": "round_paired",
        "round": round_number,
        "pairs": [
            {"id": p.id, "teacher": p.teacher, "student": p.student, "predicted": p.predicted}
            for p in propose(state, round_number, matches)
        ],
    }
    if matches is not None:
        event["matches"] = matches
    if frozen := hall_of_round(state):
        event["frozen"] = frozen
    return event


def replacement_event(
    state: State,
    member: str,
    child: str,
    parents: Sequence[str],
    operator: str,
    reason: str,
    weights: Sequence[float] | None,
) -> dict[str, Any]:
    """Return the event in which a child takes a member's slot."""
    old = state.member(member)
    if old.anchor:
        raise LeagueError(f"{member} is an anchor, which is never replaced")
    if not old.alive:
        raise LeagueError(f"{member} has already been replaced")
    if len(state.slots[old.role]) == 1:
        raise LeagueError(
            f"{member} is the only {old.role}; expected at least two {old.role}s, so that one of "
            "them stays"
        )
    _check_new(state, child)
    if isinstance(parents, str) or not parents:
        raise LeagueError(f"parents are {parents!r}; expected a list of one name or more")
    for parent in parents:
        if state.member(parent).role != old.role:
            raise LeagueError(f"{parent} is no {old.role}; a child has its parents' role")
    for name, text in (("operator", operator), ("reason", reason or "-")):
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise LeagueError(f"{name} is {text!r}; expected 1 to 200 printable characters")
    event = {
        "event": "member_replaced",
        "member": member,
        "child": child,
        "parents": list(parents),
        "weights": _shares(weights, len(parents)),
        "operator": operator,
        "reason": reason,
    }
    frozen = hall_of_replacement(state, old.role)
    if any(entry["name"] == child for entry in frozen):
        raise LeagueError(f"the hall of fame needs the name {child!r}; expected another one")
    return event | ({"frozen": frozen} if frozen else {})


def anchor_event(
    state: State, name: str, role: str, rating: Rating | None, of: str | None
) -> dict[str, Any]:
    """Return the event that adds a frozen member."""
    check_role(role)
    _check_new(state, name)
    if of is not None and state.member(of).role != role:
        raise LeagueError(f"{of} is no {role}; expected an anchor of its own role")
    if rating is None:
        if of is None:
            raise LeagueError(
                f"the anchor {name} has no rating; give rating=Rating(mu, sigma), or of=member"
            )
        rating = state.member(of).rating
    if not isinstance(rating, Rating) or not (
        is_finite(rating.mu) and is_finite(rating.sigma) and rating.sigma > 0.0
    ):
        raise LeagueError(f"rating is {rating!r}; expected Rating(mu, sigma), finite, sigma > 0")
    floats = Rating(float(rating.mu), float(rating.sigma))
    return {"event": "anchor_added"} | frozen_entry(name, role, of or "", floats)


def _check_new(state: State, name: str) -> None:
    if check_name(name) in state.members:
        raise LeagueError(f"the name {name!r} has been used; expected a new one")


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    values = [1.0] * count if weights is None else [float(w) for w in weights]
    total = sum(values)
    if len(values) != count or not all(w >= 0.0 for w in values) or not 0.0 < total < float("inf"):
        raise LeagueError(f"weights are {weights!r}; expected {count} numbers >= 0, not all 0")
    return [w / total for w in values]
