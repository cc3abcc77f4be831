"""Results of matches: how they change counts, common histories and ratings.

The state after them depends on what was recorded and not on the order or the portions in which it
came, as long as rounds come one after the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from league.posterior import rate_columns
from league.ratings import Skills
from league.records import MEMBER, STUDENT, TEACHER, Member, Outcome, Pair, teacher_reward
from league.state import State

_SUMS = ("tasks", "valid", "attempts", "solved")


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


def in_layers(matches: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the indices of matches in layers that can be rated at once, one after the other.

    matches: the names that each match changes. No name occurs twice in a layer, and the matches of
    each name stay in order.
    """
    layers: list[list[int]] = []
    depth: dict[str, int] = {}
    for i, names in enumerate(matches):
        layer = max((depth.get(name, 0) for name in names), default=0)
        depth |= dict.fromkeys(names, layer + 1)
        if layer == len(layers):
            layers.append([])
        layers[layer].append(i)
    return layers


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
        **_added(old, outcome, _SUMS),
        matches=old.matches + 1,
        past_tasks=keep * old.past_tasks + counted,
        past_won=keep * old.past_won + counted * outcome.student_score,
        last_round=max(old.last_round, pair.round),
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
