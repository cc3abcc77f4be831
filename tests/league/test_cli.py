"""The `league` command, as a user types it."""

import json
from unittest.mock import Mock

import pytest
from closed_streams import same_without_streams

from league import League, Outcome
from league.store import sealed
from league_command import run


@pytest.fixture
def directory(tmp_path):
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]) as league:
        for pair in league.pair(0):
            league.record(pair, Outcome(8, 6, 24, 6, 2))
        league.replace("t1", "t2", ["t0"], "mutate")
    return str(tmp_path / "l")


def test_board(directory):
    shown = run("board", directory).stdout
    assert "ranks" in shown.splitlines()[0].split()
    assert "t2" in shown
    assert "t1" not in shown.splitlines()[1]
    rows = json.loads(run("board", directory, "--json").stdout)["student"]
    assert {row["member"] for row in rows} == {"s0", "s1"}
    assert rows[0]["mean_solve_rate"] == 0.25
    assert rows[0]["ranks"]["low"] == 1


def test_matrix(directory):
    lines = run("matrix", directory).stdout.splitlines()
    assert lines[0].split() == ["teacher", "s0", "s1"]
    data = json.loads(run("matrix", directory, "--json").stdout)
    assert data["teachers"] == ["t0", "t2"]
    assert all(len(data[what]) == 2 for what in ("observed", "share", "expected", "tasks"))


def test_replay_and_a_rating_that_does_not_follow(directory, tmp_path):
    assert json.loads(run("replay", directory, "--json").stdout)["equal"] is True
    with League(directory) as league:
        events = [event for _, event in league.events()]
    events[2]["ratings"]["t0"][0] += 1.0
    before = ""
    with (tmp_path / "l" / "events.jsonl").open("wb") as log:  # hashes and all
        for event in events:
            del event["hash"]
            log.write(line := sealed(event, before))
            before = json.loads(line)["hash"]
    run("board", directory)
    assert "line 3: t0 has the rating [" in run("replay", directory, code=1).stderr


def test_a_path_that_is_no_league_is_told_from_one(directory, tmp_path):
    for wrong in ("board", "dance"):
        run(wrong, code=2)
    League(tmp_path / "run" / "league", ["t"], ["s"]).close()
    (tmp_path / "file").touch()
    for name, words in {
        "nope": f"there is no folder {tmp_path}/nope; expected the folder of a league",
        "file": f"{tmp_path}/file is no league: it is a file",
        ".": f"{tmp_path} is no league: it holds no league.json",
        "run": f"{tmp_path}/run is a run, not a league; did you mean {tmp_path}/run/league?",
        "run/leage": "; did you mean league?",
    }.items():
        for command in ("board", "matrix", "report", "replay", "calibrate"):
            said = run(command, tmp_path / name, code=2).stderr
            assert said.startswith("error: ")
            assert words in said
            assert "give teachers" not in said


def test_an_interrupt_is_one_line(directory, monkeypatch):
    monkeypatch.setattr("league.analysis.replay", Mock(side_effect=KeyboardInterrupt))
    assert run("replay", directory, code=130).stderr == "error: interrupted\n"


def test_closed_streams_change_no_exit_code(directory, tmp_path):
    same_without_streams("league", "board", directory)
    same_without_streams("league", "board", tmp_path / "none", code=2)
