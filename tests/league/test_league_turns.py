"""Whose turn it is: partial rounds, coverage rounds, and thousands of members at once."""

from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import League, LeagueConfig, LeagueError
from league.events.fold import apply
from league.pairing.matching import propose
from league.state.state import State

MATCHERS = ["sampled", "assignment", "thompson", "uniform"]


def founded(teachers: int, students: int, **settings: object) -> State:
    state = State(LeagueConfig(**settings))
    names = {
        "teachers": [f"t{i}" for i in range(teachers)],
        "students": [f"s{i}" for i in range(students)],
    }
    apply(state, {"event": "league_founded", **names})
    return state


def play(state: State, number: int, matches: int | None = None) -> list[tuple[str, str]]:
    pairs = propose(state, number, matches)
    event = {"event": "round_paired", "round": number, "pairs": [asdict(p) for p in pairs]}
    apply(state, event | ({} if matches is None else {"matches": matches}))
    return [(p.teacher, p.student) for p in pairs]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.data(),
    st.sampled_from(MATCHERS),
    st.integers(0, 2**40),
)
def test_nobody_waits_longer_than_its_turn(teachers, students, data, matcher, seed):
    matches = data.draw(st.integers(1, max(teachers, students)))
    state = founded(teachers, students, matcher=matcher, seed=seed)
    last = dict.fromkeys(state.members, -1)
    sizes = {"t": teachers, "s": students}
    for number in range(3 * max(sizes.values())):
        # Rounds may be larger than `matches`, and a slot may change hands.
        count = matches if number % 4 else min(matches + 1, max(sizes.values()))
        if number == 5 and teachers > 1:
            oldest = min(state.slots["teacher"], key=lambda name: last[name])
            event = {"event": "member_replaced", "member": oldest, "child": "c", "reason": ""}
            event |= {"parents": [oldest], "weights": [1.0], "operator": "copy"}
            apply(state, event)
            last["c"] = last.pop(oldest)
        pairs = play(state, number, count)
        assert len(pairs) == len(set(pairs)) == count
        for name in {name for pair in pairs for name in pair}:
            size = sizes["s" if name[0] == "s" else "t"]
            assert number - last[name] <= -(-size // matches)
            last[name] = number
    for name, round_number in last.items():
        size = sizes["s" if name[0] == "s" else "t"]
        assert number - round_number < -(-size // matches)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 3), st.integers(0, 2**40))
def test_coverage_rounds_hold_every_pair(teachers, students, every, seed):
    state = founded(teachers, students, coverage_every=every, seed=seed)
    met: Counter[tuple[str, str]] = Counter()
    for number in range(every * min(teachers, students) * 2):
        covering = (state.whole_rounds + 1) % every == 0
        pairs = play(state, number)
        for side, size in ((0, teachers), (1, students)):
            counts = Counter(pair[side] for pair in pairs)
            assert len(counts) == size
            assert max(counts.values()) - min(counts.values()) <= 1
        if covering:
            met.update(pairs)
    assert len(met) == teachers * students
    assert set(met.values()) == {2}


def test_partial_rounds_are_no_coverage_rounds():
    state = founded(4, 4, coverage_every=1)
    for number in range(3):
        play(state, number, 2)
    assert state.whole_rounds == 0
    met = [pair for number in range(3, 7) for pair in play(state, number)]
    assert len(set(met)) == 16


@pytest.mark.parametrize("matcher", MATCHERS)
def test_first_and_last_in_the_list_fare_alike(matcher):
    """The mean balance 4p(1-p) of a member's matches must not depend on its place."""
    differences = []
    for seed in range(64):
        state = founded(8, 8, matcher=matcher, seed=seed, explore=0.0)
        for side, shift in (("t", seed), ("s", seed // 8)):
            for i in range(8):
                member = state.members[f"{side}{i}"]
                rating = type(member.rating)(10.0 + 4.0 * ((i + shift) % 8), 2.0)
                object.__setattr__(member, "rating", rating)
        for number in range(8):
            balance = {
                p.teacher: 4 * p.predicted * (1 - p.predicted) for p in propose(state, number)
            }
            differences.append(balance["t0"] - balance["t7"])
    # Standard error below 0.024; choosing in the order of the list gives 0.27.
    assert abs(sum(differences) / len(differences)) < 0.1


def test_lots_decide_who_begins():
    new_run: Counter[str] = Counter()
    for seed in range(300):
        (pair,) = propose(founded(3, 3, seed=seed), 0, 1)
        new_run.update((pair.teacher, pair.student))
    # 100 expected for each of six members, standard deviation 8.
    assert min(new_run.values()) > 65
    assert len(new_run) == 6


def test_thompson_marries_equal_ranks_and_explores_in_doubt():
    state = founded(40, 40, matcher="thompson")
    for i in range(40):
        for side in "ts":
            member = state.members[f"{side}{i}"]
            object.__setattr__(member, "rating", type(member.rating)(float(i), 1e-6))
    assert all(p.teacher[1:] == p.student[1:] for p in propose(state, 0))
    doubtful = founded(40, 40, matcher="thompson")
    assert len({(p.teacher, p.student) for n in range(20) for p in propose(doubtful, n)}) > 400


def test_a_partial_round_is_logged_and_asked_for_again(tmp_path):
    names = [[f"{side}{i}" for i in range(4)] for side in "ts"]
    with League(tmp_path / "l", *names) as league:
        pairs = league.pair(0, matches=3)
        assert len(pairs) == 3
        assert league.pair(0) == league.pair(0, matches=3) == pairs
        before = league.byte_length
        with pytest.raises(LeagueError, match="3 matches, not 2"):
            league.pair(0, matches=2)
        for bad in (0, -1, 5, True, 2.0, "2"):
            with pytest.raises(LeagueError, match="from 1 to 4"):
                league.pair(1, matches=bad)
        assert league.byte_length == before
        state = league.state.to_dict()
    with League(tmp_path / "l") as league:
        assert league.state.to_dict() == state
        (waiting,) = set(names[0]) - {p.teacher for p in pairs}
        assert waiting in {p.teacher for p in league.pair(1, matches=1)}
