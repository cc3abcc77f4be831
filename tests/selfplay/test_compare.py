"""Comparisons: planted effects found, none where none is, and which runs are arms and seeds."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from json_lines import read_rows, write_rows
from pages import Page

from selfplay.experiments.comparison import compare, of_arm, of_pair, to_json
from selfplay.experiments.experiment import open_home, open_plan
from selfplay.experiments.measures import measure
from selfplay.files.record import read_run
from selfplay.reports.findings import moves
from selfplay_command import command, refused, worked
from synthetic_run import charts_in, without_the_library, write_experiment, write_trial

PLAN = {
    "name": "made-up",
    "question": "Is <b>it</b> so?",
    "set": {"steps": 60, "eval.eval_every": 10, "eval.tasks": 60},
    "seeds": [1, 2, 3, 4],
    "arms": {
        "azr": {"mode": "azr"},
        "1T+1S": {"teachers": 1, "students": 1},
        "2T+2S": {},
        "still": {"evolution.evolve_every": 0},
    },
}
CHILD = (20, "s1", "s2", ["s0"])
EFFECTS = {
    "azr": {"gain": 0.02, "rise": -1.0},
    "1T+1S": {"gain": 0.1, "rise": 1.0, "wave": 0.1, "turns": 3},
    "2T+2S": {"gain": 0.3, "rise": 1.0, "wave": 0.1, "turns": 3, "births": [CHILD]},
    "still": {"gain": 0.1, "rise": 0.0},
}
GAIN = "gain, population mean, last third"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An experiment of 16 made-up runs."""
    path = tmp_path_factory.mktemp("compare") / "home"
    plan = path.with_name("made-up.yaml")
    plan.write_text(yaml.safe_dump(PLAN, sort_keys=False))
    write_experiment(open_home(open_plan(str(plan)), path), path, EFFECTS)
    return path


@pytest.fixture(scope="module")
def compared(home):
    return compare([home])


@pytest.fixture(scope="module")
def config(home):
    """Of a run of the arm 2T+2S."""
    return open_plan(str(home / "plan.yaml")).run_config("2T+2S", 1)


def test_planted_effects_are_found_and_none_where_there_is_none(compared):
    numbers = compared.numbers()
    arms, pairs = numbers["arms"], numbers["differences"]
    assert list(pairs) == ["1T+1S − azr", "2T+2S − azr", "still − azr"]
    assert arms["2T+2S"][GAIN].low > 0.1
    for column, name, side in (
        ("2T+2S − azr", GAIN, 1),
        ("2T+2S − azr", "programs: lines, change", 1),
        ("1T+1S − azr", "oscillation of the solve rate", 1),
        ("still − azr", "programs: structures added late", None),
    ):
        found = pairs[column][name]
        ends = None if found.low is None else (found.low > 0) - (found.high < 0)
        assert ends == side, (column, name, found)
    alike = of_pair(compared.arms["still"], compared.arms["1T+1S"])[GAIN]
    assert alike.low < 0 < alike.high
    assert arms["azr"]["programs: AST depth, change"].high < 0
    assert arms["azr"]["members that fell"].value == 0.0
    assert 0.0 <= arms["azr"]["own tasks: flat"].value <= 1.0


def test_differences_are_paired_by_seed_at_equal_steps(home, tmp_path, config):
    whole = {seed: read_run(home / "2T+2S" / f"seed-{seed}") for seed in (1, 2, 3)}
    short = {2: whole[2].until(30), 3: whole[3], 4: read_run(home / "2T+2S" / "seed-4")}
    for name, found in of_pair(whole, short).items():
        assert (found.value, found.seeds) == (0.0, 2), name
    assert of_pair({1: whole[1]}, {2: whole[2]}) == {}
    (gap,) = (of_pair(whole, whole | {1: whole[1].until(30)})[GAIN],)
    assert (gap.value, gap.low, gap.seeds) == (0.0, None, 3)


def test_unfinished_and_missing_runs_are_named(home, tmp_path):
    copy = shutil.copytree(home, tmp_path / "home")
    shutil.rmtree(copy / "azr" / "seed-4")
    shutil.rmtree(copy / "azr" / "seed-3")
    shutil.rmtree(copy / "still")
    run = open_plan(str(copy / "plan.yaml")).run_config("azr", 3)
    write_trial(copy / "azr" / "seed-3", run, until=30)
    text = worked("compare", copy)
    assert "\nazr (mode azr): seed 1 done, seed 2 done, seed 3 at step 30 of 60\n" in text
    assert "2T+2S − azr" in text
    assert "still" not in text
    assert compare([copy]).numbers()["differences"]["2T+2S − azr"][GAIN].seeds == 3


def test_runs_are_arms_by_name_or_by_folder_without_the_seed(home, tmp_path):
    def arms(*places):
        return {arm: list(runs) for arm, runs in compare(places).arms.items()}

    runs = [tmp_path / name for name in ("lr=1e-4", "x-seed1", "x-seed2", "other")]
    sources = ("azr/seed-1", "2T+2S/seed-1", "2T+2S/seed-2", "still/seed-1")
    for run, source in zip(runs, sources, strict=True):
        shutil.copytree(home / source, run)
    assert arms(*runs) == {"lr=1e-4": [1], "x": [1, 2], "other": [1]}
    named = (f"mine={runs[1]}", f"mine={runs[2]}", runs[0], f"a b={runs[3]}")
    assert arms(*named) == {"mine": [1, 2], "lr=1e-4": [1], "a b": [1]}
    assert arms(home / "azr" / "seed-1", home / "still" / "seed-1") == {"azr": [1], "still": [1]}
    shutil.copytree(home / "azr", tmp_path / "azr")
    alike = arms(home / "azr" / "seed-1", tmp_path / "azr" / "seed-2")
    assert all(arm.endswith("/azr") for arm in alike)
    assert len(alike) == 2


