"""Experiments: plans read strictly, and the same runs whatever stopped them on the way."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from processes import gone, living, started
from selfplay.errors import ConfigError, RunDirectoryError
from selfplay.experiments.experiment import open_home, open_plan
from selfplay.settings import shipped
from selfplay.training import train
from selfplay_command import command, refused, worked

SMALL = {
    "name": "small",
    "seeds": [1, 2],
    "arms": {"one": {"teachers": 1, "students": 1}, "two two": {}},
}


@pytest.fixture
def small(tmp_path):
    """Opens the small plan with changes."""

    def opened(*assignments, **changes):
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(SMALL | changes))
        return open_plan(str(path), assignments)

    return opened


@pytest.mark.parametrize("name", shipped("plans"))
def test_a_plan_that_is_kept_with_its_preset_spelt_out_has_the_same_runs(name, tmp_path):
    plan = open_plan(name)
    assert plan.name == name
    open_home(plan, tmp_path)
    kept = open_plan(str(tmp_path / "plan.yaml"))
    assert kept.preset is None
    assert kept.runs(tmp_path) == plan.runs(tmp_path)


def test_one_seed_of_every_arm_comes_first_and_all_arms_are_compared_with_the_first(small):
    plan = small()
    runs = plan.runs(Path("home"))
    arms = [(r.arm, r.seed) for r in runs]
    assert arms == [("one", 1), ("two two", 1), ("one", 2), ("two two", 2)]
    assert runs[-1].directory == Path("home/two-two/seed-2")
    assert plan.pairs == [("two two", "one")]
    assert small(contrasts=[["one", "two two"]]).pairs == (("one", "two two"),)
    files = small("rollout.tasks=of-{seed}.jsonl", set={"teachers": 0}, arms={"one": {}})
    first, second = files.runs(Path("home"))
    assert first.config.rollout.tasks == "of-1.jsonl"
    assert second.config.rollout.tasks == "of-2.jsonl"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sedes": [1]}, "unknown key sedes; did you mean seeds?"),
        ({"arms": {}}, "one of them is empty"),
        ({"arms": {"one": {"learner.learning_rat": 1}}}, "arm 'one': unknown key"),
        ({"arms": {"../one": {}}}, "cannot name a directory"),
        ({"arms": {"a b": {}, "a-b": {}}}, "cannot name a directory"),
        ({"seeds": [1, 1]}, "expected different whole numbers"),
        ({"set": {"seed": 3}}, "seed is of one run; expected `seeds` of the plan"),
        ({"contrasts": [["one", "tow two"]]}, "'tow two'; expected one of one, two two"),
    ],
)
def test_a_slip_in_a_plan_is_named(small, changes, words):
    with pytest.raises(ConfigError) as caught:
        small(**changes)
    assert words in str(caught.value)


def test_a_plan_that_is_nowhere_is_one_line(tmp_path):
    refused(command("experiment", "nano-smok", "--out", tmp_path / "x"), "did you mean nano-smoke")
    refused(command("experiment", "nano-smoke", "--out", tmp_path / "x", "--workers", 0), "x>=1")


def test_assignments_reach_every_run_and_may_be_other_seeds(small):
    plan = small("steps=7", "learner.r=4", "seeds=[6, 7]")
    runs = plan.runs(Path())
    assert {(r.seed, r.config.steps, r.config.learner.r) for r in runs} == {(6, 7, 4), (7, 7, 4)}
    with pytest.raises(ConfigError, match=r"--set teachers: all arms set it; change it in"):
        small("teachers=8", arms={"one": {"teachers": 1}, "two": {"teachers": 2}})


def test_a_directory_belongs_to_one_plan(small, tmp_path):
    home = tmp_path / "home"
    plan = open_home(small(), home)
    assert open_home(small(), home) == plan
    with pytest.raises(RunDirectoryError, match="holds another plan; choose another --out"):
        open_home(small("steps=9"), home)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="not empty"):
        open_home(small(), tmp_path / "other")


def arguments(home, plan="nano-smoke"):
    return ["experiment", str(plan), "--out", str(home), "--workers", "1"]


@pytest.mark.slow
def test_whatever_is_killed_the_results_are_the_same(runs, tmp_path):
    home, whole = tmp_path / "a" / "home", tmp_path / "whole"
    worked(*arguments(whole))
    first, second = home / "azr" / "seed-1", home / "2T+2S" / "seed-1"
    process = None
    for path, victim, how in (
        (first / "config.yaml", "parent", signal.SIGKILL),
        (second / "metrics.jsonl", "child", signal.SIGKILL),
        (home / "2T+2S-rate-0" / "seed-1" / "checkpoints", "parent", signal.SIGINT),
    ):
        if process is None or process.poll() is not None:
            process = started(home, str(home), *arguments(home))
        while not path.exists():
            assert process.poll() is None, (home.parent / "said").read_text()
            time.sleep(0.05)
        if victim == "child":
            for pid in (pid for pid, name in living(str(home)).items() if "selfplay.cli" in name):
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
            continue
        process.send_signal(how)
        process.wait()
        assert not gone(str(home), 60.0), "none outlives the experiment"
    said = (home.parent / "said").read_text()
    assert process.returncode == 0 or f" experiment {home / 'plan.yaml'} --out {home}`" in said
    worked(*arguments(home))
    for run in open_plan(str(home / "plan.yaml")).runs(home):
        other = whole / run.directory.relative_to(home)
        assert runs.outcome(run.directory) == runs.outcome(other), run.arm


def test_an_experiment_makes_its_runs_and_names_a_damaged_one(tmp_path):
    """A run that is damaged keeps no other from being made; all is well once it is whole."""
    data = yaml.safe_load(shipped("plans")["nano-smoke"])
    data |= {"seeds": [1], "arms": {"azr": {"mode": "azr"}, "azr still": {"mode": "azr"}}}
    data["arms"]["azr still"] |= {"learner.learning_rate": 0.0}
    data["set"] |= {"steps": 1, "rollout.kinds": ["code_o"], "eval.eval_every": 0}
    data["set"] |= {"rollout.max_proposal_length": 28, "rollout.max_completion_length": 8}
    plan, home = tmp_path / "plan.yaml", tmp_path / "home"
    plan.write_text(yaml.safe_dump(data))
    broken, missing = open_home(open_plan(str(plan)), home).runs(home)
    whole, damaged = tmp_path / "whole", broken.directory
    train(broken.config, whole)
    shutil.copytree(whole, damaged)
    shutil.rmtree(damaged / "checkpoints" / "step-1")
    (damaged / "checkpoints" / "step-0" / "state.json").write_text("{")
    result = command(*arguments(home, plan))
    assert result.exit_code == 1
    assert "azr, seed 1" in result.stderr
    assert "state.json is not as it was written" in result.stderr
    assert missing.is_finished
    assert not broken.is_finished
    shutil.rmtree(damaged)
    whole.rename(damaged)
    worked(*arguments(home, plan))
    assert broken.is_finished
    assert not list(home.rglob("seed-1.yaml"))
