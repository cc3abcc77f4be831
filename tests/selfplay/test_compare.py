"""Comparisons: intervals against simulated truth, planted effects found, and none where none is."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from json_lines import read_rows, write_rows
from pages import Page

from selfplay.errors import RunDirectoryError
from selfplay.experiments.arms import open_trials
from selfplay.experiments.comparison import Estimate, Finding, combine, estimate, find, stretch
from selfplay.experiments.experiment import Claim, open_home, read_plan
from selfplay.experiments.measures import (
    MEASURES,
    Group,
    changes_of_lead,
    coverage_growth,
    in_last_third,
    oscillation,
    population_mean,
    read_trial,
    weakest_member,
)
from selfplay.files.read import largest_fall, read_run
from selfplay_command import command, refused, worked
from synthetic_run import charts_in, without_the_library
from synthetic_trial import write_experiment, write_trial

POPULATIONS = ["1T+1S", "2T+2S"]


def claim(measures, plus, minus=(), **more):
    return {"question": "Is it?", "measures": measures, "plus": plus, "minus": list(minus), **more}


PLAN = {
    "name": "made-up",
    "question": "Is <b>it</b> so?",
    "findings": [
        claim(["AST depth, change"], ["azr"], predicted="below", net=True),
        claim(["lines, change", "oscillation"], POPULATIONS, ["azr"], net=True),
        claim(["oscillation", "changes of lead"], POPULATIONS, net=True),
        claim(["structures added late"], POPULATIONS, ["azr"], net=True),
        claim(["population mean, last third"], ["2T+2S"], ["1T+1S"]),
        claim(["population mean, last third"], ["2T+2S"], ["still"]),
        claim(["above level 4"], POPULATIONS, ["azr"]),
        claim(["steps done"], ["2T+2S"], threshold=50),
    ],
    "measures": "own_measures:MEASURES",
    "set": {"steps": 60, "eval.eval_every": 10, "eval.tasks": 60},
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


def test_the_mean_is_over_seeds_and_missing_tasks_are_left_out():
    found = estimate([np.array([0.0, 1.0, np.nan]), np.array([0.1]), np.array([np.nan])])
    assert (found.value, found.seeds) == (pytest.approx(0.3), 2)
    assert estimate([np.array([np.nan])]) is None
    assert estimate([]) is None
    assert estimate([np.array([2.0])]) == Estimate(2.0, None, None, 1)
    assert estimate([np.array([3.0])] * 4) == Estimate(3.0, None, None, 4)


def test_the_interval_of_a_share_ends_at_none_and_all():
    assert Estimate(0.9, 0.7, 1.1, 5).within(0.0, 1.0) == Estimate(0.9, 0.7, 1.0, 5)
    assert Estimate(0.1, -0.2, None, 5).within(0.0, 1.0) == Estimate(0.1, 0.0, None, 5)


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
    assert combine(trials, [(1.0, arm)], MEASURES["code_o"].of).low > 0
    assert combine(trials, [(1.0, arm)], MEASURES["above level 4"].of) is None


def test_unfinished_arms_are_shown_and_marked(home, tmp_path):
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    shutil.rmtree(copy / "azr" / "seed-4")
    shutil.rmtree(copy / "azr" / "seed-3")
    config = read_plan(PLAN, "made-up").run_config("azr", None, 3)
    write_trial(copy / "azr" / "seed-3", config, until=30)
    text = worked("compare", copy)
    assert "azr (mode azr, rollout.buffer_keeps oldest, " in text
    assert "): 2 of 4 runs done; seed 3 at step 30 of 60" in text
    assert "2T+2S − azr*" in text
    assert "1T+1S*" not in text


def test_runs_without_a_plan_are_grouped_by_their_settings(home):
    runs = [home / arm / f"seed-{seed}" for arm in ("azr", "2T+2S") for seed in (1, 2)]
    plan, trials = open_trials(runs)
    assert list(plan.arms) == ["azr", "2T+2S"]
    assert [(t.group.arm, t.seed) for t in trials[:2]] == [("azr", 1), ("azr", 2)]
    text = worked("compare", *runs)
    assert "\nazr (mode azr): 2 of 2 runs done\n2T+2S (mode populora): 2 of 2 runs done" in text
    assert "2T+2S − azr" in text


def test_finished_runs_of_other_seeds_are_counted_arm_by_arm(home):
    runs = [home / "azr" / "seed-1", home / "2T+2S" / "seed-2"]
    text = worked("compare", f"one={runs[0]}", runs[1])
    assert "\none (mode azr): 1 of 1 runs done\nseed-2 (mode populora): 1 of 1 runs done" in text
    assert "\nseed-2 and one have no seed in common: not compared\n" in text
    assert "*" not in text.partition("Mean over seeds")[0]
    names = [row["arm"] for row in json.loads(worked("compare", *runs, "--json"))["runs"]]
    assert names == ["seed-1", "seed-2"]


def test_what_sets_two_arms_of_one_mode_apart_is_named_where_another_has_another(home, tmp_path):
    config = read_plan(PLAN, "made-up").run_config("azr", None, 1)
    other = replace(config, learner=replace(config.learner, entropy_coef=0.2))
    write_trial(tmp_path / "more", other, until=30)
    runs = [f"a={home / 'azr' / 'seed-1'}", f"b={tmp_path / 'more'}", home / "2T+2S" / "seed-1"]
    plan, _ = open_trials(runs)
    named = [{"mode": mode, "learner.entropy_coef": of} for mode, of in
             (("azr", "0.001"), ("azr", "0.2"), ("populora", "0.0"))]  # fmt: skip
    assert [*plan.arms.values()] == named
    short = tmp_path / "short"
    write_trial(short, replace(config, steps=30), until=30)
    text = worked("compare", f"a={short}", runs[0].replace("a=", "b="))
    assert "\nb has 60 steps and a 30: compared up to step 30\n" in text


def test_runs_of_one_name_are_its_seeds_and_a_path_may_have_an_equals_sign(home, tmp_path):
    runs = [tmp_path / name for name in ("lr=1e-4", "x-seed1", "x-seed2", "other")]
    sources = ("azr/seed-1", "2T+2S/seed-1", "2T+2S/seed-2", "still/seed-1")
    for run, source in zip(runs, sources, strict=True):
        shutil.copytree(home / source, run)
    plan, trials = open_trials([f"mine={runs[1]}", f"mine={runs[2]}", runs[0], f"a b={runs[3]}"])
    assert list(plan.arms) == ["mine", "lr=1e-4", "a b"]
    assert [t.seed for t in trials] == [1, 2, 1, 1]
    assert [plan.seeds_of(arm, None) for arm in plan.arms] == [(1, 2), (1,), (1,)]
    assert plan.arms["a b"]["evolution.evolve_every"] == "0"
    plan, _ = open_trials(runs)
    assert list(plan.arms) == ["lr=1e-4", "x", "other"]
    plan, _ = open_trials([f"={runs[0]}"[1:], f"n={runs[0]}"])
    assert list(plan.arms) == ["lr=1e-4", "n"]


def test_runs_that_are_alike_are_arms_of_their_own_where_no_name_joins_them(home, tmp_path):
    sources = {"first": "2T+2S/seed-1", "second": "2T+2S/seed-1", "third": "2T+2S/seed-2"}
    runs = [shutil.copytree(home / source, tmp_path / name) for name, source in sources.items()]
    plan, trials = open_trials(runs)
    assert [(t.group.arm, t.seed) for t in trials] == [("first", 1), ("second", 1), ("third", 2)]
    assert plan.contrasts == (("second", "first"), ("third", "first"))
    plan, _ = open_trials([f"joined={runs[0]}", f"joined={runs[2]}"])
    assert list(plan.arms) == ["joined"]


def test_folders_of_one_name_are_told_apart_by_those_above(home):
    plan, _ = open_trials([home / "azr" / "seed-1", home / "still" / "seed-1"])
    assert list(plan.arms) == ["azr/seed-1", "still/seed-1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "there is no folder 'nope'; expected RUN or NAME=RUN"),
        (["a=nope"], "there is no folder 'nope' for the name 'a'"),
        (["a="], "there is no folder 'a='"),
        (["={azr}/seed-1"], "there is no folder '={azr}/seed-1'"),
        (["lr=1e-4/run"], "there is no folder '1e-4/run' for the name 'lr'"),
        (["{azr}"], "is not a run: it has no config.yaml"),
        (["x={azr}/seed-1", "x={still}/seed-1"], "are both called 'x' and differ in mode (azr and"),
        (["{azr}/seed-1", "{azr}/seed-1"], "{azr}/seed-1 is named twice; name each run once"),
        (["x={azr}/seed-1", "x={copy}"], "have the same settings and seed 1; give them two names"),
        (["x={home}"], "is a whole experiment; compare it alone"),
    ],
)
def test_what_is_no_run_or_no_seed_of_its_name_is_one_line(home, tmp_path, words, said):
    copy = shutil.copytree(home / "azr" / "seed-1", tmp_path / "copy")
    places = {"home": home, "azr": home / "azr", "still": home / "still", "copy": copy}
    done = command("compare", *(word.format(**places) for word in words))
    refused(done, said.format(**places))


def test_the_largest_fall_of_one_member_is_named(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    run = write_trial(tmp_path / "one" / "two" / "mine", config, gain=0.3)
    rows = read_rows(run / "eval.jsonl")
    for row in rows:
        if (row["step"], row["member"]) == (40, "s1"):
            row["solving"]["solved"] = [0] * len(row["solving"]["solved"])
    (before,) = (r["solving"] for r in rows if (r["step"], r["member"]) == (30, "s1"))
    lost = np.mean(np.array(before["solved"]) / before["judged"])
    write_rows(run / "eval.jsonl", rows)
    fall = largest_fall(read_run(run))
    assert (fall.member, fall.before, fall.after) == ("s1", 30, 40)
    assert fall.mean == pytest.approx(lost)
    text = worked("compare", run)
    assert f"mine  1     s1      {100 * lost:.1f}           30 to 40" in text
    (line,) = (line for line in text.splitlines() if line.startswith("largest fall of one member"))
    assert f"{100 * lost:.1f} [" in line
    data = json.loads(worked("compare", run, "--json", "--html", tmp_path / "page.html"))
    assert data["runs"][0]["largest_fall"] == {
        "member": "s1", "fall": pytest.approx(lost), "from": 30, "to": 40,
    }  # fmt: skip
    assert (
        "The member of each run that fell most" in Page((tmp_path / "page.html").read_text()).text
    )


def test_where_no_member_fell_none_is_named(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    run = write_trial(tmp_path / "one" / "two" / "mine", config, gain=0.3)
    rows = read_rows(run / "eval.jsonl")
    for solving, step in ((row["solving"], row["step"]) for row in rows if "solving" in row):
        solving["solved"] = [int(step > 20)] * len(solving["solved"])
        solving["judged"] = [1] * len(solving["solved"])
    write_rows(run / "eval.jsonl", rows)
    assert largest_fall(read_run(run)).mean <= 0
    assert "fall (points)" not in worked("compare", run)


def test_a_founder_may_fall_below_the_start_and_a_child_has_no_fall_at_birth(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    births = [(20, "s2", "s0")]
    run = write_trial(
        tmp_path / "one" / "two" / "run", config, gain=0.6, weakest=-2.0, births=births,
        child_behind=2.0, until=20,
    )  # fmt: skip
    fall = largest_fall(read_run(run))
    assert (fall.member, fall.before, fall.after) == ("s1", 0, 10)


def test_what_cannot_be_compared_is_refused(home, tmp_path):
    with pytest.raises(RunDirectoryError, match="whole experiment"):
        open_trials([home, home / "azr" / "seed-1"])
    open_home(read_plan(PLAN, "made-up"), tmp_path / "empty")
    with pytest.raises(RunDirectoryError, match="no run with a finished step"):
        open_trials([tmp_path / "empty"])
    with pytest.raises(RunDirectoryError, match="there is no folder"):
        open_trials([tmp_path / "nothing"])


def test_findings_say_what_was_planted(home):
    plan, trials = open_trials([home])
    verdicts = {(f.compared, f.measure.name): f.verdict for f in find(plan, trials)}
    mean = "mean of 1T+1S, 2T+2S"
    assert verdicts == {
        ("azr, each minus rate_0", "AST depth, change"): "shown",
        (f"{mean} − azr, each minus rate_0", "lines, change"): "shown",
        (f"{mean} − azr, each minus rate_0", "oscillation"): "shown",
        (f"{mean}, each minus rate_0", "oscillation"): "shown",
        (f"{mean}, each minus rate_0", "changes of lead"): "undecided",
        (f"{mean} − azr, each minus rate_0", "structures added late"): "undecided",
        ("2T+2S − 1T+1S", "population mean, last third"): "shown",
        ("2T+2S − still", "population mean, last third"): "shown",
        (f"{mean} − azr", "above level 4"): "undecided",
        ("2T+2S", "steps done"): "undecided",
    }


@pytest.mark.parametrize(
    ("predicted", "low", "high", "seeds", "verdict"),
    [
        ("above", 0.1, 0.2, 5, "shown"),
        ("below", 0.1, 0.2, 5, "refuted"),
        ("below", -0.2, -0.1, 5, "shown"),
        ("above", -0.1, 0.2, 5, "undecided"),
        ("above", 0.1, 0.2, 2, "undecided"),
        ("above", None, None, 1, "undecided"),
    ],
)
def test_a_verdict_follows_from_the_interval(predicted, low, high, seeds, verdict):
    made = Claim("?", (), ("a",), predicted=predicted)
    found = Finding(made, "a", MEASURES["seconds"], Estimate(0.0, low, high, seeds))
    assert found.verdict == verdict


def test_measures_of_a_run_are_those_that_were_planted(tmp_path):
    config = read_plan(PLAN, "made-up").run_config("2T+2S", None, 1)
    planted = {"rise": 4.0, "turns": 3, "wave": 0.2, "gain": 0.3, "weakest": -0.3}
    trial = read_trial(
        write_trial(tmp_path / "one" / "two" / "run", config, **planted), Group("a"), 1
    )
    assert changes_of_lead(trial) == [100 * 3 / 60]
    assert MEASURES["lines, change"].of(trial) == pytest.approx(3.0, abs=0.05)
    assert coverage_growth(trial) == pytest.approx(1 / 3)
    assert MEASURES["flat tasks"].of(trial) == pytest.approx(0.4)
    assert MEASURES["commonest structure"].of(trial) == pytest.approx(sum(range(20)) / 20 / 60)
    assert 0.06 < oscillation(trial)[0] < 0.11
    assert np.mean(weakest_member(trial.gains[60])) < -0.1
    early = trial.until(25)
    assert list(early.gains) == [10, 20]
    assert early.run.last == 25
    assert not early.complete


def test_text_json_and_page_hold_the_same(home, tmp_path):
    text = worked("compare", home)
    assert "Is it?\ncompared" in text
    assert "2T+2S − azr" in text
    data = json.loads(worked("compare", home, "--json", "--html", tmp_path / "page.html"))
    assert {f["verdict"] for f in data["findings"]} == {"shown", "undecided"}
    assert len(data["runs"]) == 32
    added = data["tables"]["Measures of own_measures:MEASURES: arms"]
    assert set(added) == {"steps done", "easy tasks"}
    assert added["steps done"]["azr"]["value"] == 60.0
    assert added["easy tasks"]["2T+2S"]["low"] > 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("steps done (steps) 60.0 60.0") for line in lines)
    page = (tmp_path / "page.html").read_text()
    parsed = Page(page)
    assert "Is <b>it</b> so?" in parsed.text
    assert "easy tasks: Gain at the end on tasks of level 1." in parsed.text
    titles = ["Population mean", "Weakest member", "Controls, population mean"]
    assert list(charts_in(page)) == titles
    assert [page.count(f'data-chart="{title}"') for title in titles] == [1, 1, 1]
    assert parsed.count("script") == 3
    assert "://" not in without_the_library(page)


def test_a_measure_of_ones_own_that_fails_is_one_line(tmp_path):
    plan = read_plan(PLAN | {"measures": "own_measures:FAILING", "findings": []}, "made-up")
    home = tmp_path / "home"
    write_trial(home / "azr" / "seed-1", open_home(plan, home).run_config("azr", None, 1))
    done = command("compare", home)
    refused(done, f"measure 'share' of {home}/azr/seed-1: ZeroDivisionError: division by zero; ")
