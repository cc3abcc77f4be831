"""A league of one population: members play members of the same population, never themselves."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import (
    League,
    LeagueConfig,
    LeagueError,
    Outcome,
    Rating,
    calibration,
    nash,
    rate,
    read_league,
)
from league.pairing import propose
from worlds import founded, play

EASY, HARD = Outcome(8, 8, 32, 30, 0), Outcome(8, 6, 24, 2, 4)
MATCHERS = ["sampled", "assignment", "thompson", "uniform"]


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.sampled_from(MATCHERS), st.integers(0, 2**40))
def test_everybody_teaches_once_and_solves_once_and_never_plays_itself(size, matcher, seed):
    state = founded(size, matcher=matcher, seed=seed)
    for number in range(5):
        pairs = play(state, number)
        assert all(teacher != student for teacher, student in pairs)
        assert sorted(t for t, _ in pairs) == sorted(s for _, s in pairs) == sorted(state.members)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.data(), st.sampled_from(MATCHERS), st.integers(0, 2**40))
def test_in_partial_rounds_nobody_waits_longer_than_its_turn(size, data, matcher, seed):
    matches = data.draw(st.integers(1, size))
    state = founded(size, matcher=matcher, seed=seed)
    last = dict.fromkeys(state.members, -1)
    for number in range(3 * size):
        pairs = play(state, number, matches)
        assert len(pairs) == len(set(pairs)) == matches
        assert all(teacher != student for teacher, student in pairs)
        for name in {name for pair in pairs for name in pair}:
            assert number - last[name] <= -(-size // matches)
            last[name] = number


@pytest.mark.parametrize("size", [2, 3, 6])
def test_coverage_rounds_hold_every_pair(size):
    state = founded(size, coverage_every=1, seed=size)
    met = Counter(pair for number in range(2 * (size - 1)) for pair in play(state, number))
    assert len(met) == size * (size - 1)
    assert set(met.values()) == {2}


@pytest.mark.parametrize("matcher", MATCHERS)
def test_no_place_in_the_list_is_favoured(matcher):
    state = founded(4, matcher=matcher)
    met = Counter((p.teacher, p.student) for n in range(600) for p in propose(state, n))
    # 200 expected of each of twelve pairs, standard deviation below 12.
    assert len(met) == 12
    assert all(140 < count < 260 for count in met.values())
    single = Counter(p.teacher for s in range(400) for p in propose(founded(4, seed=s), 0, 1))
    assert min(single.values()) > 65


def test_a_league_of_one_population_from_beginning_to_end(tmp_path):
    """Known skills come back; replacement, anchors, files and reports work as with two."""
    config = LeagueConfig(seed=3, anchor_share=0.2, snapshot_every=4)
    names = [f"m{i}" for i in range(4)]
    skill = {name: 25.0 + 3.0 * i for i, name in enumerate(names)} | {"base": 29.5}
    rng = np.random.default_rng(0)
    rows = []
    with League(tmp_path / "l", members=names, config=config) as league:
        league.add_anchor("base", "member", Rating(29.5, 0.5))
        for number in range(40):
            for pair in league.pair(number):
                gap = skill[pair.student] - skill[pair.teacher]
                solved = int(rng.binomial(16, 1 / (1 + np.exp(-gap / 3.5))))
                outcome = Outcome(16, 16, 16, solved, 16 - solved)
                league.record(pair, outcome)
                rows.append({"teacher": pair.teacher, "student": pair.student, "outcome": outcome})
        board = league.leaderboard("member")
        assert [row.member for row in board] == names[::-1]
        assert all(abs(row.mu - skill[row.member]) < 2.0 for row in board)
        assert league.select("member", 1) == ["m0"]
        assert [row.member for row in rate(rows) if row.member != "base"] == names[::-1]
        taught = [o["outcome"] for o in rows if o["teacher"] == "m3"]
        solved = [o["outcome"] for o in rows if o["student"] == "m3"]
        best = board[0]
        assert best.matches == len(taught) + len(solved)
        assert best.mean_solve_rate == sum(o.solved for o in solved) / sum(
            o.attempts for o in solved
        )
        assert best.unsolved_rate == sum(o.unsolved for o in taught) / sum(o.valid for o in taught)
        league.replace("m0", "c0", ["m3", "m2"], "cross")
        assert league.members("member") == ["c0", "m1", "m2", "m3"]
        payoff = league.payoff()
        assert payoff.teachers == payoff.students
        assert all(payoff.tasks[i][i] == 0 for i in range(4))
        assert nash(payoff, fill=True).gap < 1e-6
        assert calibration(tmp_path / "l").rmse < 0.2
        state = league.state.to_dict()
    with League(tmp_path / "l") as league:
        assert league.warnings == ()
        assert league.state.to_dict() == state
        assert len(read_league(tmp_path / "l").members["name"]) == 6
        with pytest.raises(LeagueError, match="expected 'member'"):
            league.leaderboard("teacher")


def test_results_of_a_round_may_come_in_any_order(tmp_path):
    states = []
    for turn in (1, -1):
        with League(tmp_path / str(turn), members=["a", "b", "c", "d"]) as league:
            for number in range(3):
                for pair in league.pair(number)[::turn]:
                    league.record(pair, EASY if pair.teacher == "a" else HARD)
            states.append(league.state.to_dict())
    assert states[0] == states[1]


@pytest.mark.parametrize(
    "given",
    [{"members": ["a"]}, {"members": []}, {"members": ["a", "b"], "teachers": ["t"]}],
)
def test_bad_populations_are_refused(tmp_path, given):
    with pytest.raises(LeagueError, match="expected"):
        League(tmp_path / "l", **given)
