"""Rewards, operators and callbacks of a user's own, handed over or named in the configuration."""

import functools
import importlib
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lora_evo import OPERATORS, Operator
from selfplay.checkpoint import save_checkpoint
from selfplay.errors import ConfigError, SelfplayError
from selfplay.files.record import read_run
from selfplay.learning.rewards import TeacherReward, populora, training_samples, verifier
from selfplay.run import Extensions
from selfplay.step import evolve, match, propose, record_outcomes, record_step, solve, verify
from selfplay.training import new_run, open_run, resume, train
from selfplay_command import train_until

TINY = (
    *("steps=2", "rollout.kinds=[code_o]", "rollout.proposals=2", "rollout.num_generations=2"),
    *("rollout.max_proposal_length=28", "rollout.max_completion_length=8", "rollout.seed_tasks=4"),
    *("evolution.evolve_every=1", "eval.eval_every=0", "eval.same_tasks=0"),
)
AGENT = (*TINY, "mode=azr")
"""One member alone, which costs half as much."""


def learns_nothing(attempt):
    """Pay every answer the same."""
    return 0.125


OWN = replace(OPERATORS["full_gaussian"], name="own_noise")
MINE = "def half(proposed):\n    return -1.0 if proposed.task is None else 0.25"


class Kept:
    """Pays more every time, and keeps how much; the name in the state is not the attribute's."""

    def __init__(self, step):
        self.step, self.paid = step, 0

    def __call__(self, proposed):
        self.paid += 1
        return self.step * self.paid

    def state_dict(self):
        return {"proposals": torch.tensor(self.paid), "text": "kept"}

    def load_state_dict(self, state):
        self.paid = int(state["proposals"])


@pytest.fixture(scope="module")
def plain(runs, tmp_path_factory):
    """A run without extensions but for a callback, and what that was given; never changed."""
    home, rows = tmp_path_factory.mktemp("plain") / "run", []
    seeing = Extensions(callbacks=[lambda run, row: rows.append(row)])
    config = runs.config(*TINY, "eval.eval_every=2", "eval.tasks=1", "eval.samples=1")
    train(config, home, extensions=seeing)
    return SimpleNamespace(config=config, home=home, rows=rows)


def learned(outcome):
    """What a run leaves that is not said in its configuration and not measured."""
    return {k: v for k, v in outcome.items() if k not in ("config.yaml", "eval.jsonl")}


def refused(home, **options):
    """What a resume answers, in one line."""
    with pytest.raises(SelfplayError) as error:
        resume(home, extensions=Extensions(**options))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_handed_over_is_used_named_and_found_again_by_resume(runs, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_mine_rewards.py").write_text(MINE)
    home, seen = tmp_path / "run", []
    own = Extensions(importlib.import_module("of_mine_rewards").half, learns_nothing, [OWN])
    config = runs.config(*TINY, "evolution.crossover_share=0")

    def stop(run, row):
        seen.append((run.step, row.step))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, home, extensions=replace(own, callbacks=[stop]))
    assert seen == [(1, 1)]
    assert "of_mine_rewards:half\n" in (home / "config.yaml").read_text()
    seeing = [lambda run, row: seen.append((run.step, row.step))]
    again = Extensions(None, learns_nothing, [OWN], callbacks=seeing)
    resume(home, extensions=again)
    assert seen == [(1, 1), (2, 2)]
    rewards = {row["teacher_reward"] for row in runs.rows(home / "metrics.jsonl")}
    assert rewards <= {-1.0 + 1.25 * valid / 4 for valid in range(5)}
    assert {row["student_reward"] for row in runs.rows(home / "metrics.jsonl")} <= {0.125, None}
    births = [birth for row in runs.rows(home / "metrics.jsonl") for birth in row["evolution"]]
    assert {birth["operator"] for birth in births} == {"own_noise"}


def test_an_operator_that_does_not_work_is_refused_when_a_run_that_evolves_opens(runs, tmp_path):
    for kind in ("mutation", "crossover"):
        own = Operator("of_mine", kind, "", "", lambda setup: 1 / 0)
        line = rf"^evolution.{kind}, tried on t0: .* fails at its setup: ZeroDivisionError.*$"
        with pytest.raises(ConfigError, match=line):
            train(runs.config(*TINY), tmp_path / "run", extensions=Extensions(operators=[own]))
        assert not (tmp_path / "run").exists()
    still = runs.config(*TINY, "evolution.evolve_every=0")
    with new_run(still, tmp_path / "run", extensions=Extensions(operators=[own])):
        pass


