import dataclasses

import pytest
import safetensors.torch
import torch
from probabilities import logprobs

from learners import CONFIG, close, equal, gradients, learner, samples, weights, with_text
from lora_evo.model import Rollout
from selfplay.errors import SelfplayError
from selfplay.learning.learner import Learner, MemberState, TrainingSample


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
def test_gradients_equal_a_plain_loss_in_peft_for_each_member(tiny, loss_type):
    sampling = {"temperature": 0.7, "max_completion_length": 50}
    one = learner(tiny, more=sampling, loss_type=loss_type)
    batch = samples(tiny, of=one)
    twin = tiny.peft_twin(tiny.qwen(), one.adapters)
    found, stats = gradients(one, batch)
    for member in one.members:
        mine = [s for s in batch if s.member == member]
        twin.set_adapter(member)
        loss = 0.0
        for s in mine:
            logps = logprobs(twin, s.rollout.prompt_ids, s.rollout.completion_ids, 0.7)
            if loss_type == "grpo":
                loss = loss - s.advantage * logps.mean() / len(mine)
            elif loss_type in ("dapo", "bnpo"):
                loss = loss - s.advantage * logps.sum() / sum(
                    len(m.rollout.completion_ids) for m in mine
                )
            else:
                loss = loss - s.advantage * logps.sum() / (50 * len(mine))
        loss.backward()
        wanted = {k: tiny.peft_parameter(twin, member, k).grad for k in found[member]}
        close(wanted, found[member], atol=1e-5)
        assert stats[member].tokens == sum(len(s.rollout.completion_ids) for s in mine)


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("mask", [False, True])
def test_the_entropy_bonus_is_the_mean_over_tokens_for_every_loss(tiny, loss_type, mask):
    options = {"loss_type": loss_type, "mask_truncated_completions": mask}
    sampling = {"max_completion_length": 50}
    one = learner(tiny, more=sampling, entropy_coef=0.3, **options)
    plain = learner(tiny, more=sampling, **options)
    batch = samples(tiny, of=one)
    (found, stats), (without, others) = (gradients(m, batch) for m in (one, plain))
    twin = tiny.peft_twin(tiny.qwen(), one.adapters)
    for member in one.members:
        twin.set_adapter(member)
        entropies = []
        for s in batch:
            if s.member == member and not (mask and s.rollout.finish_reason == "length"):
                ids = torch.tensor([s.rollout.prompt_ids + s.rollout.completion_ids])
                table = twin(ids).logits[0, len(s.rollout.prompt_ids) - 1 : -1].log_softmax(-1)
                entropies.append(-(table.exp() * table).sum(-1))
        bonus = 0.3 * torch.cat(entropies).mean()
        bonus.backward()
        wanted = {
            k: without[member][k] - tiny.peft_parameter(twin, member, k).grad for k in found[member]
        }
        close(wanted, found[member], rtol=1e-3, atol=1e-5)
        assert stats[member].loss == pytest.approx(others[member].loss - bonus.item(), rel=1e-4)


def test_one_token_that_the_sampler_hardly_knew_does_not_drown_the_divergence(tiny):
    one = learner(tiny)
    sample = samples(tiny, of=one)[0]
    logps = (*sample.rollout.logprobs[:-1], sample.rollout.logprobs[-1] - 91.0)
    stats = one.update([with_text(sample, logprobs=logps)])[sample.member]
    assert 0 < stats.mismatch_kl < 22016 / len(logps)
    assert stats.mismatch_share == pytest.approx(1 / len(logps))
    assert stats.logp_difference_max == pytest.approx(91.0, abs=1e-3)


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
    one = learner(tiny, num_iterations=6, epsilon=0.01, epsilon_high=0.01, learning_rate=0.05)
    stats = one.update(samples(tiny, of=one))
    assert [s.step for s in one.optimizer.states.values()] == [6, 6, 6]
    assert all(s.clip_ratio > 0.1 for s in stats.values())


def test_state_continues_bit_for_bit(tiny, tmp_path):
    one = learner(tiny)
    batches = [samples(tiny, seed=1000 * i, of=one) for i in range(4)]
    for b in batches[:2]:
        one.update(b)
    other = Learner(tiny.qwen(), 0, ["x", "y", "z"], CONFIG, seed=99)
    for place in range(3):
        state = one.member_state(place)
        safetensors.torch.save_file(state.tensors, tmp_path / "state.safetensors")
        tensors = safetensors.torch.load_file(tmp_path / "state.safetensors")
        other.load_member(place, MemberState(state.name, tensors))
    assert other.members == one.members
    for b in batches[2:]:
        one.update(b)
        other.update(b)
    for place in range(3):
        mine, theirs = one.member_state(place), other.member_state(place)
        assert mine.name == theirs.name
        assert set(mine.tensors) == set(theirs.tensors)
        assert equal(mine.tensors, theirs.tensors)


def test_state_that_does_not_fit_is_refused_and_changes_nothing(tiny):
    one = learner(tiny)
    state = one.member_state(0)
    before = weights(one, "t0")
    tensors = {key: tensor + 1 for key, tensor in state.tensors.items()}
    del tensors[max(name for name in tensors if name.startswith("exp_avg"))]
    with pytest.raises(ValueError, match="found None"):
        one.load_member(0, MemberState("x", tensors))
    assert equal(weights(one, "t0"), before)


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


def test_wrong_samples(tiny):
    one = learner(tiny)
    good = TrainingSample("t0", Rollout("t0", (3,), (4, 5), (-1.0, -1.0), "stop"), 1.0)
    for wrong, message in [
        (with_text(good, prompt_ids=()), "has 0 prompt tokens"),
        (with_text(good, logprobs=(-1.0,)), "1 log-probabilities"),
        (
            dataclasses.replace(good, member="absent"),
            "'absent', which does not learn",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            one.update([good, wrong])
    assert one.update([]) == {}
    assert one.update([with_text(good, completion_ids=(), logprobs=())]) == {}
