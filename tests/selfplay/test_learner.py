import dataclasses

import msgspec
import pytest
import safetensors.torch
import torch
from probabilities import logprobs

from lora_evo.model import Rollout
from selfplay.errors import SelfplayError
from selfplay.learning.learner import Learner, LearnerConfig, MemberState, TrainingSample

CONFIG = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2)


def learner(tiny, members=None, sampling=None, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    members = members or tiny.members
    found = Learner(tiny.qwen(), 0, members, config, seed=3, base_model="nano", **(sampling or {}))
    tiny.shake(found.adapters)
    return found


def batch(tiny, learner, count=14, seed=0):
    """Samples of all members with uneven lengths, scored by the learner as its own sampler."""
    samples = []
    members = learner.members
    for i in range(count):
        ids = tiny.numbers(seed + i, 40).mul(1000).long().abs() % tiny.vocabulary
        cut, end = 3 + i % 5, 9 + (7 * i) % 31
        prompt, completion = tuple(ids[:cut].tolist()), tuple(ids[cut:end].tolist())
        place = learner.adapters.index(members[(0, 1, 1, 2, 0, 2, 1)[i % 7]])
        sampled = logprobs_of(learner, place, prompt, completion)
        advantage = float(tiny.numbers(seed + 500 + i, 1))
        samples.append(
            TrainingSample(
                learner.members[place],
                Rollout(
                    learner.members[place],
                    prompt,
                    completion,
                    tuple(sampled.tolist()),
                    "stop" if i % 4 else "length",
                ),
                advantage,
            )
        )
    return samples


@torch.no_grad()
def sampled(sample, **changes):
    """The sample with another rollout."""
    return dataclasses.replace(sample, rollout=dataclasses.replace(sample.rollout, **changes))


def logprobs_of(learner, place, prompt, completion):
    with learner.adapters.route([place]):
        return logprobs(learner.model, prompt, completion, learner.scorer.output.temperature)


def gradients(learner, samples, monkeypatch):
    """The gradients that each member's optimiser is shown in one update."""
    seen = {}
    monkeypatch.setattr(
        learner.optimizer,
        "step",
        lambda m, lr_factor, loss_scale: seen.__setitem__(m, grads(learner, m)) or (0.0, True),
    )
    stats = learner.update(samples)
    return {learner.members[m]: g for m, g in seen.items()}, stats


def grads(learner, member):
    return {k: p.grad.clone() for k, p in learner.adapters.parameters_of(member).items()}


def numbers(stats):
    """All numbers but what is None; no role."""
    plain = msgspec.to_builtins(stats)
    return {k: value for k, value in plain.items() if value is not None and k != "role"}


def weights(learner, member):
    place = learner.adapters.index(member)
    return {k: p.detach().clone() for k, p in learner.adapters.parameters_of(place).items()}


def same(one, other, **tolerance):
    if not tolerance:
        return all(torch.equal(v, other[k]) for k, v in one.items())
    return all(
        torch.allclose(v, other[k], atol=1e-5 * float(v.abs().max()), **tolerance)
        for k, v in one.items()
    )


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
def test_gradients_equal_a_plain_loss_in_peft_for_each_member(tiny, monkeypatch, loss_type):
    sampling = {"temperature": 0.7, "max_completion_length": 50}
    one = learner(tiny, sampling=sampling, loss_type=loss_type)
    samples = batch(tiny, one)
    twin = tiny.peft_twin(tiny.qwen(), one.adapters)
    found, stats = gradients(one, samples, monkeypatch)
    for member in one.members:
        mine = [s for s in samples if s.member == member]
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
        assert same(wanted, found[member], rtol=1e-4)
        assert stats[member].tokens == sum(len(s.rollout.completion_ids) for s in mine)


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("mask", [False, True])
def test_the_entropy_bonus_is_the_mean_over_tokens_for_every_loss(
    tiny, monkeypatch, loss_type, mask
):
    options = {"loss_type": loss_type, "mask_truncated_completions": mask}
    sampling = {"max_completion_length": 50}
    one = learner(tiny, sampling=sampling, entropy_coef=0.3, **options)
    plain = learner(tiny, sampling=sampling, **options)
    samples = batch(tiny, one)
    (found, stats), (without, others) = (gradients(m, samples, monkeypatch) for m in (one, plain))
    twin = tiny.peft_twin(tiny.qwen(), one.adapters)
    for member in one.members:
        twin.set_adapter(member)
        entropies = []
        for s in samples:
            if s.member == member and not (mask and s.rollout.finish_reason == "length"):
                ids = torch.tensor([s.rollout.prompt_ids + s.rollout.completion_ids])
                table = twin(ids).logits[0, len(s.rollout.prompt_ids) - 1 : -1].log_softmax(-1)
                entropies.append(-(table.exp() * table).sum(-1))
        bonus = 0.3 * torch.cat(entropies).mean()
        bonus.backward()
        wanted = {
            k: without[member][k] - tiny.peft_parameter(twin, member, k).grad for k in found[member]
        }
        assert same(wanted, found[member], rtol=1e-3)
        assert stats[member].loss == pytest.approx(others[member].loss - bonus.item(), rel=1e-4)


def test_one_token_that_the_sampler_hardly_knew_does_not_drown_the_divergence(tiny):
    one = learner(tiny)
    sample = batch(tiny, one)[0]
    logps = (*sample.rollout.logprobs[:-1], sample.rollout.logprobs[-1] - 91.0)
    stats = one.update([sampled(sample, logprobs=logps)])[sample.member]
    assert 0 < stats.mismatch_kl < 22016 / len(logps)
    assert stats.mismatch_share == pytest.approx(1 / len(logps))
    assert stats.logp_difference_max == pytest.approx(91.0, abs=1e-3)


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("mask", [False, True])
def test_micro_batches_change_nothing(tiny, monkeypatch, loss_type, mask):
    options = {"loss_type": loss_type, "mask_truncated_completions": mask}
    one = learner(tiny, **options)
    samples = batch(tiny, one)
    whole, stats = gradients(one, samples, monkeypatch)
    for budget in (1, 90, 300):
        cut = learner(tiny, micro_batch_tokens=budget, **options)
        parts, others = gradients(cut, samples, monkeypatch)
        for member in one.members:
            assert same(whole[member], parts[member], rtol=1e-4)
            assert numbers(stats[member]) == pytest.approx(
                numbers(others[member]), rel=1e-4, abs=2e-5
            )


def test_a_member_without_rows_or_without_signal_is_not_moved(tiny):
    one = learner(tiny)
    samples = [s for s in batch(tiny, one) if s.member != "t1"]
    silent = [dataclasses.replace(s, advantage=0.0) if s.member == "t0" else s for s in samples]
    before = {m: weights(one, m) for m in one.members}
    stats = one.update(silent)
    assert same(weights(one, "t1"), before["t1"])
    assert same(weights(one, "t0"), before["t0"])
    assert not same(weights(one, "s0"), before["s0"])
    assert [s.step for s in one.optimizer.states.values()] == [0, 0, 1]
    assert set(stats) == {"t0", "s0"}
    assert stats["t0"].grad_norm is None
    assert not stats["t0"].stepped
    assert stats["s0"].grad_norm > 0
    assert stats["s0"].stepped


def test_members_whose_rate_is_0_are_in_no_pass_and_change_nothing_for_others(tiny, monkeypatch):
    one, alone = learner(tiny, frozen=("t0", "t1")), learner(tiny)
    samples = batch(tiny, one)
    before, passed = weights(one, "t0"), []
    loss = one.forward_pass.loss
    monkeypatch.setattr(
        one.forward_pass, "loss", lambda rows, sums: passed.extend(rows) or loss(rows, sums)
    )
    stats = one.update(samples)
    alone.update([s for s in samples if s.member == "s0"])
    assert {row.sample.member for row in passed} == {"s0"}
    assert same(weights(one, "t0"), before)
    assert same(weights(one, "s0"), weights(alone, "s0"))
    assert set(stats) == {"t0", "t1", "s0"}
    assert stats["t0"].tokens > 0
    assert not stats["t0"].stepped
    assert stats["t0"].importance_sampling_ratio is None
    assert stats["s0"].importance_sampling_ratio == pytest.approx(1.0, abs=1e-4)


def test_statistics(tiny, monkeypatch):
    one = learner(tiny)
    samples = batch(tiny, one)
    shifted = [sampled(s, logprobs=tuple(p - 1.0 for p in s.rollout.logprobs)) for s in samples]
    _, exact = gradients(one, samples, monkeypatch)
    _, off = gradients(one, shifted, monkeypatch)
    for member in one.members:
        assert exact[member].importance_sampling_ratio == pytest.approx(1.0, abs=1e-4)
        assert exact[member].mismatch_kl == pytest.approx(0.0, abs=1e-8)
        assert exact[member].logp_difference_max < 1e-4
        mine = [p for s in samples if s.member == member for p in s.rollout.logprobs]
        assert exact[member].entropy == pytest.approx(-sum(mine) / len(mine))
        assert off[member].importance_sampling_ratio == 2.0
        assert off[member].importance_sampling_clip_ratio == 1.0
        assert off[member].mismatch_kl == pytest.approx(torch.e - 2, rel=1e-3)
        assert off[member].loss == pytest.approx(2 * exact[member].loss, rel=1e-3)


def test_several_iterations_clip(tiny):
    one = learner(tiny, num_iterations=6, epsilon=0.01, epsilon_high=0.01, learning_rate=0.05)
    stats = one.update(batch(tiny, one))
    assert [s.step for s in one.optimizer.states.values()] == [6, 6, 6]
    assert all(s.clip_ratio > 0.1 for s in stats.values())


def test_state_continues_bit_for_bit(tiny, tmp_path):
    one = learner(tiny)
    batches = [batch(tiny, one, seed=1000 * i) for i in range(4)]
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
        assert same(mine.tensors, theirs.tensors)


def test_state_that_does_not_fit_is_refused_and_changes_nothing(tiny):
    one = learner(tiny)
    state = one.member_state(0)
    before = weights(one, "t0")
    tensors = {key: tensor + 1 for key, tensor in state.tensors.items()}
    del tensors[max(name for name in tensors if name.startswith("exp_avg"))]
    with pytest.raises(ValueError, match="found None"):
        one.load_member(0, MemberState("x", tensors))
    assert same(weights(one, "t0"), before)


def test_replace_starts_a_child_afresh(tiny):
    one = learner(tiny)
    one.update(batch(tiny, one))
    before = weights(one, "s0")
    one.replace("t1", one.export("s0"), "t1-child")
    assert one.members == ("t0", "t1-child", "s0")
    assert same(weights(one, "t1-child"), before)
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
        (sampled(good, prompt_ids=()), "has 0 prompt tokens"),
        (sampled(good, logprobs=(-1.0,)), "1 log-probabilities"),
        (
            dataclasses.replace(good, member="absent"),
            "'absent', which does not learn",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            one.update([good, wrong])
    assert one.update([]) == {}
    assert one.update([sampled(good, completion_ids=(), logprobs=())]) == {}
