"""Comparisons: intervals against simulated truth, planted effects found, and none where none is."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from selfplay.cli import main
from selfplay.errors import RunDirectoryError
from selfplay.experiment.design.plan_file import read_plan
from selfplay.experiment.evidence.children import recoveries, share_back_within
from selfplay.experiment.evidence.comparison import combine
from selfplay.experiment.evidence.dynamics import changes_of_lead, oscillation
from selfplay.experiment.evidence.findings import paper_findings
from selfplay.experiment.evidence.gains import (
    in_last_third,
    of_kind,
    population_mean,
    weakest_member,
)
from selfplay.experiment.evidence.quantities import Quantity, complexity_change, coverage_growth
from selfplay.experiment.evidence.statistics import Estimate, estimate, stretch
from selfplay.experiment.evidence.trials import Group, open_trials, read_trial
from selfplay.experiment.evidence.verdict import Finding
from selfplay.experiment.running.runner import open_home
from synthetic_run import Page, beside_the_library, charts_in
from synthetic_trial import write_experiment, write_trial

PLAN = {
    "name": "made-up",
    "question": "Is <b>it</b> so?",
    "findings": "paper",
    "set": {"steps": 60, "yardstick.eval_every": 10, "yardstick.tasks": 60},
    "seeds": [1, 2, 3, 4],
    "arms": {
        "azr": {"mode": "azr"},
        "1T+1S": {"teachers": 1, "students": 1},
        "2T+2S": {},
        "still": {"evolution.evolve_every": 0},
    },
    "controls": {"rate_0": {"learner.learning_rate": 0.0}},
}
BIRTHS = [(20, "s2", "s0")]
EFFECTS = {
    ("azr", None): {"gain": 0.02, "rise": -1.0},
    ("1T+1S", None): {"gain": 0.1, "rise": 1.0, "wave": 0.1, "turns": 3},
    ("2T+2S", None): {"gain": 0.3, "rise": 1.0, "wave": 0.1, "turns": 3, "births": BIRTHS},
    ("still", None): {"gain": 0.1},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An experiment of 32 made-up runs."""
    path = tmp_path_factory.mktemp("compare") / "home"
    plan = open_home(read_plan(PLAN, "made-up"), path)
    write_experiment(plan, path, EFFECTS)
    return path


def command(*arguments):
    result = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_mean_is_over_seeds_and_missing_tasks_are_left_out():
    found = estimate([np.array([0.0, 1.0, np.nan]), np.array([0.1]), np.array([np.nan])])
    assert (found.value, found.seeds) == (pytest.approx(0.3), 2)
    assert estimate([np.array([np.nan])]) is None
    assert estimate([]) is None
    assert estimate([np.array([2.0])]) == Estimate(2.0, None, None, 1)
    assert estimate([np.array([3.0])] * 4) == Estimate(3.0, 3.0, 3.0, 4)


def test_the_interval_of_a_share_ends_at_none_and_all():
    assert Estimate(0.9, 0.7, 1.1, 5).as_share() == Estimate(0.9, 0.7, 1.0, 5)
    assert Estimate(0.1, -0.2, None, 5).as_share() == Estimate(0.1, 0.0, None, 5)


def test_equal_numbers_give_equal_intervals():
    values = [np.arange(6.0) + seed for seed in range(4)]
    assert estimate(values) == estimate(values)


def test_one_seed_has_the_interval_of_its_tasks():
    values = np.random.default_rng(0).normal(1, 2, 100)
    found = estimate([values])
    error = values.std() / 10
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error + 0.02)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error + 0.02)


def test_few_seeds_widen_as_students_t_does():
    assert stretch(5) == pytest.approx(2.776 / 1.960 * (5 / 4) ** 0.5, rel=1e-3)
    assert stretch(2) > stretch(3) > stretch(100) > 1.0


@pytest.mark.parametrize(("between", "within", "tasks"), [(1.0, 0.0, 1), (0.3, 0.5, 20)])
def test_intervals_hold_the_truth_as_often_as_they_say(between, within, tasks):
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        seeds = [rng.normal(rng.normal(0, between), within, tasks) for _ in range(5)]
        found = estimate(seeds)
        hits += found.low <= 0.0 <= found.high
    assert 89 <= hits <= 100


def test_planted_gains_are_found_and_none_where_there_is_none(home):
    _, trials = open_trials([home])
    of = in_last_third(population_mean)
    arm, control = Group("2T+2S"), Group("2T+2S", "rate_0")
    grown = combine(trials, [(1.0, arm), (-1.0, control)], of)
    assert grown.low > 0.1
    still = combine(trials, [(1.0, control), (-1.0, Group("1T+1S", "rate_0"))], of)
    assert still.low < 0 < still.high
    assert combine(trials, [(1.0, arm)], of_kind("code_o", of)).low > 0
    assert combine(trials, [(1.0, arm)], of_kind("code_x", of)) is None


