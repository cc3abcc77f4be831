"""Many results in one event: the same ratings, all or nothing."""

import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import (
    ConflictingResult,
    League,
    LeagueError,
    Outcome,
    Pair,
    Rating,
    rate_matches,
)
from league.ratings import RatingModel
from league.store import EVENTS
from worlds import new_league


def outcome_of(pair: Pair) -> Outcome:
    draw = random.Random(pair.id)
    solved = draw.randint(0, 64)
    return Outcome(20, 16, 64, solved, max(0, 16 - solved), draw.randint(0, 3))


def without_events(league: League) -> dict[str, object]:
    return {key: value for key, value in league.state.to_dict().items() if key != "events"}


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_portions_and_order_leave_no_trace(tmp_path_factory, teachers, students, draw):
    """One by one, all at once, or in any portions: the state is equal to the bit."""
    states = []
    for way in ("single", "whole", "portions"):
        path = tmp_path_factory.mktemp("l") / way
        with new_league(path, teachers, students, anchor_share=0.5) as league:
            league.add_anchor("a", "teacher", rating=Rating(30.0, 2.0))
            for number in range(2):
                results = [(pair, outcome_of(pair)) for pair in league.pair(number)]
                if way == "single":
                    for pair, outcome in results:
                        league.record(pair, outcome)
                    continue
                draw.shuffle(results)
                cut = 0 if way == "whole" else draw.randint(0, len(results))
                league.record_many(results[:cut])
                league.record_many(results[cut:])
            states.append(without_events(league))
            live = league.state.to_dict()
        with League(path) as league:
            assert league.state.to_dict() == live
    assert states[0] == states[1] == states[2]


def test_rows_of_a_batch_never_interact():
    rng = np.random.default_rng(0)
    teachers = [Rating(float(m), float(s)) for m, s in rng.uniform(1, 40, (37, 2))]
    students = [Rating(float(m), float(s)) for m, s in rng.uniform(1, 40, (37, 2))]
    score, weight = rng.uniform(0, 1, 37), rng.uniform(0, 64, 37)
    together = rate_matches(teachers, students, score, weight, RatingModel())
    for i in range(37):
        alone = rate_matches(
            teachers[i : i + 1], students[i : i + 1], score[i : i + 1], weight[i : i + 1],
            RatingModel(),
        )  # fmt: skip
        assert (alone[0][0], alone[1][0]) == (together[0][i], together[1][i])


def test_results_of_several_rounds_may_come_at_once(tmp_path):
    states = []
    for way in ("rounds", "once"):
        with new_league(tmp_path / way) as league:
            rounds = [[(p, outcome_of(p)) for p in league.pair(n)] for n in range(3)]
            whole = [result for results in reversed(rounds) for result in results]
            for results in rounds if way == "rounds" else [whole]:
                league.record_many(results)
            states.append(without_events(league))
    assert states[0] == states[1]


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
        before = league.state.to_dict(), (tmp_path / "l" / EVENTS).read_bytes()
        other = Outcome(1, 1, 1, 1, 0)
        stranger = Pair("0/t0/nobody", 0, "t0", "nobody", 0.5)
        for bad, error in (
            ([results[1], (results[0][0], other)], ConflictingResult),
            ([results[1], results[2], (results[1][0], other)], ConflictingResult),
            ([results[1], (stranger, other)], LeagueError),
            ([results[1], (results[2][0], None)], LeagueError),
            ([results[1], ("0/t0/s0", other)], LeagueError),
        ):
            with pytest.raises(error):
                league.record_many(bad)
            assert (league.state.to_dict(), (tmp_path / "l" / EVENTS).read_bytes()) == before


def test_void_tasks_are_kept_and_never_rated(tmp_path):
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
        failures = []

        def work(mine: list[Pair]) -> None:
            try:
                for pair in mine:
                    league.record(pair, outcome_of(pair))
                    league.leaderboard("teacher")
                    league.payoff()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(pairs[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        state = without_events(league)
    with new_league(tmp_path / "m", 12, 12) as league:
        league.record_many([(pair, outcome_of(pair)) for pair in league.pair(0)])
        assert without_events(league) == state
    with League(tmp_path / "l") as league:
        assert without_events(league) == state
