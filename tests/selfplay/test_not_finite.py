"""A number that is not finite costs the member it belongs to one step, and nobody else anything."""

import json
import math
from dataclasses import replace

import pytest
import torch
from msgspec import UNSET

import learners
from lora_evo.model import HFEngine, Rollout
from selfplay.config import RolloutConfig
from selfplay.learning.batch import TrainingSample
from selfplay.run import Extensions
from selfplay.training import train

TINY = ("steps=2", "eval.eval_every=0", "evolution.evolve_every=5")


def learner(tiny, model=None, **changes):
    small = {"r": 2, "target_modules": ("q_proj", "v_proj")}
    return learners.learner(tiny, model, **small | changes)


def samples(tiny, tokens=6):
    """Two of each member, the second worth less than the first."""
    rows = []
    for i, member in enumerate([*tiny.members, *tiny.members]):
        ids = tiny.numbers(i, 3 + tokens).mul(1000).long().abs() % tiny.vocabulary
        prompt, completion = tuple(ids[:3].tolist()), tuple(ids[3:].tolist())
        text = Rollout(member, prompt, completion, (-1.0,) * tokens, "stop")
        reward = 1.0 if i < len(tiny.members) else -1.0
        rows.append(TrainingSample(member, text, reward, "solve", f"task-{i}", "code_o", reward))
    return rows


def state(learner, member):
    return {
        k: v.clone() for k, v in learner.member_state(learner.members.index(member)).tensors.items()
    }


def spoil(sample, name):
    if name == "reward":
        return replace(sample, reward=math.nan, advantage=math.nan)
    if name == "advantage":
        return replace(sample, advantage=-math.inf)
    logprobs = (math.nan, *sample.rollout.logprobs[1:])
    return replace(sample, rollout=replace(sample.rollout, logprobs=logprobs))


@pytest.mark.parametrize("name", ["reward", "advantage", "log-probability"])
def test_one_number_of_a_member_costs_that_member_the_step_alone(name, tiny):
    first, *others = tiny.members
    plain, spoilt = learner(tiny), learner(tiny)
    rows = samples(tiny)
    before = state(spoilt, first)
    plain.update(rows)
    stats = spoilt.update([spoil(rows[0], name), *rows[1:]])
    assert name in stats[first].skipped
    assert "task-0" in stats[first].skipped
    assert not stats[first].stepped
    assert json.dumps({k: getattr(stats[first], k) for k in ("loss", "entropy")}, allow_nan=False)
    for key, tensor in state(spoilt, first).items():
        assert torch.equal(tensor, before[key])
    for member in others:
        assert stats[member].stepped
        assert stats[member].skipped is UNSET
        for key, tensor in state(plain, member).items():
            torch.testing.assert_close(state(spoilt, member)[key], tensor, rtol=0, atol=1e-7)


def test_a_gradient_that_overflows_is_skipped_and_said(tiny):
    made = learner(tiny, beta=1e38)
    stats = made.update(samples(tiny))
    for member in tiny.members:
        assert "is inf" in stats[member].skipped or "is nan" in stats[member].skipped
        assert stats[member].grad_norm is None
        assert all(v.isfinite().all() for v in state(made, member).values())


def test_a_run_goes_on_after_numbers_that_are_not_finite(runs, tmp_path, monkeypatch, capsys):
    sample = HFEngine._stream

    def spoilt(self, requests):
        for i, rollout in sample(self, requests):
            logprobs = (math.nan, *rollout.logprobs[1:])
            yield i, replace(rollout, logprobs=logprobs) if rollout.adapter == "s1" else rollout

    def unlucky(attempt):
        member, step = attempt.member, attempt.task.id.partition("-")[0]
        return math.nan if member == "s0" and step == "1" else float(attempt.score)

    monkeypatch.setattr(HFEngine, "_stream", spoilt)
    train(runs.config(*TINY), tmp_path / "run", extensions=Extensions(student_reward=unlucky))
    said = capsys.readouterr().err
    assert said.count("step 1: s0 learns nothing: its reward for 1-") == 1
    assert "s1 learns nothing: a log-probability of its text for" in said
    first, second = (row["members"] for row in runs.rows(tmp_path / "run" / "metrics.jsonl"))
    assert "is nan" in first["s0"]["skipped"]
    assert first["s0"]["stepped"] is False
    assert "skipped" not in second["s0"]
    assert first["s1"]["entropy"] is second["s1"]["entropy"] is None


def test_gradients_under_float16_layers_are_those_of_float32(tiny):
    """With the weights that tokens have in the batches of a 7B run, about 6e-7."""
    cosines = []
    for dtype in (torch.float32, torch.float16):
        made = learner(tiny, tiny.qwen().to(dtype), loss_type="dr_grpo", max_grad_norm=0.0)
        made.rollout = RolloutConfig(max_completion_length=800_000 // 2)
        seen = {}

        def step(member, lr_factor, loss_scale, made=made, seen=seen):
            parts = made.adapters.parameters_of(member).values()
            seen[member] = torch.cat([(p.grad / loss_scale).flatten().double() for p in parts])
            return 0.0, True

        made.optimizer.step = step
        made.update(samples(tiny, tokens=24))
        cosines.append(seen)
    for member, exact in cosines[0].items():
        half = cosines[1][member]
        assert torch.cosine_similarity(exact, half, dim=0) > 0.999
        assert float(half.norm() / exact.norm()) == pytest.approx(1.0, abs=0.05)
