"""The study of tasks written once: its plans, and its files on a tiny run."""

import json
from pathlib import Path

from click.testing import CliRunner
from studies.fixed import write_tasks

from selfplay import load_preset, read_run, train
from selfplay.experiments.experiment import open_plan

TINY = (
    *("seed=100", "steps=1", "students=1", "rollout.proposals=4", "rollout.num_generations=2"),
    *("rollout.seed_tasks=8", "evolution.evolve_every=0", "eval.eval_every=0", "eval.same_tasks=0"),
)


def test_plans_can_be_read_and_only_arms_of_a_file_have_no_teachers():
    for name, runs in (("plan", 55), ("plan_nano", 30)):
        plan = open_plan(f"studies/fixed/{name}.yaml")
        assert len(plan.runs(Path())) == runs
        for run in plan.runs(Path()):
            own = "written" in run.arm
            assert (run.config.teachers == 0) == own == (run.config.rollout.tasks is not None)
            assert run.config.rollout.proposals == (15 if own else 16)


def test_a_runs_tasks_are_written_once_each_and_train_students(trained, tmp_path):
    done = CliRunner().invoke(write_tasks.main, [str(trained), str(tmp_path / "t")])
    assert done.exit_code == 0, done.output
    whole, tenth, repeats = (
        (tmp_path / "t" / f"{name}.jsonl").read_text().splitlines()
        for name in ("whole", "tenth", "repeats")
    )
    accepted = [row for row in read_run(trained).tasks() if row.accepted]
    assert len(repeats) == len(accepted) >= len(whole)
    assert {json.loads(line)["program"] for line in repeats} == {
        json.loads(line)["program"] for line in whole
    }
    assert len(whole) == len(set(whole)) > 0
    assert len(tenth) == -(-len(whole) // 10)
    assert set(tenth) <= set(whole)
    file = f"rollout.tasks={tmp_path / 't' / 'whole.jsonl'}"
    train(load_preset("studies/collapse/preset.yaml", *TINY, file), tmp_path / "run")
    programs = {json.loads(line)["program"] for line in whole}
    assert {task.program for task in read_run(tmp_path / "run").tasks()} <= programs
