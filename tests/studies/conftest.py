"""Every test is at the top of the checkout, from which the paths of the plans are."""

from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).parents[2]
SMALL = {
    "steps": 2,
    "rollout.proposals": 4,
    "rollout.num_generations": 2,
    "rollout.seed_tasks": 8,
    "eval.samples": 1,
    "eval.proposals": 2,
    "eval.attempts": 1,
}


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch):
    monkeypatch.chdir(TOP)


@pytest.fixture(scope="session")
def small_plan():
    """Write a plan, made small, with some of the seeds of the world of niches; return its path."""

    def written(folder, plan, **settings):
        seeds = (TOP / "studies/collapse/seeds.jsonl").read_text().splitlines(keepends=True)
        (folder / "seeds.jsonl").write_text("".join(seeds[::32]))
        settings = SMALL | {"rollout.seed_file": str(folder / "seeds.jsonl")} | settings
        path = folder / "plan.yaml"
        path.write_text(yaml.safe_dump(plan | {"set": plan.get("set", {}) | settings}))
        return str(path)

    return written
