"""Leagues in memory and in a directory."""

import random

from league import League, LeagueConfig, Outcome, Pair
from league.events import apply, round_event
from league.state import State

EASY = Outcome(8, 8, 32, 30, 0)
HARD = Outcome(8, 8, 32, 2, 6)


def outcome_of(pair: Pair) -> Outcome:
    """Some outcome, the same for the same pair."""
    draw = random.Random(pair.id)
    solved = draw.randint(0, 64)
    return Outcome(20, 16, 64, solved, max(0, 16 - solved), draw.randint(0, 3))


def founded(teachers: int, students: int | None = None, **settings: object) -> State:
    """A new league of so many teachers t0... and students s0..., or of members m0... alone."""
    names = {"teachers": [f"t{i}" for i in range(teachers)]}
    names |= {"students": [f"s{i}" for i in range(students or 0)]}
    if students is None:
        names = {"members": [f"m{i}" for i in range(teachers)]}
    state = State(LeagueConfig(**settings))
    apply(state, {"event": "league_founded", **names})
    return state


def play(state: State, number: int) -> list[tuple[str, str]]:
    """Pair a round and return who meets whom."""
    apply(state, round_event(state, number))
    pairs = [state.pairs[pair_id] for pair_id in state.rounds[number]]
    return [(pair.teacher, pair.student) for pair in pairs]


def new_league(path, teachers=3, students=3, **settings) -> League:
    """Found a league of so many teachers t0... and students s0... in a directory."""
    names = [f"t{i}" for i in range(teachers)], [f"s{i}" for i in range(students)]
    return League(path, *names, config=LeagueConfig(**settings))


def play_rounds(league: League, rounds, outcome_of) -> None:
    """Pair some rounds and record what `outcome_of` says of each pair."""
    for number in rounds:
        for pair in league.pair(number):
            league.record(pair, outcome_of(pair))