def test_runs_on_other_held_out_tasks_have_no_difference_of_gains(home, tmp_path, config):
    other = replace(config, eval=replace(config.eval, held_out=("nano_long",)))
    write_trial(tmp_path / "other", other, gain=0.3)
    compared = compare([f"a={home / '2T+2S' / 'seed-1'}", tmp_path / "other"])
    difference = compared.numbers()["differences"]["other − a"]
    assert "other and a differ in eval.held_out: no gains are compared" in compared.lines()
    assert not [name for name in difference if name.startswith(("gain", "largest", "members"))]
    assert "programs: lines, change" in difference
    assert GAIN in compared.numbers()["arms"]["other"]


def test_held_out_files_of_one_name_with_other_tasks_are_other_tasks(home, tmp_path, config):
    runs = [write_trial(tmp_path / name, config, gain=0.3) for name in ("a", "b", "older")]
    for run, first_digits in zip(runs, ("1b", "2c"), strict=False):
        write_rows(run / "resources.jsonl", [{"step": 1}, {"step": 2, "held_out": first_digits}])
    lines, older = compare(runs[:2]).lines(), compare([runs[0], runs[2]])
    assert "b and a differ in eval.held_out's tasks: no gains are compared" in lines
    assert GAIN in older.numbers()["differences"]["older − a"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=nope"], "there is no folder 'nope'; expected RUN or NAME=RUN"),
        (["{azr}"], "is not a run: it has no config.yaml"),
        (["x={azr}/seed-1", "x={still}/seed-1"], "are both called 'x' and differ in mode; runs"),
        (["{azr}/seed-1", "{azr}/seed-1"], "are both called 'azr' and both have seed 1; runs"),
        (["{home}", "{azr}/seed-1"], "is a whole experiment; compare it alone"),
    ],
)
def test_what_is_no_run_or_no_seed_of_its_name_is_one_line(home, words, said):
    places = {"home": home, "azr": home / "azr", "still": home / "still"}
    refused(command("compare", *(word.format(**places) for word in words)), said)


def test_members_that_fell_are_counted_and_named(tmp_path, config):
    run = write_trial(tmp_path / "one" / "two" / "mine", config, gain=0.3)
    rows = read_rows(run / "eval.jsonl")
    for row in rows:
        if (row["step"], row["member"]) == (40, "s1"):
            row["solving"]["solved"] = [0] * len(row["solving"]["solved"])
    (before,) = (r["solving"] for r in rows if (r["step"], r["member"]) == (30, "s1"))
    lost = np.mean(np.array(before["solved"]) / before["judged"])
    write_rows(run / "eval.jsonl", rows)
    fall = max(moves(read_run(run)), key=lambda move: move.mean)
    assert (fall.member, fall.before, fall.after) == ("s1", 30, 40)
    assert fall.mean == pytest.approx(lost)
    assert of_arm({1: read_run(run)})["largest fall of one member"].value == pytest.approx(lost)
    text = worked("compare", run)
    assert f"\nmine, seed 1: s1 fell by {100 * lost:.1f} ± " in text
    (line,) = (line for line in text.splitlines() if line.startswith("members that fell"))
    assert line.split()[-1] == "1.00"


def test_measures_of_a_run_are_those_that_were_planted(tmp_path, config):
    planted = {"rise": 4.0, "turns": 3, "wave": 0.2, "gain": 0.3, "weakest": -0.3}
    found = measure(read_run(write_trial(tmp_path / "one" / "two" / "run", config, **planted)))
    assert found["changes of lead"] == [100 * 3 / 60]
    assert found["programs: lines, change"] == pytest.approx(3.0, abs=0.05)
    assert found["programs: structures added late"] == pytest.approx(1 / 3)
    assert found["own tasks: flat"] == pytest.approx(0.4)
    assert found["own tasks: commonest structure"] == pytest.approx(sum(range(20)) / 20 / 60)
    assert 0.06 < found["oscillation of the solve rate"][0] < 0.11
    assert np.mean(found["gain, weakest member, at the end"]) < -0.1
    assert np.mean(found["gain, population mean, at the end"]) > -0.1
    assert found["gain over the warm start, at the end"] is None


def test_text_json_and_page_hold_the_same(home, compared, tmp_path):
    text = worked("compare", home, "--html", tmp_path / "page.html")
    data = json.loads(to_json(compared))
    assert len(data["runs"]) == 16
    gain = compared.numbers()["differences"]["2T+2S − azr"][GAIN]
    assert data["differences"]["2T+2S − azr"][GAIN]["low"] == gain.low
    cell = f"{100 * gain.value:.1f} [{100 * gain.low:.1f}, {100 * gain.high:.1f}]"
    page = (tmp_path / "page.html").read_text()
    for said in (text, Page(page).text):
        assert cell in said
        assert "Is <b>it</b> so?" in said
    assert list(charts_in(page)) == ["Population mean", "Weakest member"]
    assert "://" not in without_the_library(page)
