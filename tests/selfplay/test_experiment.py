"""Experiments: plans read strictly, and the same runs whatever stopped them on the way."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from selfplay.errors import ConfigError, RunDirectoryError
from selfplay.experiments import experiment
from selfplay.experiments.experiment import (
    open_home,
    open_plan,
    plan_names,
    planned_runs,
    prepare,
    read_plan,
    resolved,
)
from selfplay.files.layout import create
from selfplay.training import train
from selfplay_command import command, worked

PLANS = Path(experiment.__file__).parents[1] / "plans"
SMALL = {
    "name": "small",
    "seeds": [1, 2],
    "arms": {"one": {"teachers": 1, "students": 1}, "two two": {}},
    "controls": {"still": {"learner.learning_rate": 0.0}},
    "control_seeds": [2],
}
CLAIM = {"question": "?", "measures": ["seconds"], "plus": ["one"]}


def small(**changes):
    return read_plan(SMALL | changes, "plan")


@pytest.mark.parametrize("name", plan_names())
def test_shipped_plans_can_be_read_and_spelt_out(name):
    plan = open_plan(name)
    assert plan.name == name
    whole = resolved(plan)
    for run, again in zip(planned_runs(plan), planned_runs(whole), strict=True):
        assert run == again


def test_the_paper_plan_has_every_arm_with_its_control():
    runs = planned_runs(open_plan("nano-paper"))
    assert len(runs) == 5 * 2 * 5
    assert {run.config.steps for run in runs} == {60}
    still = [run for run in runs if run.control]
    assert {run.config.learner.learning_rate_of("teacher") for run in still} == {0.0}
    assert len({run.folder for run in runs}) == 50


def test_one_seed_of_everything_comes_first():
    assert [(r.arm, r.control, r.seed) for r in planned_runs(small())] == [
        ("one", None, 1),
        ("two two", None, 1),
        ("one", None, 2),
        ("two two", None, 2),
        ("one", "still", 2),
        ("two two", "still", 2),
    ]
    assert str(planned_runs(small())[-1].folder) == "two-two/still/seed-2"
    own = planned_runs(small(arm_seeds={"two two": [2, 7]}))
    assert [(r.arm, r.seed) for r in own if r.control is None] == [
        ("one", 1),
        ("one", 2),
        ("two two", 2),
        ("two two", 7),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sedes": [1]}, "unknown key sedes; did you mean seeds?"),
        ({"arms": {}}, "arms is empty"),
        ({"arms": {"one": {"learner.learning_rat": 1}}}, "arm 'one': unknown key"),
        ({"arms": {"one": {"mode": "azt"}}}, "did you mean azr?"),
        ({"arms": {"../one": {}}}, "cannot name a directory"),
        ({"arms": {"a b": {}, "a-b": {}}}, "cannot name a directory"),
        ({"arms": {"one": 3}}, "arms[...] is {'one': 3}; expected a section"),
        ({"controls": {"c": {"steps": 0}}}, "arm 'one' with control 'c': steps is 0"),
        ({"seeds": [1, 1]}, "expected different whole numbers"),
        ({"seeds": "five"}, "seeds[0] is 'five'; expected a whole number"),
        ({"armz": {"one": {}}}, "unknown key armz.one; did you mean arms?"),
        ({"seds": 5}, "unknown key seds; did you mean seeds?"),
        ({"set": {"lr": 1.0}}, "unknown key lr; did you mean learner.learning_rate?"),
        ({"findings": [CLAIM, CLAIM | {"net_": 1}]}, "did you mean findings[1].net?"),
        ({"findings": [CLAIM | {"predicted": "abov"}]}, "did you mean above?"),
        (
            {"contrasts": [["one", "tow two"]]},
            "contrasts[0]: 'tow two'; expected one of one, two two",
        ),
        ({"contrasts": ["one"]}, "contrasts[0] is 'one'; expected a list"),
        ({"findings": [CLAIM | {"measures": ["seconts"]}]}, "findings[0].measures: 'seconts'; "),
        ({"findings": [CLAIM | {"measures": ["seconts"]}]}, "did you mean seconds?"),
        (
            {"findings": [CLAIM, CLAIM | {"plus": ["three"]}]},
            "findings[1]: 'three'; expected one of",
        ),
        ({"preset": "nanno"}, "did you mean nano?"),
        ({"question": 4}, "question is 4; expected a text"),
        ({"arm_seeds": {"tow two": [1]}}, "arm_seeds: 'tow two'; expected one of one, two two"),
        ({"arm_seeds": {"one": [1, 1]}}, "arm_seeds.one is [1, 1]; expected different"),
        ({"measures": "of_mine"}, "measures is 'of_mine'; expected MODULE:OBJECT"),
        ({"measures": "no_such:MEASURES"}, "measures: cannot import no_such"),
        ({"measures": "own_measures:NONE"}, ".py) has no NONE"),
    ],
)
def test_a_slip_in_a_plan_is_named(changes, words):
    with pytest.raises(ConfigError) as caught:
        small(**changes)
    assert words in str(caught.value)


def test_a_plan_that_is_nowhere_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="did you mean nano-smoke"):
        open_plan("nano-smok")
    (tmp_path / "plan.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="as YAML"):
        open_plan(str(tmp_path / "plan.yaml"))


def test_other_seeds_are_those_of_all_arms():
    plan = open_plan("nano-paper", ["seeds=[6, 7]"])
    assert {run.seed for run in planned_runs(plan)} == {6, 7}
    assert len(planned_runs(plan)) == 2 * len(plan.arms) * (1 + len(plan.controls))
    assert plan.findings == open_plan("nano-paper").findings


def test_a_setting_that_all_arms_have_of_their_own_is_refused(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        yaml.safe_dump(SMALL | {"arms": {"one": {"teachers": 1}, "azr": {"mode": "azr"}}})
    )
    with pytest.raises(ConfigError, match=r"--set teachers: all arms of .* set it; change it in"):
        open_plan(str(path), ["teachers=8"])


@pytest.mark.parametrize(
    ("measures", "words"),
    [
        ("[1]", "is of type list; expected a mapping from names to (unit, function)"),
        ("{'one': 3}", "['one'] is 3; expected (unit, function)"),
        ("{'one': ('s', 3)}", "['one'] is ('s', 3); expected (unit, function)"),
        ("{'seconds': ('s', len)}", "names 'seconds', which is ours; choose another"),
    ],
)
def test_measures_that_cannot_be_read_are_refused(tmp_path, monkeypatch, measures, words):
    (tmp_path / "odd_measures.py").write_text(f"MEASURES = {measures}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_measures", raising=False)
    with pytest.raises(ConfigError) as caught:
        small(measures="odd_measures:MEASURES")
    assert words in str(caught.value)


def test_assignments_reach_every_run():
    plan = open_plan("nano-smoke", ["steps=7", "learner.r=4"])
    assert {(r.config.steps, r.config.learner.r) for r in planned_runs(plan)} == {(7, 4)}


def test_a_directory_belongs_to_one_plan(tmp_path):
    home = tmp_path / "home"
    plan = open_home(small(), home)
    assert open_home(small(), home) == plan
    with pytest.raises(RunDirectoryError, match=r"another plan \(other config\)"):
        open_home(small(set={"steps": 9}), home)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="not empty"):
        open_home(small(), tmp_path / "other")


def test_only_what_never_had_a_step_is_cleared_away(tmp_path):
    run = planned_runs(small())[0]
    directory = tmp_path / run.folder
    assert prepare(run, tmp_path) is False
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text("")
    assert prepare(run, tmp_path) is False
    assert not directory.exists()
    directory.mkdir()
    (directory / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(RunDirectoryError, match="move it away"):
        prepare(run, tmp_path)


def test_a_run_of_other_settings_is_not_the_planned_one(tmp_path):
    run = planned_runs(small(set={"reward.teacher": "of_mine:half"}))[0]
    directory = tmp_path / run.folder
    create(directory, run.config)
    (directory / "checkpoints" / "step-0").mkdir(parents=True)
    assert prepare(run, tmp_path) is True
    with pytest.raises(RunDirectoryError, match="other settings"):
        prepare(replace(run, config=replace(run.config, steps=99)), tmp_path)


def arguments(home, plan="nano-smoke"):
    return ["experiment", str(plan), "--out", str(home), "--workers", "1"]


def begin(home):
    """Start the command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "selfplay", *arguments(home)], stderr=subprocess.PIPE, text=True
    )


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def processes_in(home):
    """Ids of the processes that work in a directory."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if b"selfplay.experiments.experiment" in line and str(home).encode() in line:
                found.append(int(entry))
    return found


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
@pytest.mark.slow
def test_whatever_is_killed_the_results_are_the_same(runs, tmp_path):
    home, whole = tmp_path / "home", tmp_path / "whole"
    worked(*arguments(whole))
    first, second = home / "azr" / "seed-1", home / "2T+2S" / "seed-1"
    points = (
        (first / "config.yaml", "parent", signal.SIGKILL),
        (first / "metrics.jsonl", "parent", signal.SIGKILL),
        (second / "metrics.jsonl", "child", signal.SIGKILL),
        (home / "2T+2S" / "rate_0" / "seed-1" / "checkpoints", "parent", signal.SIGINT),
    )
    process = begin(home)
    for path, whom, how in points:
        wait_for(path, process)
        if whom == "child":
            for child in processes_in(home):
                with suppress(ProcessLookupError):
                    os.kill(child, how)
            continue
        process.send_signal(how)
        _, said = process.communicate()
        while processes_in(home):  # none outlives the experiment
            time.sleep(0.1)
        if how == signal.SIGINT and process.returncode:  # else all were done before the signal
            assert process.returncode == 130
            assert f" experiment {home / 'plan.yaml'} --out {home}`" in said
        process = begin(home)
    assert process.wait() == 0
    process.stderr.close()
    for run in planned_runs(open_plan(str(home / "plan.yaml"))):
        assert runs.outcome(home / run.folder) == runs.outcome(whole / run.folder), run.title


def test_an_experiment_makes_its_runs_and_names_a_damaged_one(tmp_path):
    """A run that is damaged keeps no other from being made; all is well once it is whole."""
    data = yaml.safe_load((PLANS / "nano-smoke.yaml").read_text())
    data |= {"seeds": [1], "arms": {"azr": {"mode": "azr"}}}
    data["set"] |= {"steps": 2, "rollout.kinds": ["code_o"], "eval.tasks": 2}
    del data["findings"]
    plan, home = tmp_path / "plan.yaml", tmp_path / "home"
    plan.write_text(yaml.safe_dump(data))
    broken, missing = planned_runs(open_plan(str(plan)))
    assert [str(run.folder) for run in (broken, missing)] == ["azr/seed-1", "azr/rate_0/seed-1"]
    open_home(open_plan(str(plan)), home)
    whole, damaged = tmp_path / "whole", home / broken.folder
    train(broken.config, whole)
    shutil.copytree(whole, damaged)
    shutil.rmtree(damaged / "checkpoints" / "step-2")
    (damaged / "checkpoints" / "step-1" / "state.json").write_text("{")
    result = command(*arguments(home, plan))
    assert result.exit_code == 1
    assert "azr, seed 1" in result.stderr
    assert "state.json is damaged" in result.stderr
    assert missing.is_finished(home)
    assert not broken.is_finished(home)
    shutil.rmtree(damaged)
    whole.rename(damaged)
    (home / "azr" / "seed-1.log").unlink(missing_ok=True)
    worked(*arguments(home, plan))
    assert broken.is_finished(home)
    assert not list(home.rglob("*.log"))
