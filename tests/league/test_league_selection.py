"""Who has to go: named fitness, named selection, grace for newborns, and a fitness of one's own."""

import pytest

from league import Outcome
from worlds import new_league, play_rounds

HARD = Outcome(8, 8, 32, 2, 6)
EASY = Outcome(8, 8, 32, 30, 0)
IMPOSSIBLE = Outcome(8, 8, 32, 0, 8)


@pytest.mark.parametrize(("fitness", "place"), [("rating", 0), ("lower_bound", 0), ("reward", -1)])
def test_a_teacher_of_impossible_tasks_is_rated_first_and_rewarded_least(tmp_path, fitness, place):
    results = {"t0": IMPOSSIBLE, "t1": EASY}
    with new_league(tmp_path / "l", fitness=fitness, seed=1) as league:
        if fitness == "reward":
            assert league.select("teacher", 1) == []
        play_rounds(league, range(6), lambda pair: results.get(pair.teacher, HARD))
        board = league.leaderboard("teacher")
        assert board[place].member == "t0"
        shown = {"rating": "mu", "lower_bound": "conservative", "reward": "mean_reward"}[fitness]
        assert [row.fitness for row in board] == [getattr(row, shown) for row in board]


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
