"""Leagues in memory and in a directory."""

from league import League, LeagueConfig
from league.events import apply, round_event
from league.state import State


def founded(teachers: int, students: int | None = None, **settings: object) -> State:
    """A new league of so many teachers t0... and students s0..., or of members m0... alone."""
    names = {"teachers": [f"t{i}" for i in range(teachers)]}
    names |= {"students": [f"s{i}" for i in range(students or 0)]}
    if students is None:
        names = {"members": [f"m{i}" for i in range(teachers)]}
    state = State(LeagueConfig(**settings))
    apply(state, {"event": "league_founded", **names})
    return state


def play(state: State, number: int, matches: int | None = None) -> list[tuple[str, str]]:
    """Pair a round and return who meets whom."""
    apply(state, round_event(state, number, matches))
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
