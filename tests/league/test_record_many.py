"""Many results in one event: the same ratings, all or nothing."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import ConflictingResult, League, LeagueError, Outcome, Pair
from league.store import EVENTS
from worlds import new_league, outcome_of


def without_events(league: League) -> dict[str, object]:
    return {key: value for key, value in vars(league.state).items() if key != "events"}


@settings(max_examples=12)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6))
def test_portions_leave_no_trace(tmp_path_factory, teachers, students, cut):
    """One by one, all at once, or in any portions: the state is equal to the bit."""
    states = []
    for way in ("single", "rounds", "portions", "all at once"):
        path = tmp_path_factory.mktemp("l") / way
        with new_league(path, teachers, students) as league:
            rounds = [[(pair, outcome_of(pair)) for pair in league.pair(n)] for n in range(2)]
            for results in [[*chain(*rounds)]] if way == "all at once" else rounds:
                at = cut if way == "portions" else 0
                for portion in (results[:at], results[at:]) if way != "single" else ():
                    league.record_many(portion)
                for pair, outcome in results:  # a second time, it changes nothing
                    league.record(pair, outcome)
            states.append(without_events(league))
        with League(path) as again:
            assert again.state == league.state
    assert states[0] == states[1] == states[2] == states[3]


def test_one_event_and_nothing_for_what_is_known(tmp_path):
    with new_league(tmp_path / "l") as league:
        results = [(pair, outcome_of(pair)) for pair in league.pair(0)]
        league.record(*results[0])
        events = league.state.events
        league.record_many([*results, *results])
        assert league.state.events == events + 1
        assert len(league.state.outcomes) == 3
        league.record_many(results)
        league.record_many([])
        assert league.state.events == events + 1
        assert (tmp_path / "l" / EVENTS).read_bytes().count(b"\n") == events + 1


def test_all_or_nothing(tmp_path):
    with new_league(tmp_path / "l") as league:
        results = [(pair, outcome_of(pair)) for pair in league.pair(0)]
        league.record(*results[0])
        before = deepcopy(league.state), (tmp_path / "l" / EVENTS).read_bytes()
        other = Outcome(1, 1, 1, 1, 0)
        stranger = Pair("0/t0/nobody", 0, "t0", "nobody", 0.5)
        for bad, error in (
            ([results[1], (results[0][0], other)], ConflictingResult),
            ([results[1], results[2], (results[1][0], other)], ConflictingResult),
            ([results[1], (stranger, other)], LeagueError),
        ):
            with pytest.raises(error):
                league.record_many(bad)
            assert (league.state, (tmp_path / "l" / EVENTS).read_bytes()) == before


def test_tasks_without_a_verdict_are_counted_and_never_rated(tmp_path):
    boards = []
    for lost in (0, 5):
        with new_league(tmp_path / str(lost), 1, 1) as league:
            (pair,) = league.pair(0)
            league.record(pair, Outcome(8, 6, 24, 12, 1, lost))
            league.record(league.pair(1)[0], Outcome(0, 0, 0, 0, 0, infra_errors=lost))
            boards.append(league.leaderboard("teacher")[0])
            assert boards[-1].infra_errors == 2 * lost
            assert league.state.outcomes[pair.id].infra_errors == lost
    first, second = boards
    assert (first.mu, first.sigma, first.valid_rate) == (second.mu, second.sigma, 0.75)
    with pytest.raises(LeagueError, match="infra_errors is -1"):
        Outcome(1, 1, 1, 1, 0, -1)


def test_threads_may_share_a_league(tmp_path):
    with new_league(tmp_path / "l", 12, 12) as league:
        pairs = league.pair(0)

        def work(mine: list[Pair]) -> None:
            for pair in mine:
                league.record(pair, outcome_of(pair))
                league.leaderboard("teacher")
                league.payoff()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [pairs[i::4] for i in range(4)]))
        state = without_events(league)
    with new_league(tmp_path / "m", 12, 12) as league:
        league.record_many([(pair, outcome_of(pair)) for pair in league.pair(0)])
        assert without_events(league) == state
    with League(tmp_path / "l") as league:
        assert without_events(league) == state
