"""Who has to go: named fitness, named selection, grace for newborns, and a fitness of one's own."""

import numpy as np
import pytest

from league import League, LeagueConfig, Outcome

HARD = Outcome(8, 8, 32, 2, 6)
EASY = Outcome(8, 8, 32, 30, 0)
IMPOSSIBLE = Outcome(8, 8, 32, 0, 8)


def make(path, size=3, **settings):
    names = [[f"{side}{i}" for i in range(size)] for side in "ts"]
    return League(path, *names, config=LeagueConfig(**settings))


def play(league, rounds, results):
    for number in rounds:
        for pair in league.pair(number):
            league.record(pair, results.get(pair.teacher, HARD))


def test_blend_lies_between_rating_and_reward(tmp_path):
    orders = {}
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        with make(tmp_path / str(share), fitness="blend", blend_reward=share, seed=1) as league:
            assert league.select("teacher", 1) == []
            assert league.leaderboard("teacher")[0].fitness is None
            play(league, range(6), {"t0": IMPOSSIBLE, "t1": EASY})
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
    with make(tmp_path / "l", 1, fitness="blend") as league:
        play(league, range(2), {})
        assert league.leaderboard("student")[0].fitness == 0.0


def test_a_tournament_takes_the_weak_more_often_and_never_the_best(tmp_path):
    gone = {f"t{i}": 0 for i in range(6)}
    for seed in range(40):
        with make(
            tmp_path / str(seed), 6, selection="tournament", tournament_size=2, seed=seed
        ) as league:
            scores = {f"t{i}": float(i) for i in range(6)}
            chosen = league.select("teacher", 3, fitness=scores)
            assert chosen == league.select("teacher", 3, fitness=scores)
            assert len(set(chosen)) == 3
            assert "t5" not in chosen
            for name in chosen:
                gone[name] += 1
    assert gone["t0"] > 25 > gone["t4"] > 0


def test_a_tournament_of_all_is_worst_k_and_draws_anew_after_a_replacement(tmp_path):
    scores = {f"t{i}": float((i * 5) % 6) for i in range(6)}
    with make(tmp_path / "l", 6, selection="tournament", tournament_size=99) as league:
        assert league.select("teacher", 5, fitness=scores) == ["t0", "t5", "t4", "t3", "t2"]
    slots = set()
    with make(tmp_path / "m", 6, selection="tournament", tournament_size=1) as league:
        for number in range(8):
            scores = dict.fromkeys(league.members("student"), 0.0)
            slots.add(league.members("student").index(league.select("student", 1, scores)[0]))
            league.replace(league.members("teacher")[0], f"c{number}", ["t1"], "copy")
    assert len(slots) > 2


@pytest.mark.parametrize("selection", ["worst_k", "tournament"])
def test_newborns_are_spared_by_every_selection(tmp_path, selection):
    with make(tmp_path / "l", selection=selection, grace_matches=2) as league:
        play(league, range(3), {})
        league.replace("t0", "c0", ["t1"], "copy")
        scores = {"c0": -9.0, "t1": 1.0, "t2": 2.0}
        assert sorted(league.select("teacher", 2, fitness=scores)) == ["t1", "t2"]
        league.replace("t1", "c1", ["t2"], "copy")
        assert league.select("teacher", 2) == ["t2"]
        play(league, range(3, 5), {})
        assert "c0" in league.select("teacher", 2, fitness={"c0": -9.0, "c1": 0.0, "t2": 2.0})
