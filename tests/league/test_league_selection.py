"""Who has to go: named fitness, named selection, grace for newborns, and a fitness of one's own."""

import numpy as np
import pytest

from league import Outcome
from worlds import new_league, play_rounds

HARD = Outcome(8, 8, 32, 2, 6)
EASY = Outcome(8, 8, 32, 30, 0)
IMPOSSIBLE = Outcome(8, 8, 32, 0, 8)


def test_blend_lies_between_rating_and_reward(tmp_path):
    orders, results = {}, {"t0": IMPOSSIBLE, "t1": EASY}
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        with new_league(
            tmp_path / str(share), fitness="blend", blend_reward=share, seed=1
        ) as league:
            assert league.select("teacher", 1) == []
            assert league.leaderboard("teacher")[0].fitness is None
            play_rounds(league, range(6), lambda pair: results.get(pair.teacher, HARD))
            board = league.leaderboard("teacher")
            orders[share] = [row.member for row in board]
            parts = [[row.mu for row in board], [row.mean_reward for row in board]]
            rating, reward = ((np.array(x) - np.mean(x)) / np.std(x) for x in parts)
            expected = (1 - share) * rating + share * reward
            assert [row.fitness for row in board] == pytest.approx(expected)
    # The teacher of impossible tasks is rated first and rewarded least.
    assert orders[0.0][0] == "t0"
    assert orders[1.0][-1] == "t0"


def test_blend_of_equals_is_zero(tmp_path):
    with new_league(tmp_path / "l", 1, 1, fitness="blend") as league:
        play_rounds(league, range(2), lambda _pair: HARD)
        assert league.leaderboard("student")[0].fitness == 0.0


def test_newborns_are_spared(tmp_path):
    with new_league(tmp_path / "l", grace_matches=2) as league:
        play_rounds(league, range(3), lambda _pair: HARD)
        league.replace("t0", "c0", ["t1"], "copy")
        scores = {"c0": -9.0, "t1": 1.0, "t2": 2.0}
        assert sorted(league.select("teacher", 2, fitness=scores)) == ["t1", "t2"]
        league.replace("t1", "c1", ["t2"], "copy")
        assert league.select("teacher", 2) == ["t2"]
        play_rounds(league, range(3, 5), lambda _pair: HARD)
        assert "c0" in league.select("teacher", 2, fitness={"c0": -9.0, "c1": 0.0, "t2": 2.0})
