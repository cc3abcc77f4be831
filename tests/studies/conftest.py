"""Every test is at the top of the checkout, from which the paths of the plans are."""

from pathlib import Path

import pytest
import yaml

from selfplay import train
from selfplay.experiments.experiment import open_home, open_plan

TOP = Path(__file__).parents[2]
SMALL = {
    "steps": 2,
    "save_every": 2,
    "rollout.proposals": 4,
    "rollout.num_generations": 2,
    "rollout.seed_tasks": 8,
    "eval.eval_every": 1,
    "eval.tasks": 44,  # of all eight families
    "eval.samples": 1,
    "eval.proposals": 4,
    "eval.attempts": 1,
}


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch):
    monkeypatch.chdir(TOP)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A finished experiment in the world of niches: one run of one arm, with two students."""
    folder = tmp_path_factory.mktemp("experiment")
    home = folder / "home"
    plan = yaml.safe_load((TOP / "studies/collapse/plan.yaml").read_text())
    seeds = (TOP / "studies/collapse/seeds.jsonl").read_text().splitlines(keepends=True)
    (folder / "seeds.jsonl").write_text("".join(seeds[::32]))
    plan["arms"] = {"4T+4S no trap": plan["arms"]["4T+4S no trap"] | {"teachers": 2, "students": 2}}
    plan["set"] |= SMALL | {"rollout.seed_file": str(folder / "seeds.jsonl")}
    plan |= {"seeds": [4], "contrasts": []}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(TOP)
        (run,) = open_home(open_plan(str(folder / "plan.yaml")), home).runs(home)
        train(run.config, run.directory)
    return home


@pytest.fixture(scope="session")
def trained(home):
    """The run of that experiment."""
    return home / "4T+4S-no-trap" / "seed-4"
