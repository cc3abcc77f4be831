"""Events of a league, and how they change the state.

An event is a plain dict with the name of its kind under `event`; `apply` takes it to be consistent.
The state after results depends on what was recorded and not on the order or the portions in which
it came, as long as rounds come one after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

import numpy as np

from league.errors import LeagueError
from league.pairing import propose
from league.ratings import Rating, child_rating, rate_series
from league.state import MEMBER, ROLES, STUDENT, TEACHER, Member, Outcome, Pair, Replacement, State

Event = Mapping[str, Any]


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


def apply(state: State, event: Event) -> None:
    """Change the state by one event; LeagueError for a kind that this version does not know."""
    kind = event.get("event")
    if kind == "anchor_added":
        raise LeagueError(
            f"{event.get('name')} is an anchor, which this version does not have: take the version "
            "of populab-league that wrote it"
        )
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
    for pair in pairs:
        for name in (pair.teacher, pair.student):
            member = state.members[name]
            state.members[name] = replace(member, paired=member.paired + 1, turn=turn)


def _member_replaced(state: State, event: Event) -> None:
    old, child = state.members[event["member"]], event["child"]
    parents, weights = tuple(event["parents"]), tuple(event["weights"])
    operator, reason = event["operator"], event["reason"]
    ratings = [state.members[name].rating for name in parents]
    rating = child_rating(ratings, weights, state.config.child_sigma, state.config.model)
    rounds, slots = len(state.rounds), state.slots[old.role]
    state.members[old.name] = replace(old, alive=False)
    state.members[child] = Member(
        *(child, old.role, old.slot, rounds, rating),
        parents=parents,
        operator=operator,
        paired=old.paired,
        turn=old.turn,
    )
    slots[old.slot] = child
    offset = (rating.mu - old.rating.mu) / len(slots)
    replacement = Replacement(old.name, child, parents, weights, operator, reason, rounds, offset)
    state.replacements.append(replacement)
    close_round(state)


def results(event: Mapping[str, Any]) -> list[tuple[str, Outcome]]:
    """Return the (pair id, outcome) of each result in an event, if it holds any."""
    kind = event.get("event")
    if kind == "match_recorded":
        return [(event["pair"], Outcome(**event["outcome"]))]
    if kind == "matches_recorded":
        return [(pair_id, Outcome(*numbers)) for pair_id, *numbers in event["matches"]]
    return []


def _recorded(state: State, event: Event) -> None:
    outcomes = dict(results(event))
    ordered = sorted((state.pairs[pair_id] for pair_id in outcomes), key=lambda pair: pair.round)
    for number, group in groupby(ordered, key=lambda pair: pair.round):
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
                state.open_pairs.setdefault(name, set()).add(pair.id)
                state.before.setdefault(name, member.rating)
        _rate(state, _affected(state, pairs))


_APPLY: dict[Any, Callable[[State, Event], None]] = {
    "league_founded": _founded,
    "round_paired": _round_paired,
    "match_recorded": _recorded,
    "matches_recorded": _recorded,
    "member_replaced": _member_replaced,
}


def close_round(state: State) -> None:
    """End the round being recorded: later results start from the ratings of now."""
    state.open_pairs.clear()
    state.before.clear()


def _affected(state: State, pairs: Sequence[Pair]) -> list[Pair]:
    """Return all recorded pairs of the open round that share members with these, by id.

    Their members are put back to what they were before the round, to be rated again in the order of
    ids: so the order of arrival leaves no trace.
    """
    affected = {pair.id: pair for pair in pairs}
    waiting = [name for pair in pairs for name in (pair.teacher, pair.student)]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in state.open_pairs:
            continue
        seen.add(name)
        state.members[name] = replace(state.members[name], rating=state.before[name])
        for pair_id in state.open_pairs[name]:
            pair = affected[pair_id] = state.pairs[pair_id]
            waiting += (pair.teacher, pair.student)
    return [affected[pair_id] for pair_id in sorted(affected)]


def _rate(state: State, pairs: Sequence[Pair]) -> None:
    """Rate pairs as if one after the other."""
    config, members = state.config, state.members
    counted = [pair for pair in pairs if state.outcomes[pair.id].counted]
    names = [(pair.teacher, pair.student) for pair in counted]
    outcomes = [state.outcomes[pair.id] for pair in counted]
    playing = [members[name] for name in dict.fromkeys(chain.from_iterable(names))]
    ratings = {member.name: member.rating for member in playing}
    score = np.array([outcome.student_score for outcome in outcomes])
    weight = np.minimum([o.counted * config.evidence for o in outcomes], config.max_weight)
    rate_series(ratings, names, score, weight, config.model)
    for name, rating in ratings.items():
        members[name] = replace(members[name], rating=rating)


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


def teacher_reward(outcome: Outcome) -> float:
    """Return the sum of the paper's teacher reward over a batch.

    Per task: -1 if invalid, 0 if no rollout solved it, else 1 - solve rate. The sum needs no solve
    rate of single tasks as long as each valid task gets equally many attempts.
    """
    reward = -float(outcome.invalid)
    if outcome.attempts:
        reward += outcome.valid - outcome.unsolved
        reward -= outcome.valid * outcome.solved / outcome.attempts
    return reward
