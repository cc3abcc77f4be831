"""Events of a league: the ratings that follow from them, and how they change the state.

An event is a plain dict with the name of its kind under `event`. An event that moves ratings holds
the new ones under `ratings`, so that applying it only assigns; `rated` computes them, in the order
of the results.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import numpy as np

from league.errors import LeagueError
from league.pairing import propose
from league.ratings import Rating, child_rating, rate_matches
from league.state import MEMBER, ROLES, Meeting, Member, Outcome, Pair, Replacement, State

Event = Mapping[str, Any]


def round_event(state: State, round_number: int) -> dict[str, Any]:
    """Return the event that pairs a round."""
    fields = ("id", "teacher", "student", "predicted")
    pairs = [{name: getattr(p, name) for name in fields} for p in propose(state, round_number)]
    return {"event": "round_paired", "round": round_number, "pairs": pairs}


def rated(state: State, event: Event) -> dict[str, Any]:
    """Return the event with the ratings that follow from it and the state before it."""
    config, ratings = state.config, dict[str, Rating]()
    if event.get("event") == "member_replaced":
        parents = [state.members[name].rating for name in event["parents"]]
        child = child_rating(parents, event["weights"], config.child_sigma, config.model)
        ratings[event["child"]] = child
    elif event.get("event") == "match_recorded":
        pair, outcome = result(state, event)
        if outcome.counted:
            names = pair.teacher, pair.student
            teacher, student = ([state.members[name].rating] for name in names)
            score = np.array([outcome.student_score])
            weight = np.array([min(outcome.counted * config.evidence, config.max_weight)])
            new = rate_matches(teacher, student, score, weight, config.model)
            ratings |= zip(names, chain(*new), strict=True)
    else:
        return dict(event)
    return {**event, "ratings": {name: [r.mu, r.sigma] for name, r in ratings.items()}}


def result(state: State, event: Event) -> tuple[Pair, Outcome]:
    """Return the pair and the outcome of a `match_recorded`."""
    return state.pairs[event["pair"]], Outcome(**event["outcome"])


def apply(state: State, event: Event) -> None:
    """Change the state by one event. Raises LeagueError for an unknown kind."""
    kind = event.get("event")
    if kind not in _APPLY:
        raise LeagueError(
            f"unknown event {kind!r}, perhaps of another version; expected one of "
            f"{', '.join(_APPLY)}"
        )
    _APPLY[kind](state, event)
    for name, (mu, sigma) in event.get("ratings", {}).items():
        state.members[name] = replace(state.members[name], rating=Rating(mu, sigma))
    state.events += 1


def _founded(state: State, event: Event) -> None:
    newcomer = Rating(state.config.mu, state.config.sigma)
    for role in (MEMBER,) if "members" in event else ROLES:
        state.slots[role] = list(event[role + "s"])
        for slot, name in enumerate(state.slots[role]):
            state.members[name] = Member(name, role, slot, 0, newcomer)


def _round_paired(state: State, event: Event) -> None:
    number = event["round"]
    state.rounds[number] = [p["id"] for p in event["pairs"]]
    for p in event["pairs"]:
        # the members' own strings, which saves memory
        teacher, student = (state.members[p[role]].name for role in ROLES)
        state.pairs[p["id"]] = Pair(p["id"], number, teacher, student, p["predicted"])
        for name in (teacher, student):
            member = state.members[name]
            state.members[name] = replace(member, paired=member.paired + 1)


def _member_replaced(state: State, event: Event) -> None:
    old, child = state.members[event["member"]], event["child"]
    parents, weights = tuple(event["parents"]), tuple(event["weights"])
    operator, reason = event["operator"], event["reason"]
    rating, rounds, slots = Rating(*event["ratings"][child]), len(state.rounds), state.slots
    state.members[old.name] = replace(old, alive=False)
    life = child, old.role, old.slot, rounds, rating
    state.members[child] = Member(*life, parents=parents, operator=operator, paired=old.paired)
    slots[old.role][old.slot] = child
    offset = (rating.mu - old.rating.mu) / len(slots[old.role])
    replacement = Replacement(old.name, child, parents, weights, operator, reason, rounds, offset)
    state.replacements.append(replacement)


def _recorded(state: State, event: Event) -> None:
    pair, outcome = result(state, event)
    state.outcomes[pair.id] = outcome
    old, keep = state.meeting(pair.teacher, pair.student), state.config.history_decay
    won = outcome.counted * outcome.student_score
    faded = replace(old, past_tasks=keep * old.past_tasks, past_won=keep * old.past_won)
    state.meetings[pair.teacher, pair.student] = faded + Meeting(
        matches=1,
        **asdict(outcome),
        tried=outcome.valid if outcome.attempts else 0,
        counted=outcome.counted,
        won=won,
        reward_millionths=round(1e6 * teacher_reward(outcome)),
        past_tasks=outcome.counted,
        past_won=won,
    )


_APPLY: dict[Any, Callable[[State, Event], None]] = {
    "league_founded": _founded,
    "round_paired": _round_paired,
    "match_recorded": _recorded,
    "member_replaced": _member_replaced,
}


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
