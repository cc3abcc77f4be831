"""Logs played again under other settings, and what a calibration makes of them."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from league import League, LeagueConfig, LeagueError, Outcome
from league.cli import main
from league.events.fold import apply, results
from league.history.agreement import noise_per_task, task_agreement
from league.history.rescore import Log, forecasts, rescore
from league.history.tuning import TAUS, calibrate
from league.rating.normal import cdf
from league.rating.rating import Rating
from league.state.config import SCHEMES
from league.state.state import State

SCALE = math.sqrt(2.0) * 25 / 6


def play(directory, rounds, drift, seed=0, config=None, replace_at=None):
    """Four against four with moving skills; half of a performance belongs to the task."""
    rng = np.random.default_rng(seed)
    names = [f"{role}{i}" for role in "ts" for i in range(4)]
    skill = {name: 4 * rng.standard_normal() for name in names}
    with League(directory, names[:4], names[4:], config or LeagueConfig(seed=seed)) as league:
        for number in range(rounds):
            for pair in league.pair(number):
                gap = skill.get(pair.student, 0.0) - skill.get(pair.teacher, 0.0)
                shifts = SCALE * math.sqrt(0.5) * rng.standard_normal(16)
                chances = [cdf((gap - x) / (SCALE * math.sqrt(0.5))) for x in shifts]
                solved = rng.binomial(8, chances)
                unsolved = int((solved == 0).sum())
                league.record(pair, Outcome(16, 16, 128, int(solved.sum()), unsolved))
            if number == replace_at:
                league.replace("t3", "t4", ["t0"], "mutate")
                skill["t4"] = skill["t0"]
            for name in skill:
                skill[name] += drift * rng.standard_normal()


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    path = tmp_path_factory.mktemp("steady") / "l"
    play(path, 40, 0.0, replace_at=20)
    return path


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    path = tmp_path_factory.mktemp("moving") / "l"
    play(path, 50, 0.7, seed=2)
    return path


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_under_its_own_settings_the_forecasts_are_what_the_league_believed(steady):
    log = Log.read(steady)
    found = list(forecasts(log.events, log.config))
    assert len(found) == 160
    assert found[0].teacher == found[0].student == Rating(25.0, 25 / 3)
    with League(steady, read_only=True) as league:
        for last in {f.teacher: f for f in found}.values():
            assert last.pair in league.state.outcomes


def test_anchors_play_again_with_the_ratings_of_the_settings_under_test(tmp_path):
    config = LeagueConfig(anchor_share=0.5, hall_every=3, hall_at_replacement=True)
    play(tmp_path / "l", 12, 0.1, config=config, replace_at=7)
    with League(tmp_path / "l") as league:
        league.add_anchor("base", "student", Rating(31.0, 2.0), of="s0")
        for pair in league.pair(12):
            league.record(pair, Outcome(4, 4, 4, 2, 2))
    log = Log.read(tmp_path / "l")
    state = State(log.config)
    believed = {}
    for event in log.events:
        for pair_id, _ in results(event):
            pair = state.pairs[pair_id]
            believed[pair_id] = [state.members[n].rating for n in (pair.teacher, pair.student)]
        apply(state, event)
    assert sum(member.anchor for member in state.members.values()) > 4
    found = list(forecasts(log.events, log.config))
    assert {f.pair: [f.teacher, f.student] for f in found} == believed
    hall = [f for f in forecasts(log.events, LeagueConfig(tau=1.0)) if "hall-student" in f.pair]
    assert hall
    assert all(f.student != believed[f.pair][1] for f in hall)


def test_a_forecast_never_knows_its_own_result(tmp_path):
    for name, solved in (("a", 0), ("b", 8)):
        with League(tmp_path / name, ["t"], ["s"]) as league:
            league.record(league.pair(0)[0], Outcome(8, 8, 8, 4, 4))
            league.record(league.pair(1)[0], Outcome(8, 8, 8, solved, 8 - solved))
    found = [
        list(forecasts(log.events, log.config))
        for log in map(Log.read, (tmp_path / "a", tmp_path / "b"))
    ]
    assert [(f.teacher, f.student) for f in found[0]] == [(f.teacher, f.student) for f in found[1]]


def test_scores_by_hand(tmp_path):
    with League(tmp_path, ["t"], ["s"]) as league:
        league.record(league.pair(0)[0], Outcome(8, 8, 8, 6, 2))
    scored = rescore(tmp_path)
    assert scored.log_loss == pytest.approx(math.log(2.0))
    assert scored.rmse == pytest.approx(0.25)
    assert scored.noise == pytest.approx(math.sqrt(0.25 / 8))
    assert scored.base_log_loss == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert scored.coverage == 1.0


def test_every_scheme_beats_the_best_constant_and_batch_covers(steady):
    before = (steady / "events.jsonl").read_bytes()
    for scheme in SCHEMES:
        scored = rescore(steady, scheme)
        assert scored.log_loss < scored.base_log_loss
        assert scored.excess < scored.rmse
        assert (scored.coverage is None) == (scheme == "elo")
        assert sum(part.matches for part in scored.bins) == scored.matches == 160
    assert 0.88 <= rescore(steady).coverage <= 1.0
    assert (steady / "events.jsonl").read_bytes() == before


def test_overrides_are_checked(steady, tmp_path):
    with pytest.raises(LeagueError, match="did you mean tau"):
        rescore(steady, taus=3.0)
    with pytest.raises(LeagueError, match="expected one of"):
        rescore(steady, "glicko")
    with pytest.raises(LeagueError, match="no league in"):
        rescore(tmp_path)
    with League(tmp_path / "l", ["t"], ["s"]):
        pass
    with pytest.raises(LeagueError, match="no rated match"):
        rescore(tmp_path / "l")


def test_calibration_finds_that_members_move(moving):
    found = calibrate(moving)
    best, own = found.trials[found.best], found.trials[found.own]
    assert found.enough
    assert found.change
    assert best.rescored.tau >= TAUS[3]
    assert best.behind == 0.0 < own.behind
    assert own.rescored.coverage < best.rescored.coverage
    assert best.rescored.rmse < own.rescored.rmse


def test_calibration_leaves_a_steady_league_alone(steady):
    found = calibrate(steady, taus=[0.0, 0.5, 3.0])
    assert found.enough
    assert not found.change
    assert [t.rescored.tau for t in found.trials] == [0.0, LeagueConfig().tau, 0.5, 3.0]
    assert found.trials[3].behind > 2 * found.trials[3].error > 0


def test_too_little_data_settles_nothing(tmp_path):
    play(tmp_path / "l", 5, 3.0)
    found = calibrate(tmp_path / "l")
    assert not found.enough
    assert not found.change
    assert "Only 20 rated matches" in run("calibrate", tmp_path / "l").stdout


@pytest.mark.parametrize("truth", [0.0, 0.3, 0.8])
def test_agreement_of_rollouts_is_found_in_counts(truth):
    rng = np.random.default_rng(1)
    outcomes = []
    for rate in rng.uniform(0.15, 0.85, 120):
        chances = np.full(32, rate)
        if truth:
            share = (1 - truth) / truth
            chances = rng.beta(rate * share, (1 - rate) * share, 32)
        solved = rng.binomial(8, chances)
        outcomes.append(Outcome(32, 32, 256, int(solved.sum()), int((solved == 0).sum())))
    assert task_agreement(outcomes) == pytest.approx(truth, abs=0.06)


def test_agreement_needs_rollouts_that_could_differ():
    assert task_agreement([Outcome(4, 4, 4, 2, 2), Outcome(4, 0, 0, 0, 0)]) is None
    assert noise_per_task(0.0, 8) == pytest.approx(1 / 8)
    assert noise_per_task(1.0, 8) == 1.0


def test_replay_under_schemes_on_the_command_line(steady):
    shown = run("replay", steady, "--scheme", "elo", "--scheme", "batch")
    assert shown.exit_code == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:3]] == ["elo", "batch"]
    data = json.loads(run("replay", steady, "--scheme", "batch", "--tau", "0.5", "--json").stdout)
    assert data[0]["tau"] == 0.5
    assert data[0]["log_loss"] == rescore(steady, tau=0.5).log_loss
    assert json.loads(run("replay", steady, "--json").stdout)["equal"] is True


def test_calibrate_on_the_command_line(moving, steady):
    shown = run("calibrate", moving, "--tau", "0.7").stdout
    assert "LeagueConfig(tau=0.7)" in shown
    assert "best" in shown
    data = json.loads(
        run("calibrate", steady, "--tau", "0.2", "--evidence", "1,2", "--json").stdout
    )
    assert [(t["rescored"]["tau"], t["rescored"]["evidence"]) for t in data["trials"]] == [
        (LeagueConfig().tau, 1.0),
        (0.2, 1.0),
        (0.2, 2.0),
    ]
    assert [t["rescored"]["max_weight"] for t in data["trials"]] == [64.0, 64.0, 128.0]
    assert "told apart" in run("calibrate", steady, "--tau", "0.1").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "DIR", "--tau", "1"),
        ("replay", "DIR", "--scheme", "batch", "--tau", "-1"),
        ("calibrate", "DIR", "--tau", "soon"),
        ("calibrate", "DIR", "--evidence", "nan"),
        ("calibrate", "nowhere"),
    ],
)
def test_wrong_usage_is_one_line(arguments, steady):
    result = run(*(steady if a == "DIR" else a for a in arguments))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_log_that_does_not_fit_together_is_a_finding(tmp_path):
    play(tmp_path / "l", 2, 0.0)
    path = tmp_path / "l" / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"pair":"0/', b'"pair":"9/'))
    with pytest.raises(LeagueError, match="does not replay"):
        rescore(tmp_path / "l")
    assert run("calibrate", tmp_path / "l").exit_code == 1
