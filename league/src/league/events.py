"""Events of a league: how each is made from a request, and how it changes the state.

An event is a plain dict with the name of its kind under `event`. The functions that make events
check the request against the state; `apply` takes an event to be consistent. The state after
results depends on what was recorded and not on the order or the portions in which it came, as long
as rounds come one after the other.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from league.errors import ConflictingResult, LeagueError, is_finite
from league.pairing import propose
from league.ratings import Rating, Skills, child_rating, in_layers, rate_columns
from league.state import (
    MEMBER,
    ROLES,
    STUDENT,
    TEACHER,
    Member,
    Outcome,
    Pair,
    Replacement,
    State,
    check_name,
    teacher_reward,
)

Event = Mapping[str, Any]

_TEXT = re.compile(r"[ -~]{1,200}")


def founding_event(populations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the event that creates a league with these names by role.

    The roles are teacher and student, or member alone.
    """
    if set(populations) not in ({TEACHER, STUDENT}, {MEMBER}):
        raise LeagueError("expected teachers and students, or members alone")
    for role, names in populations.items():
        if isinstance(names, str) or not names:
            raise LeagueError(f"{role}s are {names!r}; expected a list of at least one name")
    everyone = [check_name(name) for names in populations.values() for name in names]
    twice = sorted(name for name, count in Counter(everyone).items() if count > 1)
    if twice:
        raise LeagueError(f"names occur twice: {', '.join(twice)}; expected one name per member")
    if MEMBER in populations and len(everyone) < 2:
        raise LeagueError("one population has 1 member; expected at least two, who play each other")
    names_by_role = {role + "s": list(names) for role, names in populations.items()}
    return {"event": "league_founded"} | names_by_role


def new_results(state: State, results: Iterable[tuple[Pair, Outcome]]) -> list[tuple[str, Outcome]]:
    """Return (pair id, outcome) of those results that are not recorded yet, each once.

    Raises LeagueError for what is no pair of this league, and ConflictingResult for a second
    outcome with other numbers.
    """
    new: dict[str, Outcome] = {}
    for pair, outcome in results:
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
        raise LeagueError(f"{member} is the only {old.role}; expected at least two {old.role}s")
    _check_new(state, child)
    if isinstance(parents, str) or not parents:
        raise LeagueError(f"parents are {parents!r}; expected a list of one name or more")
    for parent in parents:
        if state.member(parent).role != old.role:
            raise LeagueError(f"{parent} is no {old.role}; a child has its parents' role")
    for name, text in (("operator", operator), ("reason", reason or "-")):
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise LeagueError(f"{name} is {text!r}; expected 1 to 200 printable characters")
    return {
        "event": "member_replaced",
        "member": member,
        "child": child,
        "parents": list(parents),
        "weights": _shares(weights, len(parents)),
        "operator": operator,
        "reason": reason,
    }


def anchor_event(
    state: State, name: str, role: str, rating: Rating | None, of: str | None
) -> dict[str, Any]:
    """Return the event that adds a frozen member."""
    state.check_role(role)
    _check_new(state, name)
    if of is not None and state.member(of).role != role:
        raise LeagueError(f"{of} is no {role}; expected an anchor of its own role")
    if rating is None:
        if of is None:
            raise LeagueError(
                f"the anchor {name} has no rating; give rating=Rating(mu, sigma), or of=member"
            )
        rating = state.member(of).rating
    if not (is_finite(rating.mu) and is_finite(rating.sigma) and rating.sigma > 0.0):
        raise LeagueError(f"rating is {rating!r}; expected Rating(mu, sigma), finite, sigma > 0")
    belief = {"mu": float(rating.mu), "sigma": float(rating.sigma)}
    return {"event": "anchor_added", "name": name, "role": role, "of": of or ""} | belief


def _check_new(state: State, name: str) -> None:
    if check_name(name) in state.members:
        raise LeagueError(f"the name {name!r} has been used; expected a new one")


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    values = [1.0] * count if weights is None else [float(w) for w in weights]
    total = sum(values)
    if len(values) != count or not all(w >= 0.0 for w in values) or not 0.0 < total < float("inf"):
        raise LeagueError(f"weights are {weights!r}; expected {count} numbers >= 0, not all 0")
    return [w / total for w in values]


def apply(state: State, event: Event) -> None:
    """Change the state by one event; LeagueError for a kind that this version does not know."""
    kind = event.get("event")
    if kind not in _APPLY:
        raise LeagueError(
            f"unknown event {kind!r}, perhaps of a newer version; expected one of "
            f"{', '.join(_APPLY)}"
        )
    _APPLY[kind](state, event)
    state.events += 1


def _founded(state: State, event: Event) -> None:
    newcomer = Rating(state.config.mu, state.config.sigma)
    for role in (MEMBER,) if "members" in event else ROLES:
        state.slots[role] = list(event[role + "s"])
        for slot, name in enumerate(state.slots[role]):
            state.members[name] = Member(name, role, slot, 0, newcomer)


def _round_paired(state: State, event: Event) -> None:
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
    state.replacements.append(
        Replacement(
            *(old.name, child, parents, weights),
            *(event["operator"], event["reason"], rounds, offset),
        )
    )
    close_round(state)


