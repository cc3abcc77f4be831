"""History of a league as tables, rank intervals, the report and its charts."""

import json
import math
from dataclasses import replace

import pytest

from league import League, LeagueConfig, Outcome, rank_intervals, read_league
from league.pairing import stream
from league_command import run


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Six rounds of 3 + 3 with one replacement a side."""
    path = tmp_path_factory.mktemp("played") / "l"
    names = [[f"{role}{i}" for i in range(3)] for role in "ts"]
    with League(path, *names, LeagueConfig(seed=3)) as league:
        rng = stream("series", 0)
        for number in range(6):
            for pair in league.pair(number):
                solved = int(rng.binomial(64, 0.3 + 0.1 * int(pair.student[1])))
                league.record(pair, Outcome(8, 8, 64, solved, 0 if solved else 8))
            if number == 2:
                league.replace("t1", "t3", ["t0", "t2"], "cross", weights=[3, 1])
                league.replace("s0", "s3", ["s2"], "mutate")
    return path


def rows(table):
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def test_tables_are_what_happened(played):
    found = read_league(played)
    members = {row["name"]: row for row in rows(found.members)}
    assert list(members) == ["t0", "t1", "t2", "s0", "s1", "s2", "t3", "s3"]
    assert (members["t1"]["born"], members["t1"]["ended"]) == (0, 3)
    assert (members["t3"]["born"], members["t3"]["ended"]) == (3, None)
    assert (members["t3"]["parents"], members["t3"]["weights"]) == (["t0", "t2"], [0.75, 0.25])
    with League(played, read_only=True) as league:
        assert members["t3"]["offset"] == league.replacements()[0].offset
        outcomes = league.state.outcomes
        matches = rows(found.matches)
        assert [m["solved"] for m in matches] == [o.solved for o in outcomes.values()]
        for match, outcome in zip(matches, outcomes.values(), strict=True):
            assert match["won"] == pytest.approx(outcome.counted * outcome.student_score)
        assert matches[0]["predicted"] == pytest.approx(0.5)
        assert matches[0]["uncertainty"] == pytest.approx(math.sqrt(2) * 25 / 3)
        ratings = rows(found.ratings)
        assert {r["round"] for r in ratings} == set(range(7))
        last = {r["member"]: r["mu"] for r in ratings if r["round"] == 6}
        assert last == {
            n: league.rating(n).mu for r in ("teacher", "student") for n in league.members(r)
        }
        assert {r["mu"] for r in ratings if r["round"] == 0} == {25.0}


def test_rank_intervals_hold_the_rank_and_widen_with_doubt(tmp_path):
    with League(tmp_path / "l", ["a", "b", "c"], ["s"]) as league:
        board = league.leaderboard("teacher")
    beliefs = {"a": (40.0, 1.0), "b": (25.0, 6.0), "c": (24.0, 6.0)}
    board = [replace(r, mu=beliefs[r.member][0], sigma=beliefs[r.member][1]) for r in board]
    found = rank_intervals(board, seed=1)
    assert (found["a"].rank, found["a"].low, found["a"].high) == (1, 1, 1)
    assert (found["b"].low, found["b"].high) == (2, 3)
    assert found["a"].best > 0.98
    assert found == rank_intervals(board[::-1], seed=1)
    assert sum(row.best for row in found.values()) == pytest.approx(1.0)


def test_report_as_text_and_json(played):
    for word in ("t3", "calibration"):
        assert word in run("report", played).stdout
    data = json.loads(run("report", played, "--json").stdout)
    assert (data["matches"], data["replacements"]) == (18, 2)
    assert data["calibration"]["matches"] == 18
    assert data["payoff"]["teachers"] == ["t0", "t3", "t2"]