def test_findings_say_what_was_planted(home):
    plan, trials = open_trials([home])
    findings = paper_findings(plan, trials)
    assert len({f.question for f in findings}) == 6
    verdicts = {(f.compared, f.quantity.title): f.verdict for f in findings}
    net = "populations − single agent, each minus its control"
    assert verdicts["single agent − its control", "AST depth, change"] == "shown"
    assert verdicts[net, "lines, change"] == "shown"
    assert verdicts["populations − their controls", "oscillation of the solve rate"] == "shown"
    assert verdicts["populations − their controls", "changes of lead"] == "shown"
    assert verdicts[net, "added in the last third"] == "undecided"
    assert verdicts["2T+2S − azr", "held-out gain, population mean"] == "shown"
    assert verdicts["2T+2S − 1T+1S", "held-out gain, population mean"] == "shown"
    assert verdicts["2T+2S − still", "held-out gain, population mean"] == "shown"
    long = next(f for f in findings if f.quantity.title == "above level 4")
    assert (long.verdict, long.note) == ("undecided", "no held-out task is that long")


@pytest.mark.parametrize(
    ("predicted", "low", "high", "seeds", "verdict"),
    [
        (1, 0.1, 0.2, 5, "shown"),
        (-1, 0.1, 0.2, 5, "refuted"),
        (-1, -0.2, -0.1, 5, "shown"),
        (1, -0.1, 0.2, 5, "undecided"),
        (1, 0.1, 0.2, 2, "undecided"),
        (1, None, None, 1, "undecided"),
    ],
)
def test_a_verdict_follows_from_the_interval(predicted, low, high, seeds, verdict):
    quantity = Quantity("q", "", "", lambda trial: None)
    found = Estimate(0.0, low, high, seeds)
    assert Finding("?", "a − b", quantity, predicted, found).verdict == verdict


def test_measures_of_a_run_are_those_that_were_planted(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    planted = {"rise": 4.0, "turns": 3, "wave": 0.2, "gain": 0.3, "weakest": -0.3}
    trial = read_trial(write_trial(tmp_path / "run", config, **planted), Group("a"), 1)
    assert changes_of_lead(trial) == [100 * 3 / 60]
    assert complexity_change("loc")(trial) == pytest.approx(3.0, abs=0.05)
    assert coverage_growth(trial) == pytest.approx(1 / 3)
    assert 0.06 < oscillation(trial)[0] < 0.11
    assert np.mean(weakest_member(trial.measurements[-1])) < -0.1
    early = trial.until(25)
    assert [m.step for m in early.measurements] == [10, 20]
    assert early.run.last == 25
    assert not early.complete


def test_children_are_back_when_they_are_no_longer_behind(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    births = [(20, "s2", "s0"), (50, "s3", "s0")]
    run = write_trial(tmp_path / "run", config, births=births, child_behind=0.5)
    found = recoveries(read_trial(run, Group("a"), 1))
    assert [(r.child, r.born) for r in found] == [("s2", 20), ("s3", 50)]
    assert found[0].back_after == 20
    assert found[0].back_within(10) is False
    assert found[0].back_within(20) is True
    assert found[1].back_after is None
    assert found[1].back_within(20) is None
    trial = read_trial(run, Group("a"), 1)
    assert share_back_within(10)(trial) == [0.0]
    assert share_back_within(20)(trial) == [1.0]


def test_unfinished_arms_are_shown_and_marked(home, tmp_path):
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    shutil.rmtree(copy / "azr" / "seed-4")
    shutil.rmtree(copy / "azr" / "seed-3")
    config = read_plan(PLAN, "made-up").run_config("azr", None, 3)
    write_trial(copy / "azr" / "seed-3", config, until=30)
    text = command(copy)
    assert "azr (mode azr): 2 of 4 runs done; seed 3 at step 30 of 60" in text
    assert "2T+2S − azr*" in text
    assert "1T+1S*" not in text


def test_text_markdown_and_json_tell_the_same(home, tmp_path):
    text, markdown = command(home), command(home, "--markdown")
    assert "1. Do a single agent's tasks" in text
    assert "| compared | measure | predicted | found | verdict |" in markdown
    files = ("--html", tmp_path / "page.html", "--save", tmp_path / "charts")
    data = json.loads(command(home, "--json", *files))
    assert len(list((tmp_path / "charts").glob("*.svg"))) == 3
    assert len(list((tmp_path / "charts").glob("*.png"))) == 3
    assert {f["verdict"] for f in data["findings"]} <= {"shown", "refuted", "undecided"}
    assert len(data["runs"]) == 32
    page = (tmp_path / "page.html").read_text()
    parsed = Page(page)
    assert "Is <b>it</b> so?" in parsed.text
    assert sum("data-chart" in attrs for _, attrs in parsed.tags) == 3
    assert sorted(charts_in(page)) == ["controls", "population-mean", "weakest-member"]
    assert parsed.count("script") == 2
    assert "://" not in beside_the_library(page)


def test_runs_without_a_plan_are_grouped_by_their_settings(home):
    runs = [home / arm / f"seed-{seed}" for arm in ("azr", "2T+2S") for seed in (1, 2)]
    plan, trials = open_trials(runs)
    assert list(plan.arms) == ["mode azr", "mode populora"]
    assert [(t.group.arm, t.seed) for t in trials[:2]] == [("mode azr", 1), ("mode azr", 2)]
    assert "mode populora − mode azr" in command(*runs)


def test_what_cannot_be_compared_is_told(home, tmp_path):
    with pytest.raises(RunDirectoryError, match="whole experiment"):
        open_trials([home, home / "azr" / "seed-1"])
    open_home(read_plan(PLAN, "made-up"), tmp_path / "empty")
    with pytest.raises(RunDirectoryError, match="no run with a finished step"):
        open_trials([tmp_path / "empty"])
    with pytest.raises(RunDirectoryError, match="does not exist"):
        open_trials([tmp_path / "nothing"])