def _anchor_added(state: State, event: Event) -> None:
    name, rating = event["name"], Rating(event["mu"], event["sigma"])
    state.members[name] = Member(
        *(name, event["role"], -1, len(state.rounds), rating),
        alive=False,
        parents=(event["of"],) if event["of"] else (),
        operator="anchor",
        anchor=True,
    )


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


def score(state: State, outcomes: Mapping[str, Outcome]) -> None:
    """Take in the outcomes of some pairs, by pair id; none of them may be recorded already."""
    found = sorted((state.pairs[pair_id] for pair_id in outcomes), key=lambda pair: pair.round)
    for number, group in groupby(found, key=lambda pair: pair.round):
        pairs = list(group)
        if number > state.open_round:
            close_round(state)
            state.open_round = number
        for pair in pairs:
            outcome = outcomes[pair.id]
            state.outcomes[pair.id] = outcome
            _remember(state, pair, outcome)
            for name, side in ((pair.teacher, TEACHER), (pair.student, STUDENT)):
                member = state.members[name]
                state.members[name] = _with_counts(member, outcome, side)
                if not member.anchor:
                    state.open_pairs.setdefault(name, set()).add(pair.id)
                    state.before.setdefault(name, member.rating)
        _rate(state, _affected(state, pairs))


def close_round(state: State) -> None:
    """End the round being recorded: later results start from the ratings of now."""
    state.open_pairs.clear()
    state.before.clear()


def _affected(state: State, pairs: Iterable[Pair]) -> list[Pair]:
    """Return all recorded pairs of the open round that share members with these, by id.

    Members that met several others are put back to what they were before the round, to be rated
    again in the order of ids: so the order of arrival leaves no trace.
    """
    found: dict[str, Pair] = {}
    for start in pairs:
        if start.id in found:
            continue
        group = _connected(state, start)
        found |= group
        if len(group) > 1:
            for pair in group.values():
                for name in (pair.teacher, pair.student):
                    if name in state.open_pairs:
                        rating = state.before[name]
                        state.members[name] = replace(state.members[name], rating=rating)
    return [found[pair_id] for pair_id in sorted(found)]


def _connected(state: State, start: Pair) -> dict[str, Pair]:
    """Return the recorded pairs of the open round connected to this one by common members.

    A frozen member does not connect others: its matches do not change it.
    """
    found = {start.id: start}
    waiting = [start.teacher, start.student]
    seen = set(waiting)
    while waiting:
        for pair_id in state.open_pairs.get(waiting.pop(), ()):
            if pair_id not in found:
                pair = found[pair_id] = state.pairs[pair_id]
                new = {pair.teacher, pair.student} - seen
                seen |= new
                waiting.extend(new)
    return found


def _rate(state: State, pairs: list[Pair]) -> None:
    """Rate pairs as if one after the other, all those at once that have no member in common."""
    counted = [pair for pair in pairs if state.outcomes[pair.id].counted]
    changed = [
        [n for n in (pair.teacher, pair.student) if not state.members[n].anchor] for pair in counted
    ]
    for layer in in_layers(changed):
        _rate_at_once(state, [counted[i] for i in layer])


def _rate_at_once(state: State, pairs: list[Pair]) -> None:
    config = state.config
    outcomes = [state.outcomes[pair.id] for pair in pairs]
    counted = np.array([outcome.counted for outcome in outcomes], dtype=np.float64)
    teachers = [state.members[pair.teacher] for pair in pairs]
    students = [state.members[pair.student] for pair in pairs]
    rated = rate_columns(
        Skills.of([member.rating for member in teachers]),
        Skills.of([member.rating for member in students]),
        np.array([outcome.student_score for outcome in outcomes]),
        np.minimum(counted * config.evidence, config.max_weight),
        config.model,
    )
    for members, skills in zip((teachers, students), rated, strict=True):
        for member, rating in zip(members, skills.ratings(), strict=True):
            if not member.anchor:
                state.members[member.name] = replace(member, rating=rating)


def _remember(state: State, pair: Pair, outcome: Outcome) -> None:
    key = (pair.teacher, pair.student)
    old = state.meeting(*key)
    keep, counted = state.config.history_decay, outcome.counted
    state.meetings[key] = replace(
        old,
        **_added(old, outcome, ("tasks", "attempts", "solved")),
        past_tasks=keep * old.past_tasks + counted,
        past_won=keep * old.past_won + counted * outcome.student_score,
    )


def _added(old: object, outcome: Outcome, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(old, name) + getattr(outcome, name) for name in names}


def _with_counts(member: Member, outcome: Outcome, side: str) -> Member:
    teaches, solves = side == TEACHER, side == STUDENT
    if member.role != MEMBER:
        teaches = solves = True
    summed: tuple[str, ...] = ("attempts", "solved") if solves else ()
    if teaches:
        summed += ("tasks", "valid", "unsolved", "infra_errors")
    reward = round(1e6 * teacher_reward(outcome)) if side == TEACHER else 0
    return replace(
        member,
        **_added(member, outcome, summed),
        matches=member.matches + 1,
        tried=member.tried + (outcome.valid if outcome.attempts and teaches else 0),
        reward_millionths=member.reward_millionths + reward,
    )