def test_regret_is_given_a_rival_and_needs_two_students(runs, tmp_path):
    train(runs.config(*TINY, "steps=1", "reward.teacher=regret"), tmp_path / "run")
    accepted = [row for row in runs.rows(tmp_path / "run" / "tasks.jsonl") if row["status"] == "ok"]
    assert accepted
    assert all(0.0 <= row["rival_solve_rate"] <= 1.0 for row in accepted)
    with pytest.raises(ConfigError, match="students of at least 2"):
        train(runs.config(*TINY, "students=1", "reward.teacher=regret"), tmp_path / "alone")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("reward.teacher=populra", "did you mean populora"),
        ("reward.student=os:sep", "which is no function"),
        # of modules in the working directory
        ("reward.teacher=of_mine:third", r"of_mine \(.*of_mine.py\) has no third"),
        ("reward.student=of_mine_quits:f", "cannot import of_mine_quits: SystemExit: 3"),
    ],
)
def test_what_cannot_be_used_is_named_before_the_run_begins(
    setting, expected, runs, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")  # puts sys.path back
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_mine.py").touch()
    (tmp_path / "of_mine_quits.py").write_text("import sys\nsys.exit(3)")
    with pytest.raises(ConfigError, match=expected) as error:
        train(runs.config(*TINY, setting), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
    monkeypatch.delitem(sys.modules, "of_mine", raising=False)


def test_operators_and_rewards_that_a_run_does_not_have_are_refused(runs, tmp_path):
    noise = replace(OWN)  # held by no module, so that no import finds it
    own, home = {"operators": [noise], "student_reward": learns_nothing}, tmp_path / "run"
    with new_run(runs.config(*TINY), home, extensions=Extensions(**own)):
        pass
    assert "evolution.mutation names own_noise, an object of the program" in refused(home)
    line = refused(home, **own, teacher_reward=lambda proposed: 0.5)
    assert "teacher_reward holds :<lambda>, and reward.teacher of this run names populora" in line
    with open_run(home, extensions=Extensions(operators=[replace(OWN)])):
        pass  # the reward is an import


def kept():
    """Rewards of both roles that keep a state, one under other callables."""
    return Extensions(TeacherReward(Kept(0.5)), functools.partial(Kept(0.25).__call__))


def paid(extensions):
    """How often each of them has paid."""
    return extensions.teacher_reward.function.paid, extensions.student_reward.func.__self__.paid


def test_a_reward_keeps_its_state_in_checkpoints(runs, tmp_path, capsys):
    config, half, seen = runs.config(*AGENT), tmp_path / "half", []
    rewards, again, fresh = kept(), kept(), kept()
    counting = replace(rewards, callbacks=[lambda run, row: seen.append(paid(rewards))])
    train(config, tmp_path / "whole", extensions=counting)
    assert 0 < min(seen[0]) < min(seen[1])
    train_until(2, config, half, extensions=again, phase="save")
    with open_run(half, extensions=fresh):
        assert paid(fresh) == seen[0]
    resume(half, extensions=again)  # which has moved on after the checkpoint
    assert paid(again) == seen[1]
    assert runs.outcome(half) == runs.outcome(tmp_path / "whole")
    assert not capsys.readouterr().err


def test_a_loops_state_is_given_back_as_it_was_at_the_checkpoint(runs, tmp_path):
    home = tmp_path / "run"
    with new_run(runs.config(*AGENT), home) as run:
        assert run.state == {}
        run.state = {"mean": {"s0": 0.5}, "seen": torch.arange(3)}
        save_checkpoint(run)
    with open_run(home) as run:
        assert run.state["mean"] == {"s0": 0.5}
        assert run.state["seen"].tolist() == [0, 1, 2]
        run.state = {"reward": learns_nothing}
        with pytest.raises(SelfplayError, match=r"run.state cannot be saved and read again \("):
            save_checkpoint(run)


def own_loop(run):
    """The steps of a run as `train` does them, from the public phases."""
    while run.step < run.config.steps:
        step = run.step + 1
        matches = match(run, step)
        solved, replayed = solve(run, verify(run, propose(run, matches, step)), step)
        samples = training_samples(solved, run.config, replayed)
        factor = run.config.learner.schedule(step, run.config.steps)
        stats = run.population.update(samples, factor, rates=run.rates)
        record_outcomes(run, matches, solved)
        births = evolve(run, run.league, step) if run.config.evolves(step) else []
        run.population.sync(step)
        row = record_step(run, solved, samples, stats, births)
        assert (row.step, run.step) == (step, step)


def test_a_callback_that_returns_true_ends_a_run_and_a_resume_goes_on(runs, plain, tmp_path):
    config, home = runs.config(*TINY, "save_every=2"), tmp_path / "run"
    stop = Extensions(callbacks=[lambda run, row: row.step == 1, lambda run, row: "more"])
    train(config, home, extensions=stop)
    assert len(runs.rows(home / "metrics.jsonl")) == 1
    assert (home / "checkpoints" / "step-1").is_dir()
    resume(home)
    assert learned(runs.outcome(home)) == learned(runs.outcome(plain.home))


def spoils(proposed):
    """The built-in reward, which edits what it is given."""
    reward = populora(proposed)
    proposed.attempts.clear()
    proposed.base_attempts.clear()
    proposed.task = None
    return reward


def spoils_too(attempt):
    reward = verifier(attempt)
    attempt.score = attempt.answer = None
    return reward


def test_a_reward_that_edits_what_it_is_given_changes_no_row(runs, plain, tmp_path):
    own = Extensions(spoils, spoils_too)
    train(runs.config(*TINY), tmp_path / "run", extensions=own)
    assert learned(runs.outcome(tmp_path / "run")) == learned(runs.outcome(plain.home))


def test_a_loop_of_ones_own_leaves_what_train_leaves(runs, plain, tmp_path):
    with new_run(plain.config, tmp_path / "own") as run:
        own_loop(run)
    assert runs.outcome(tmp_path / "own") == runs.outcome(plain.home)
    assert (tmp_path / "own" / "checkpoints" / "step-2").is_dir()


def test_callbacks_get_the_proposals_of_the_step(runs, plain):
    written = list(read_run(plain.home).tasks())
    assert [task for row in plain.rows for task in row.tasks] == written
    assert {task.step for task in plain.rows[1].tasks} == {2}
    assert "tasks" not in runs.rows(plain.home / "metrics.jsonl")[0]
