"""Logs replayed under their own tau and others, and what a calibration makes of them."""

import json
import math

import pytest

from league import League, LeagueConfig, LeagueError, Outcome, Rating, calibrate, calibration
from league.analysis import TAUS, forecasts
from league.events import apply, result
from league.state import State
from league.store import EVENTS
from league_command import run
from simulated import play


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    path = tmp_path_factory.mktemp("steady") / "l"
    play(path, 40, 0.0, replace_at=20)
    return path


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    path = tmp_path_factory.mktemp("moving") / "l"
    play(path, 50, 0.7)
    return path


def test_forecasts_are_what_the_league_believed_and_move_with_the_settings(tmp_path):
    config = LeagueConfig()
    play(tmp_path / "l", 12, 0.1, config=config, replace_at=7)
    with League(tmp_path / "l") as league:
        for pair in league.pair(12):
            league.record(pair, Outcome(4, 4, 4, 2, 2))
        events = [event for _, event in league.events()]
    state, believed = State(config), []
    for event in events:
        if event["event"] == "match_recorded":
            pair, _ = result(state, event)
            believed.append([state.members[n].rating for n in (pair.teacher, pair.student)])
        apply(state, event)
    assert [list(f[1:3]) for f in forecasts(events, config)] == believed
    others = forecasts(events, LeagueConfig(tau=1.0))
    assert list(others[-1][1:3]) != believed[-1]
    assert others[0][1] == Rating(25.0, 25 / 3)


def test_calibration_equals_figures_computed_by_hand(tmp_path):
    with League(tmp_path, ["t"], ["s"]) as league:
        league.record(league.pair(0)[0], Outcome(8, 8, 8, 6, 2))
    found = calibration(tmp_path)
    assert found.log_loss == pytest.approx(math.log(2.0))
    assert found.rmse == pytest.approx(0.25)
    assert found.base_log_loss == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert found.coverage == 1.0


def test_ratings_predict_better_than_a_constant_and_intervals_cover(steady):
    before = (steady / EVENTS).read_bytes()
    found = calibration(steady)
    assert found.log_loss < found.base_log_loss
    assert found.rmse < 0.2
    assert 0.88 <= found.coverage <= 1.0
    assert sum(matches for _, _, matches in found.bins) == found.matches == 160
    assert all(abs(predicted - observed) < 0.08 for predicted, observed, _ in found.bins)
    assert (steady / EVENTS).read_bytes() == before


def test_calibrate_finds_that_members_move(moving):
    found = calibrate(moving)
    best, own = found.trials[found.best], found.trials[found.own]
    assert found.change
    assert best.tau >= TAUS[3]
    assert best.behind == 0.0 < own.behind
    assert own.coverage < best.coverage
    assert best.rmse < own.rmse


def test_calibrate_leaves_a_steady_league_alone(steady):
    found = calibrate(steady, taus=[0.0, 0.5, 3.0])
    assert not found.change
    assert [trial.tau for trial in found.trials] == [0.0, LeagueConfig().tau, 0.5, 3.0]
    assert found.trials[3].behind > 2 * found.trials[3].error > 0


def test_calibrate_on_the_command_line(moving, steady, tmp_path):
    shown = run("calibrate", moving, "--tau", "0.7").stdout
    assert "LeagueConfig(tau=0.7)" in shown
    assert "keep it" in run("calibrate", steady, "--tau", "0.1").stdout
    young = tmp_path / "young"
    play(young, 5, 3.0)
    assert "Only 20 rated matches" in run("calibrate", young).stdout
    data = json.loads(run("calibrate", young, "--tau", "0.2", "--tau", "0.3", "--json").stdout)
    assert [trial["tau"] for trial in data["trials"]] == [LeagueConfig().tau, 0.2, 0.3]


def test_what_cannot_be_calibrated_is_refused(tmp_path):
    with pytest.raises(LeagueError, match="no league in"):
        calibration(tmp_path)
    League(tmp_path / "new", ["t"], ["s"]).close()
    with pytest.raises(LeagueError, match="no rated match"):
        calibration(tmp_path / "new")
    play(tmp_path / "l", 2, 0.0)
    with pytest.raises(LeagueError, match="tau"):
        calibrate(tmp_path / "l", taus=[-1.0])
