"""Rewards, operators and callbacks of a user's own, handed over or named in the configuration."""

import sys
from dataclasses import replace

import pytest

from lora_evo import OPERATORS
from selfplay.errors import ConfigError
from selfplay.rewards import TEACHER_REWARDS
from selfplay.training import resume, train

TINY = (
    *("steps=2", "rollout.kinds=[code_o]", "rollout.proposals=2", "rollout.num_generations=2"),
    *("rollout.max_completion_length=48", "evolution.evolve_every=1", "eval.eval_every=0"),
    *("eval.same_tasks=0", "rollout.seed_tasks=4"),
)


def half(proposed):
    """Pay for tasks that half of the attempts solve."""
    return -1.0 if proposed.task is None else 0.25


def learns_nothing(attempt):
    """Pay every answer the same."""
    return 0.125


OWN = replace(OPERATORS["full_gaussian"], name="own_noise")


def test_what_is_handed_over_is_used_named_and_found_again_by_resume(runs, tmp_path, monkeypatch):
    home, seen = tmp_path / "run", []
    given = {"teacher_reward": half, "student_reward": learns_nothing, "operators": [OWN]}
    config = runs.config(*TINY, "evolution.crossover_share=0")

    def stop(run, row):
        seen.append((run.step, row.step))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, home, **given, callbacks=[stop])
    assert seen == [(1, 1)]
    assert f"{__name__}:half" in (home / "config.yaml").read_text()
    resume(home, callbacks=[lambda run, row: seen.append((run.step, row.step))])
    assert seen == [(1, 1), (2, 2)]
    rewards = {row["teacher_reward"] for row in runs.rows(home / "metrics.jsonl")}
    assert rewards <= {-1.0, -0.375, 0.25}
    assert {row["student_reward"] for row in runs.rows(home / "metrics.jsonl")} <= {0.125, None}
    births = [birth for row in runs.rows(home / "metrics.jsonl") for birth in row["evolution"]]
    assert {birth["operator"] for birth in births} == {"own_noise"}


@pytest.mark.parametrize("name", sorted(TEACHER_REWARDS))
def test_every_named_reward_trains(name, runs, tmp_path):
    train(runs.config(*TINY, "steps=1", f"reward.teacher={name}"), tmp_path / "run")
    (row,) = runs.rows(tmp_path / "run" / "metrics.jsonl")
    assert -1.0 <= row["teacher_reward"] <= 1.0


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("reward.teacher=populra", "did you mean populora"),
        ('reward.teacher="os:"', "expected MODULE:OBJECT"),
        ("reward.teacher=no_such_module:f", "cannot import no_such_module: ModuleNotFoundError"),
        ("reward.student=os:sep", "which is no function"),
        ("evolution.mutation=[os:sep]", "expected a lora_evo.Operator"),
        # of modules in the working directory
        ("reward.teacher=of_mine:third", r"of_mine \(.*of_mine.py\) has no third"),
        ("reward.teacher=of_mine_broken:f", "cannot import of_mine_broken: ZeroDivisionError: div"),
    ],
)
def test_what_cannot_be_used_is_named_before_the_run_begins(
    setting, expected, runs, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")  # puts sys.path back
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_mine.py").touch()
    (tmp_path / "of_mine_broken.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match=expected) as error:
        train(runs.config(*TINY, setting), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
    monkeypatch.delitem(sys.modules, "of_mine", raising=False)


def test_regret_needs_two_students(runs, tmp_path):
    with pytest.raises(ConfigError, match="students of at least 2"):
        train(runs.config(*TINY, "students=1", "reward.teacher=regret"), tmp_path / "run")
