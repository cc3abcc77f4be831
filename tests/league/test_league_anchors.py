"""Frozen members: rated against, never rated."""

from collections import Counter

import pytest

from league import Outcome, Rating
from worlds import EASY, HARD, new_league

FIXED = Rating(30.0, 2.0)


def play(league, number, outcome=HARD, matches=None):
    pairs = league.pair(number, matches)
    league.record_many([(pair, outcome) for pair in pairs])
    return pairs


def test_an_anchor_is_rated_against_and_never_rated(tmp_path):
    with new_league(tmp_path / "l", 4, 4, anchor_share=0.5) as league:
        league.add_anchor("base", "teacher", rating=FIXED)
        met = 0
        for number in range(12):
            before = {m: league.rating(m) for m in league.members("student")}
            pairs = play(league, number, EASY)
            for pair in pairs:
                if pair.teacher == "base":
                    met += 1
                    assert league.rating(pair.student) != before[pair.student]
            assert league.rating("base") == FIXED
        assert met > 10
        assert "base" not in league.members("teacher")
        assert "base" not in {row.member for row in league.leaderboard("teacher")}
        assert league.select("teacher", 3).count("base") == 0


def test_anchors_pin_the_height_of_the_other_side(tmp_path):
    """Students solve a teacher fixed at 40 half of the time: they must be near 40 themselves."""
    even = Outcome(16, 16, 64, 32, 2)
    with new_league(tmp_path / "l", 4, 4, anchor_share=0.5) as league:
        league.add_anchor("far", "teacher", rating=Rating(40.0, 0.5))
        for number in range(60):
            play(league, number, even)
        heights = [league.rating(m).mu for m in league.members("student")]
        assert min(heights) > 35.0
    with new_league(tmp_path / "free", 4, 4) as league:
        for number in range(60):
            play(league, number, even)
        assert abs(league.rating("s0").mu - 25.0) < 3.0


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_anchors_take_their_share_of_matches(tmp_path, share):
    with new_league(tmp_path / "l", 4, 4, anchor_share=share, matcher="uniform") as league:
        league.add_anchor("a0", "teacher", rating=FIXED)
        league.add_anchor("a1", "student", rating=FIXED)
        league.add_anchor("a2", "student", rating=FIXED)
        frozen = {"a0", "a1", "a2"}
        met: Counter[str] = Counter()
        for number in range(200):
            pairs = league.pair(number)
            own = [p for p in pairs if not {p.teacher, p.student} & frozen]
            # Whoever plays an anchor plays its ordinary match as well.
            assert len({p.teacher for p in own}) == len({p.student for p in own}) == len(own) == 4
            assert all(len({p.teacher, p.student} & frozen) == 1 for p in pairs[len(own) :])
            met.update(n for p in pairs for n in (p.teacher, p.student) if n in frozen)
        # Binomial: standard deviation below 0.5 per round over 200 rounds.
        assert sum(met.values()) == pytest.approx(200 * 4 * share, abs=4 * 200**0.5 * 0.5)
        if share:
            assert abs(met["a1"] - met["a2"]) <= 1
            assert set(met) == frozen


def test_in_a_partial_round_anchors_count_among_the_matches(tmp_path):
    with new_league(tmp_path / "l", 4, 4, anchor_share=0.9) as league:
        league.add_anchor("a0", "teacher", rating=FIXED)
        for number in range(20):
            pairs = league.pair(number, matches=2)
            assert len(pairs) == 2
            assert sum(p.teacher == "a0" for p in pairs) == 1
        assert len(league.pair(20, matches=1)) == 1
