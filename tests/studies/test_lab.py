"""The lab: its plans, its rewards, and kept runs that today's code still gives, in both worlds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from studies.lab.rewards import r_zero

from code_verifier import Task
from selfplay import Attempt, Proposed, train
from selfplay.experiments.experiment import open_plan
from selfplay.experiments.kept import read_kept
from selfplay.files.record import read_run
from selfplay.reports.progress import Progress

WORLDS = ["studies/lab/kept.yaml", "studies/narrow/plan.yaml"]
PLANS = [*WORLDS, *(f"studies/{name}/plan.yaml" for name in ("ease", "evolve", "gate", "tape"))]
"""Plans whose finished runs lie in the folder `results` beside them."""


class Until(Progress):
    """Interrupts a run after a step."""

    def __init__(self, step):
        super().__init__(quiet=True)
        self.at = step

    def phase(self, phase):
        if self.done >= self.at:
            raise KeyboardInterrupt


def test_kept_runs_and_ones_own_differ_in_the_teacher_alone():
    kept, mine = (
        yaml.safe_load(Path(f"studies/lab/{n}.yaml").read_text()) for n in ("kept", "plan")
    )
    rate = mine["set"].pop("learner.teacher_learning_rate")
    for key in ("preset", "set", "seeds", "curves"):
        assert kept[key] == mine[key], key
    slow = [arm for name, arm in kept["arms"].items() if name.startswith("slow ")]
    assert {arm["learner.teacher_learning_rate"] for arm in slow} == {rate}
    plan = open_plan("studies/lab/plan.yaml", ["reward.teacher=studies.lab.rewards:r_zero"])
    assert plan.run_config("mine", 1).reward.teacher == "studies.lab.rewards:r_zero"


@pytest.mark.parametrize("path", PLANS)
def test_rows_are_of_the_plans_arms_and_seeds(path):
    plan, results = open_plan(path), Path(path).with_name("results")
    rows = read_kept(results)
    assert {row.arm for row in rows} <= {*plan.arms}
    assert {row.seed for row in rows} <= {*plan.seeds}
    assert len({(row.arm, row.seed) for row in rows}) == len(rows)
    assert all(row.last == row.steps == 300 and row.plan == plan.name for row in rows)
    assert sum(path.stat().st_size for path in results.iterdir()) < 3e6


@pytest.mark.parametrize(
    ("answers", "reward"),
    [("3333", 0.0), ("3312", 1.0), ("3334", 0.5), ("1234", 0.5), ([None] * 4, 0.0), ("33", 0.0)],
)
def test_r_zero_pays_for_students_that_agree_in_half_of_their_answers(answers, reward):
    task = Task("code_o", "def f(x):\n    return x", "3", "3")
    attempts = [Attempt("s0", task, 0, 1.0, answer=answer) for answer in answers]
    proposed = Proposed(0, "p", "t0", "s0", "code_o", (), 0, task=task, attempts=attempts)
    assert r_zero(proposed) == pytest.approx(reward)
    assert r_zero(replace(proposed, task=None)) == -1.0


@pytest.mark.slow
@pytest.mark.parametrize("path", WORLDS)
def test_todays_code_gives_the_kept_run_of_a_frozen_teacher(path, tmp_path):
    """Up to its first evaluation, about: another processor rounds otherwise."""
    config, rows = open_plan(path).run_config("frozen", 1), read_kept(Path(path).parent / "results")
    (row,) = (row for row in rows if (row.arm, row.seed) == ("frozen", 1))
    step, gains = row.gains[0]
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", progress=Until(step))
    run = read_run(tmp_path / "run")
    base, _ = run.held_out_rates()
    assert float(np.nanmean(base)) == pytest.approx(row.base, abs=0.01)
    ours = {name: float(np.nanmean(of)) for name, of in run.held_out_gains()[step].items()}
    assert ours.keys() == gains.keys()
    assert np.mean([*ours.values()]) == pytest.approx(np.mean([*gains.values()]), abs=0.02)
