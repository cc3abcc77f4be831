"""State as a fold over events: the only place where a league changes.

An event is a plain dict with the name of its kind under `event`. The functions that make events
check them first; what is applied here is taken to be consistent.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from league.errors import LeagueError
from league.inheritance import child_rating
from league.member import ROLES, TEACHER, Member, teacher_reward
from league.outcome import Outcome
from league.rating import Rating
from league.schemes import rate, scheme_of
from league.state import Meeting, Pair, Replacement, State

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
        for slot, name in enumerate(event[role + "s"]):
            state.members[name] = Member(name, role, slot, 0, newcomer)


def _round_paired(state: State, event: Event) -> None:
    number = event["round"]
    pairs = [
        Pair(p["id"], number, p["teacher"], p["student"], p["predicted"]) for p in event["pairs"]
    ]
    state.rounds[number] = [pair.id for pair in pairs]
    for pair in pairs:
        state.pairs[pair.id] = pair
        for name in (pair.teacher, pair.student):
            member = state.members[name]
            state.members[name] = replace(member, paired=member.paired + 1)


def _match_recorded(state: State, event: Event) -> None:
    pair = state.pairs[event["pair"]]
    outcome = Outcome(**event["outcome"])
    state.outcomes[pair.id] = outcome
    for name in (pair.teacher, pair.student):
        state.members[name] = _with_counts(state.members[name], outcome)
    _remember(state, pair, outcome)
    if pair.round > state.open_round:
        _close_round(state)
        state.open_round = pair.round
    for name in (pair.teacher, pair.student):
        state.open_pairs.setdefault(name, set()).add(pair.id)
        state.before.setdefault(name, state.members[name].rating)
    group = _connected(state, pair)
    if len(group) > 1:
        # A member met several others in this round: rate the group anew, in the order of ids,
        # so that the order of arrival leaves no trace.
        for name in {name for other in group for name in (other.teacher, other.student)}:
            state.members[name] = replace(state.members[name], rating=state.before[name])
    for other in group:
        _rate(state, other, state.outcomes[other.id])


def _member_replaced(state: State, event: Event) -> None:
    old = state.members[event["member"]]
    parents, weights = tuple(event["parents"]), tuple(event["weights"])
    ratings = [state.members[name].rating for name in parents]
    rating = child_rating(ratings, weights, state.config.child_sigma, state.config.model)
    size = len(state.living(old.role))
    state.members[old.name] = replace(old, alive=False)
    state.members[event["child"]] = Member(
        event["child"],
        old.role,
        old.slot,
        len(state.rounds),
        rating,
        parents=parents,
        operator=event["operator"],
        paired=old.paired,
    )
    state.replacements.append(
        Replacement(
            old.name,
            event["child"],
            parents,
            weights,
            event["operator"],
            event["reason"],
            len(state.rounds),
            (rating.mu - old.rating.mu) / size,
        )
    )
    _close_round(state)


def _close_round(state: State) -> None:
    state.open_pairs.clear()
    state.before.clear()


def _connected(state: State, start: Pair) -> list[Pair]:
    """The recorded pairs of the open round that share members with this one, by id."""
    found: set[str] = set()
    waiting = [start.teacher]
    seen = {start.teacher}
    while waiting:
        for pair_id in state.open_pairs[waiting.pop()] - found:
            found.add(pair_id)
            pair = state.pairs[pair_id]
            new = {pair.teacher, pair.student} - seen
            seen |= new
            waiting.extend(new)
    return [state.pairs[i] for i in sorted(found)]


def _rate(state: State, pair: Pair, outcome: Outcome) -> None:
    if not outcome.counted:
        return
    teacher, student = state.members[pair.teacher], state.members[pair.student]
    weight = min(outcome.counted * state.config.evidence, state.config.max_weight)
    new_teacher, new_student = rate(
        scheme_of(state.config),
        [teacher.rating],
        [student.rating],
        np.array([outcome.student_score]),
        np.array([weight]),
    )
    state.members[teacher.name] = replace(teacher, rating=new_teacher[0])
    state.members[student.name] = replace(student, rating=new_student[0])


def _remember(state: State, pair: Pair, outcome: Outcome) -> None:
    key = (pair.teacher, pair.student)
    old = state.meetings.get(key, Meeting())
    keep = state.config.history_decay
    state.meetings[key] = Meeting(
        matches=old.matches + 1,
        tasks=old.tasks + outcome.tasks,
        valid=old.valid + outcome.valid,
        attempts=old.attempts + outcome.attempts,
        solved=old.solved + outcome.solved,
        past_tasks=keep * old.past_tasks + outcome.counted,
        past_won=keep * old.past_won + outcome.counted * outcome.student_score,
        last_round=max(old.last_round, pair.round),
    )


def _with_counts(member: Member, outcome: Outcome) -> Member:
    reward = round(1e6 * teacher_reward(outcome)) if member.role == TEACHER else 0
    return replace(
        member,
        matches=member.matches + 1,
        tasks=member.tasks + outcome.tasks,
        valid=member.valid + outcome.valid,
        attempts=member.attempts + outcome.attempts,
        solved=member.solved + outcome.solved,
        unsolved=member.unsolved + outcome.unsolved,
        tried=member.tried + (outcome.valid if outcome.attempts else 0),
        reward_millionths=member.reward_millionths + reward,
    )


_APPLY: dict[Any, Callable[[State, Event], None]] = {
    "league_founded": _founded,
    "round_paired": _round_paired,
    "match_recorded": _match_recorded,
    "member_replaced": _member_replaced,
}
