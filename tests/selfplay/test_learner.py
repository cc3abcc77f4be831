"""The learner against a plain loss in PEFT; whom it moves, at which rate, and what it keeps."""

import dataclasses

import pytest
import safetensors.torch
import torch

from learners import CONFIG, close, equal, gradients, learner, samples, weights, with_text
from lora_evo.model import Rollout
from selfplay.config import LearnerConfig, RolloutConfig
from selfplay.errors import SelfplayError
from selfplay.learning.learner import Learner, MemberState, TrainingSample


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("entropy_coef", [0.0, 0.3])
def test_loss_and_gradients_equal_a_plain_loss_in_peft_for_each_member(
    tiny, loss_type, entropy_coef
):
    """The bonus is the mean over tokens for every loss. With it, cut completions are masked."""
    masked, changes = entropy_coef > 0, {"loss_type": loss_type, "entropy_coef": entropy_coef}
    sampling = {"rollout": RolloutConfig(temperature=0.7, max_completion_length=50)}
    one = learner(tiny, more=sampling, mask_truncated_completions=masked, **changes)
    batch = samples(tiny, of=one)
    twin = tiny.peft_twin(tiny.qwen(), one.adapters)
    found, stats = gradients(one, batch)
    for member in one.members:
        mine = [s for s in batch if s.member == member]
        kept = [s for s in mine if not masked or s.rollout.finish_reason == "stop"]
        twin.set_adapter(member)
        loss, entropies = 0.0, []
        for s in kept:
            prompt, completion = s.rollout.prompt_ids, s.rollout.completion_ids
            logits = twin(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
            table = (logits / 0.7).log_softmax(-1)
            entropies.append(-(table.exp() * table).sum(-1))
            logps = table.gather(-1, torch.tensor(completion)[:, None])
            ratios = (logps - logps.detach()).exp()
            if loss_type == "grpo":
                loss = loss - s.advantage * ratios.mean() / len(mine)
            elif loss_type in ("dapo", "bnpo"):
                loss = loss - s.advantage * ratios.sum() / sum(
                    len(m.rollout.completion_ids) for m in kept
                )
            else:
                loss = loss - s.advantage * ratios.sum() / (50 * len(mine))
        loss = loss - entropy_coef * torch.cat(entropies).mean()
        loss.backward()
        wanted = {k: tiny.peft_parameter(twin, member, k).grad for k in found[member]}
        close(wanted, found[member], atol=1e-5)
        assert stats[member].loss == pytest.approx(loss.item(), rel=1e-4)
        assert stats[member].tokens == sum(len(s.rollout.completion_ids) for s in mine)


def test_a_member_without_rows_or_without_signal_is_not_moved(tiny):
    one = learner(tiny)
    batch = [s for s in samples(tiny, of=one) if s.member != "t1"]
    silent = [dataclasses.replace(s, advantage=0.0) if s.member == "t0" else s for s in batch]
    before = {m: weights(one, m) for m in one.members}
    stats = one.update(silent)
    assert equal(weights(one, "t1"), before["t1"])
    assert equal(weights(one, "t0"), before["t0"])
    assert not equal(weights(one, "s0"), before["s0"])
    assert [s.step for s in one.optimizer.states.values()] == [0, 0, 1]
    assert set(stats) == {"t0", "s0"}
    assert stats["t0"].grad_norm is None
    assert not stats["t0"].stepped
    assert stats["s0"].grad_norm > 0
    assert stats["s0"].stepped


def test_members_whose_rate_is_0_are_in_no_pass_and_change_nothing_for_others(tiny, monkeypatch):
    one, alone = learner(tiny, frozen=("t0", "t1")), learner(tiny)
    batch = samples(tiny, of=one)
    before, passed = weights(one, "t0"), []
    loss = one.forward_pass.loss
    monkeypatch.setattr(
        one.forward_pass, "loss", lambda rows, sums: passed.extend(rows) or loss(rows, sums)
    )
    stats = one.update(batch)
    alone.update([s for s in batch if s.member == "s0"])
    assert {row.sample.member for row in passed} == {"s0"}
    assert equal(weights(one, "t0"), before)
    assert equal(weights(one, "s0"), weights(alone, "s0"))
    assert set(stats) == {"t0", "t1", "s0"}
    assert stats["t0"].tokens > 0
    assert not stats["t0"].stepped
    assert stats["t0"].importance_sampling_ratio is None
    assert stats["s0"].importance_sampling_ratio == pytest.approx(1.0, abs=1e-4)


def test_statistics(tiny):
    one = learner(tiny)
    batch = samples(tiny, of=one)
    shifted = [with_text(s, logprobs=tuple(p - 1.0 for p in s.rollout.logprobs)) for s in batch]
    _, exact = gradients(one, batch)
    _, off = gradients(one, shifted)
    for member in one.members:
        assert exact[member].importance_sampling_ratio == pytest.approx(1.0, abs=1e-4)
        assert exact[member].mismatch_kl == pytest.approx(0.0, abs=1e-8)
        assert exact[member].logp_difference_max < 1e-4
        mine = [p for s in batch if s.member == member for p in s.rollout.logprobs]
        assert exact[member].entropy == pytest.approx(-sum(mine) / len(mine))
        assert off[member].importance_sampling_ratio == 2.0
        assert off[member].importance_sampling_clip_ratio == 1.0
        assert off[member].mismatch_kl == pytest.approx(torch.e - 2, rel=1e-3)
        assert off[member].loss == pytest.approx(2 * exact[member].loss, rel=1e-3)


def test_several_iterations_clip(tiny):
    one = learner(tiny, num_iterations=3, epsilon=0.01, epsilon_high=0.01, learning_rate=0.05)
    stats = one.update(samples(tiny, of=one))
    assert [s.step for s in one.optimizer.states.values()] == [3, 3, 3]
    assert all(s.clip_ratio > 0.1 for s in stats.values())


def test_state_continues_bit_for_bit(tiny, tmp_path):
    one = learner(tiny)
    first, second = (samples(tiny, 7, seed=1000 * i) for i in range(2))
    one.update(first)
    other = Learner(tiny.qwen(), ["x", "y", "z"], CONFIG, seed=99)
    for place in range(3):
        state = one.member_state(place)
        safetensors.torch.save_file(state.tensors, tmp_path / "state.safetensors")
        tensors = safetensors.torch.load_file(tmp_path / "state.safetensors")
        other.load_member(place, MemberState(state.name, tensors))
    assert other.members == one.members
    one.update(second)
    other.update(second)
    for place in range(3):
        mine, theirs = one.member_state(place), other.member_state(place)
        assert mine.name == theirs.name
        assert set(mine.tensors) == set(theirs.tensors)
        assert equal(mine.tensors, theirs.tensors)


def test_replace_starts_a_child_afresh(tiny):
    one = learner(tiny)
    one.update(samples(tiny, of=one))
    before = weights(one, "s0")
    one.replace("t1", one.export("s0"), "t1-child")
    assert one.members == ("t0", "t1-child", "s0")
    assert equal(weights(one, "t1-child"), before)
    assert [s.step for s in one.optimizer.states.values()] == [1, 0, 1]
    assert not any(t.any() for t in one.optimizer.states[1].exp_avg)
    with pytest.raises(ValueError, match="already a member named 's0'"):
        one.replace("t0", one.export("s0"), "s0")
    frozen = learner(tiny, frozen=("t0",))
    with pytest.raises(SelfplayError, match=r"t0 is frozen \(learner.frozen\) and cannot be repl"):
        frozen.replace("t0", frozen.export("s0"), "t2")
    frozen.replace("t0", frozen.export("s0"), "t0")  # as a warm start does
    assert equal(weights(frozen, "t0"), weights(frozen, "s0"))


def course(steps=11, **settings):
    config = LearnerConfig(**settings)
    return [config.schedule(step, steps) for step in range(1, steps + 1)]


def test_rates_fall_from_the_warm_up_to_the_least_and_stay_there():
    falling = {"lr_scheduler_type": "linear", "min_lr_rate": 0.3}
    assert course(**falling) == pytest.approx([1.0 - 0.07 * i for i in range(11)])
    assert LearnerConfig(**falling).schedule(50, 10) == pytest.approx(0.3)
    assert course(steps=1, lr_scheduler_type="linear") == [1.0]
    assert course() == pytest.approx([1.0 - 0.09 * i for i in range(11)])
    assert course(lr_scheduler_type="constant") == [1.0] * 11
    found = course(lr_scheduler_type="cosine", min_lr_rate=0.2)
    assert (found[0], found[5], found[10]) == pytest.approx((1.0, 0.6, 0.2))
    found = course(warmup_steps=3, min_lr_rate=0.0)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def once(*whom, phases=("solve",)):
    """Samples of the same tokens, one of each member and phase."""
    text = Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop")
    return [TrainingSample(who, text, 1.0, phase=p) for who in whom for p in phases]


def check_steps(learner, expected, samples, factor, **given):
    """Adam's first step has the size of its rate, whatever the gradient."""
    before = weights(learner)
    stats = learner.update(samples, factor, **given)
    after = weights(learner)
    for member, rate in expected.items():
        steps = [float((after[k] - before[k]).abs().max()) for k in after if k[:2] == member]
        assert max(steps) == pytest.approx(rate, rel=0.02)
        assert member not in stats or stats[member].learning_rate == rate


def test_role_and_factor_scale_the_step(tiny):
    one, rates = learner(tiny, teacher_learning_rate=2e-3), {"t0": 1e-3, "t1": 0.0, "s0": 5e-3}
    check_steps(one, rates, once("t0", "s0"), 0.5)


def test_members_may_have_rates_of_their_own(tiny):
    one, rates = learner(tiny, frozen=("t1",)), {"t0": 2e-3, "t1": 0.0, "s0": 5e-3}
    check_steps(one, rates, once("t0", "t1", "s0"), 0.5, rates={"t0": 4e-3, "t1": 1.0})
    for name, rate in (("s9", 1.0), ("s0", -1.0), ("s0", float("nan"))):
        with pytest.raises(SelfplayError, match=f"rates has {rate} for '{name}'; expected a num"):
            one.update(once("t0"), rates={name: rate})


def test_a_divergence_is_the_mean_over_the_tokens_that_it_is_taken_of(tiny):
    def divergence(*phases, **settings):
        one = learner(tiny, beta=0.1, **settings)
        return one.update(once("t0", phases=phases))["t0"].kl

    kl = divergence("solve")
    assert kl > 0.0
    assert divergence("solve", "propose") == pytest.approx(kl, rel=1e-3)
    assert divergence("solve", "propose", teacher_beta=0.0) == pytest.approx(kl, rel=1e-3)


@pytest.mark.parametrize("name", ["beta", "entropy_coef"])
def test_kl_and_entropy_of_proposals_alone_leave_solvers_as_they_were(tiny, name):
    """With a coefficient for each phase, a member moves as with that coefficient for both."""

    def after(who, **settings):
        one = learner(tiny, **settings)
        for _ in range(2):
            stats = one.update(once("t0", phases=["propose"]) + once("s0"))
        return weights(one, who), stats[who].kl

    split = {f"teacher_{name}": 0.5, name: 0.0}
    for who, both in (("t0", 0.5), ("s0", 0.0)):
        (found, kl), (wanted, whole_kl) = after(who, **split), after(who, **{name: both})
        assert equal(found, wanted)
        assert kl == whole_kl
    assert not equal(after("t0", **split)[0], after("t0")[0])
    assert LearnerConfig(**{name: 0.1}).beta_of("propose") == (0.1 if name == "beta" else 0.0)
