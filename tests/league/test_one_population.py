"""A league of one population: members play members of the same population, never themselves."""

import numpy as np
import pytest

from league import League, LeagueConfig, LeagueError, Outcome, calibration, rate, read_league


def test_a_league_of_one_population_from_beginning_to_end(tmp_path):
    """Known skills come back; replacement, files and reports work as with two."""
    config = LeagueConfig(seed=3)
    names = [f"m{i}" for i in range(4)]
    skill = {name: 20.5 + 3.0 * i for i, name in enumerate(names)}
    rng = np.random.default_rng(0)
    rows = []
    with League(tmp_path / "l", members=names, config=config) as league:
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
        assert [row.member for row in rate(rows)] == names[::-1]
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
        assert calibration(tmp_path / "l").rmse < 0.2
    with League(tmp_path / "l") as again:
        assert again.warnings == ()
        assert again.state == league.state
        assert len(read_league(tmp_path / "l").members["name"]) == 5
        with pytest.raises(LeagueError, match="expected 'member'"):
            again.leaderboard("teacher")
